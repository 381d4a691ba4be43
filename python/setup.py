"""Puts the shared library into the package: the one that `make` built, or built now.

SPDX-License-Identifier: Apache-2.0
"""
import os
import shutil
import subprocess

from setuptools import Distribution, setup
from setuptools.command.build_py import build_py

here = os.path.dirname(os.path.abspath(__file__))
top = os.path.dirname(here)


class WithLibrary(build_py):
    def run(self):
        super().run()
        built = os.path.join(top, "build", "libcameo.so")
        if not os.path.exists(built):
            subprocess.check_call(["make", "-C", top, "-s", "-j%d" % (os.cpu_count() or 1), "lib"])
        shutil.copyfile(os.path.realpath(built), os.path.join(self.build_lib, "cameo", "libcameo.so"))


class Binary(Distribution):
    """The package holds machine code: its wheel is for one platform."""

    def has_ext_modules(self):
        return True


setup(cmdclass={"build_py": WithLibrary}, distclass=Binary)

"""What tests of the command share: running it, being refused, several cases with a folder each.

SPDX-License-Identifier: Apache-2.0
"""
import subprocess
import sys
import tempfile


def run(*command):
    """Standard output of a command that must succeed."""
    r = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    if r.returncode:
        raise SystemExit(f"{' '.join(command)}\nfails: {r.stderr}")
    return r.stdout


def refused(sentence, *command):
    """The command must end with code 2 and say this."""
    r = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert r.returncode == 2 and sentence in r.stderr, f"{' '.join(command)}: {r.returncode} {r.stderr}"


def run_cases(*cases):
    """Calls each with the command and an empty folder; the exit code for all."""
    cameo, wrong = sys.argv[1], 0
    for case in cases:
        with tempfile.TemporaryDirectory() as folder:
            try:
                case(cameo, folder)
                print(f"{case.__name__}: as it should")
            except AssertionError as e:
                wrong += 1
                print(f"{case.__name__}: {e}")
    return 1 if wrong else 0

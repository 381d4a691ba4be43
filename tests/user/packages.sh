#!/bin/sh
# packages.sh -- the tarball runs where it is unpacked, the Debian package holds what it says.
# SPDX-License-Identifier: Apache-2.0
#
# Usage: packages.sh BUILD_FOLDER
set -eu
cd "$(dirname "$0")/../.."
B=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
fail() { echo "FAIL: $*"; exit 1; }

tarball=$(make --no-print-directory -s dist B="$B" | tail -n 1)
tar -xzf "$tarball" -C "$folder"
top=$(echo "$folder"/cameo-*)
ldd "$top/bin/cameo" | grep -E 'jansson|pcre2|cpuinfo' | grep -qv "$top" && fail "the tarball's cameo takes libraries from elsewhere"
"$top/bin/cameo" devices | grep -q '^cpu' || fail "the tarball's cameo does not run"
"$top/bin/cameo" run examples/digits/digits.onnx examples/digits/digit-3.npy >"$folder/out" || fail "it runs no model"
CAMEO_LIBRARY='' PYTHONPATH="$top/python" .venv/bin/python -c 'import cameo' || fail "its Python package does not load"
PKG_CONFIG_PATH="$top/lib/pkgconfig" pkg-config --cflags cameo | grep -q "$top" || fail "its pkg-config names another place"

if command -v dpkg-deb >/dev/null; then
    package=$(make --no-print-directory -s deb B="$B" | tail -n 1)
    dpkg-deb -x "$package" "$folder/deb"
    for file in usr/bin/cameo usr/include/cameo.h usr/share/man/man1/cameo.1.gz usr/lib/python3/dist-packages/cameo/__init__.py; do
        [ -f "$folder/deb/$file" ] || fail "the Debian package lacks $file"
    done
    dpkg-deb -f "$package" Depends | grep -q 'libjansson4' || fail "the Debian package does not say what it needs"
fi

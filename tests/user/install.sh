# install.sh -- an installed Cameo: files in place, programs link with pkg-config and run, only
# cameo_* is exported, and uninstall leaves nothing.
# SPDX-License-Identifier: Apache-2.0
#
# Usage: tests/user/install.sh BUILD_FOLDER, from the top of the tree.
set -eu
B=$1
case $B in /*) ;; *) B=$PWD/$B ;; esac
root=$B/install-test
rm -rf "$root"
mkdir -p "$root"
put() { make -s install B="$B" DESTDIR="$root" PREFIX=/opt/cameo; }
put
put # twice is as good as once
there=$root/opt/cameo
export PKG_CONFIG_PATH="$there/lib/pkgconfig" PKG_CONFIG_SYSROOT_DIR="$root" LD_LIBRARY_PATH="$there/lib"

"$there/bin/cameo" --version
for f in include/cameo.h lib/libcameo.so.0 lib/libcameo-rt.so lib/libcameo.a share/man/man1/cameo.1 \
    share/bash-completion/completions/cameo share/doc/cameo/LICENSE; do
    [ -e "$there/$f" ] || { echo "$f was not installed"; exit 1; }
done

for lib in cameo cameo-rt; do
    stray=$(nm -D --defined-only "$there/lib/lib$lib.so" | awk '{print $3}' | grep -v '^cameo_' || true)
    [ -z "$stray" ] || { echo "lib$lib exports:" $stray; exit 1; }
done
nm -D --defined-only "$there/lib/libcameo-rt.so" | grep -q cameo_engine_open_file
! nm -D --defined-only "$there/lib/libcameo-rt.so" | grep -q cameo_network_

# One program with each library, shared and static.
"$there/bin/cameo" build examples/digits/digits.onnx --output "$root/digits.plan" --quiet
cc=${CC:-cc}
for static in '' --static; do
    # shellcheck disable=SC2046,SC2086
    for lib in cameo cameo-rt; do
        if [ -n "$static" ]; then
            libs="$there/lib/lib$lib.a $(pkg-config --static --libs-only-l --libs-only-other $lib |
                sed "s/-l$lib //")"
        else
            libs=$(pkg-config --libs $lib)
        fi
        $cc -std=c11 examples/digits/digits.c $(pkg-config --cflags $lib) -o "$root/digits" $libs
        "$root/digits" "$root/digits.plan" examples/digits/digit-7.npy | grep -q ' 7   9'
    done
done
# The compiling half through pkg-config.
# shellcheck disable=SC2046
$cc -std=c11 examples/dynamic/dynamic.c $(pkg-config --cflags --libs cameo) -o "$root/dynamic"
"$root/dynamic" | grep -q 'whose watcher agrees: ok'

make -s uninstall B="$B" DESTDIR="$root" PREFIX=/opt/cameo
left=$(find "$there" ! -type d)
[ -z "$left" ] || { echo "uninstall left: $left"; exit 1; }
rm -rf "$root"

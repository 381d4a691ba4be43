# documents.sh -- the generated documents in the tree are those that this program prints.
# SPDX-License-Identifier: Apache-2.0
#
# Usage: tests/user/documents.sh BUILD_FOLDER, from the top of the tree.
set -eu
B=$1
same() { # same KIND FILE
    "$B/cameo" documents "$1" | cmp -s - "$2" || { echo "$2 is old: make docs"; exit 1; }
}
same ops docs/ops.md
same man share/man/man1/cameo.1
same completion share/bash-completion/cameo
bash -n share/bash-completion/cameo

# The completion offers verbs, options and files.
offers() { # offers WORD... : the last one is being completed
    bash -c '. share/bash-completion/cameo; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _cameo 2>/dev/null
             echo "${COMPREPLY[@]}"' bash "$@"
}
[ "$(offers cameo ben)" = bench ]
[ "$(offers cameo bench --dura)" = --duration ]
[ "$(offers cameo run README.m)" = README.md ]

# Every verb explains itself, with examples, and every option of its help is in the man page.
for verb in $("$B/cameo" --help | sed -n 's/^  \([a-z-]*\) .*/\1/p'); do
    "$B/cameo" "$verb" --help >"$B/help.txt"
    grep -q '^Examples:' "$B/help.txt"
    grep -q "^  cameo $verb" "$B/help.txt"
    grep -q "cameo $(echo "$verb" | sed 's/-/\\\\-/g')" share/man/man1/cameo.1
done

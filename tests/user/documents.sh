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
same passes docs/passes.md
same man share/man/man1/cameo.1
same completion share/bash-completion/cameo
same commands docs/commands.md
"$B/cameo" documents trtexec >"$B/flags.txt"
sed -n '/^## Flags that do something/,$p' docs/trtexec.md | cmp -s - "$B/flags.txt" ||
    { echo "docs/trtexec.md is old: make docs"; exit 1; }
bash -n share/bash-completion/cameo

# Every pass of docs/passes.md has the file that it names.
for f in $(sed -n 's/.*(\.\.\/\(src\/passes\/[a-z0-9_\/]*\.c\)).*/\1/p' docs/passes.md); do
    [ -f "$f" ] || { echo "docs/passes.md names $f, which is not there"; exit 1; }
done

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

# Every option has an effect and an example, the same ones in the man page and in docs/; each example parses.
n=0
for verb in $("$B/cameo" --help | sed -n 's/^  \([a-z-]*\) .*/\1/p'); do
    "$B/cameo" "$verb" --help | sed -n 's/^  --\([A-Za-z0-9-]*\).*/\1/p' | grep -v '^help$' >"$B/options.txt" || continue
    sed -n "/^## cameo $verb\$/,/^Examples:/p" docs/commands.md >"$B/section.txt"
    while read -r option; do
        row=$(grep -E "^\| \`--$option( [^\`]*)?\` \| [^|]+ \| \`cameo $verb [^|]*--$option\b.*\` \|\$" "$B/section.txt") ||
            { echo "docs/commands.md: cameo $verb --$option has no effect or no example"; exit 1; }
        example=$(echo "$row" | sed 's/.*| `cameo \(.*\)` |$/\1/')
        grep -qxF -- "Example: cameo $(echo "$example" | sed 's/-/\\-/g')" share/man/man1/cameo.1 ||
            { echo "the man page lacks: $example"; exit 1; }
        eval "'$B/cameo' $example --help" >"$B/help.txt" || { echo "does not parse: cameo $example"; exit 1; }
        n=$((n + 1))
    done <"$B/options.txt"
done
[ $n -gt 200 ] || { echo "only $n options"; exit 1; }

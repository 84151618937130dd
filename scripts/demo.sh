#!/usr/bin/env bash
# Builds the release and shows the format tools on a generated file, until there is a server to run.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

export PATH="$PATH:${CARGO_HOME:-${HOME:-/root}/.cargo}/bin"
target_dir="${CARGO_TARGET_DIR:-target}"
case "$target_dir" in /*) ;; *) target_dir="$PWD/$target_dir" ;; esac

if [ ! -d crates/cli ]; then
    echo "There is nothing to run yet: the drystone command is being written. Try: make test" >&2
    exit 1
fi
cargo build --release -p drystone -p drystone-testkit --bins

demo="$(mktemp -d)"
trap 'rm -rf "$demo"' EXIT
cd "$demo"
PATH="$target_dir/release:$PATH"

show() {
    printf '\n$ %s\n' "$*"
    "$@"
}

show drystone --help
"$target_dir/release/corpus" mixed model.bin 16
show drystone hash model.bin
show drystone hash --json --sha256 model.bin

# A byte in front moves every byte of the file, and only the first chunk changes.
{ printf '!'; cat model.bin; } >edited.bin
printf '\n$ drystone chunks model.bin | head -n 4\n'
drystone chunks model.bin >model.chunks
head -n 4 model.chunks
drystone chunks edited.bin >edited.chunks
hashes() { grep -oE '[0-9a-f]{64}' "$1" | sort -u; }
printf '\nmodel.bin has %s chunks; edited.bin is model.bin with one byte in front, and shares %s of them.\n' \
    "$(hashes model.chunks | wc -l)" "$(comm -12 <(hashes model.chunks) <(hashes edited.chunks) | wc -l)"

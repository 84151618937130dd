#!/usr/bin/env bash
# Fuzzes every target, or those named, for FUZZ_SECONDS each. Seeds are in fuzz/corpus; finds stay out of the tree.
#
# One target is one test. It ends with a line `fuzz: N passed, M failed`. A crash leaves its input in fuzz/artifacts.
# FUZZ_SANITIZER is address (the default), leak, memory, thread or none. How to go on from a crash: fuzz/README.md.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

export PATH="$PATH:${CARGO_HOME:-${HOME:-/root}/.cargo}/bin"
export CARGO_TERM_COLOR=never
# Freed memory that the sanitizer holds back must not count as a leak against the limit below.
export ASAN_OPTIONS="quarantine_size_mb=32:${ASAN_OPTIONS:-}"
seconds="${FUZZ_SECONDS:-60}"
sanitizer="${FUZZ_SANITIZER:-address}"

if [ "$#" -gt 0 ]; then
    targets=("$@")
else
    mapfile -t targets < <(cargo +nightly fuzz list)
fi
[ "${#targets[@]}" -gt 0 ] || { echo "no fuzz targets found" >&2; exit 1; }

finds="$(mktemp -d)"
trap 'rm -rf "$finds"' EXIT

echo "building ${#targets[@]} fuzz targets"
if [ "$#" -eq 1 ]; then
    cargo +nightly fuzz build --sanitizer "$sanitizer" "$1"
else
    cargo +nightly fuzz build --sanitizer "$sanitizer"
fi

passed=0
failed=0
for target in "${targets[@]}"; do
    mkdir -p "$finds/$target"
    # The first folder takes new finds, the others are only read.
    corpora=("$finds/$target")
    [ -d "fuzz/corpus/$target" ] && corpora+=("fuzz/corpus/$target")
    log="$finds/$target.log"
    if cargo +nightly fuzz run --sanitizer "$sanitizer" "$target" "${corpora[@]}" -- \
        "-max_total_time=$seconds" -timeout=20 -rss_limit_mb=512 -print_final_stats=1 >"$log" 2>&1; then
        runs="$(awk '/number_of_executed_units/ { print $2 }' "$log")"
        printf '  %-14s %s runs, no crash\n' "$target" "${runs:-?}"
        passed=$((passed + 1))
    else
        printf '  %-14s FAILED\n' "$target"
        tail -n 60 "$log"
        failed=$((failed + 1))
    fi
done
echo "fuzz: $passed passed, $failed failed"
[ "$failed" -eq 0 ]

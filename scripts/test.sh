#!/usr/bin/env bash
# Runs every test there is and ends with one line: `N passed, M failed`.
#
# A runner that breaks before it can count counts as one failure, so nothing fails silently. What cannot run
# here is named on a line that begins with "skipped".
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

export PATH="$PATH:${CARGO_HOME:-${HOME:-/root}/.cargo}/bin"
export CARGO_TERM_COLOR=never
export FUZZ_SECONDS="${FUZZ_SECONDS:-5}"
target_dir="${CARGO_TARGET_DIR:-target}"
logs="$(mktemp -d)"
trap 'rm -rf "$logs"' EXIT

passed_total=0
failed_total=0
skipped=()

say() { printf '\n==> %s\n' "$*"; }

# run NAME COUNTER COMMAND...: shows and keeps the output, then lets COUNTER set `passed` and `failed` from it.
run() {
    local name="$1" counter="$2" status=0 passed=0 failed=0
    shift 2
    say "$name"
    "$@" 2>&1 | tee "$logs/$name" || status=$?
    "$counter" "$logs/$name"
    if [ "$status" -ne 0 ] && [ "$failed" -eq 0 ]; then
        echo "$name: stopped with status $status before it could count a failure"
        failed=1
    fi
    if [ "$status" -eq 0 ] && [ "$((passed + failed))" -eq 0 ] && [ "$name" != "doc tests" ]; then
        echo "$name: ran no tests"
        failed=1
    fi
    passed_total=$((passed_total + passed))
    failed_total=$((failed_total + failed))
}

skip() {
    say "skipped: $*"
    skipped+=("$*")
}

# Summary [   0.1s] 12 tests run: 11 passed (1 slow), 1 failed, 0 skipped
count_nextest() {
    local line
    line="$(grep -E '^ *Summary \[' "$1" | tail -n 1 || true)"
    if [[ "$line" =~ ([0-9]+)(/[0-9]+)?\ tests?\ run: ]]; then
        local ran="${BASH_REMATCH[1]}"
        if [[ "$line" =~ ([0-9]+)\ passed ]]; then passed="${BASH_REMATCH[1]}"; fi
        failed=$((ran - passed))
    fi
}

# test result: ok. 3 passed; 0 failed; 0 ignored; ... (one line for each test binary)
count_libtest() {
    read -r passed failed < <(awk '
        /^test result:/ { for (i = 2; i <= NF; i++) { if ($i ~ /^passed/) p += $(i - 1); if ($i ~ /^failed/) f += $(i - 1) } }
        END { print p + 0, f + 0 }' "$1")
}

# name: 40 passed, 0 failed
count_plain() {
    read -r passed failed < <(awk '
        /^[a-z_ ]+: [0-9]+ passed, [0-9]+ failed$/ { p += $(NF - 3); f += $(NF - 1) }
        END { print p + 0, f + 0 }' "$1")
}

rust_tests() {
    if command -v cargo-nextest >/dev/null; then
        run "unit and integration tests" count_nextest \
            cargo nextest run --workspace --no-fail-fast --status-level slow --final-status-level fail
    else
        run "unit and integration tests" count_libtest \
            cargo test --workspace --no-fail-fast --quiet --lib --bins --tests --examples
    fi
    run "xet with portable kernels" count_xet_portable portable_kernels
    run "doc tests" count_libtest cargo test --workspace --no-fail-fast --quiet --doc
}

# The twins of all kernels, which other processors run.
portable_kernels() {
    if command -v cargo-nextest >/dev/null; then
        cargo nextest run -p drystone-xet --features portable --no-fail-fast --status-level slow --final-status-level fail
    else
        cargo test -p drystone-xet --features portable --no-fail-fast --quiet --lib --tests
    fi
}

count_xet_portable() {
    if command -v cargo-nextest >/dev/null; then count_nextest "$1"; else count_libtest "$1"; fi
}

hf_xet_agreement() {
    if [ ! -d crates/cli ]; then
        skip "agreement with hf_xet: the drystone command does not exist yet"
    elif [ "${SKIP_HF_XET:-}" = 1 ]; then
        skip "agreement with hf_xet: SKIP_HF_XET=1"
    else
        run "agreement with hf_xet" count_plain agree
        run "round trip with hf_xet" count_plain round_trip
        run "the Hub with huggingface_hub" count_plain hub
        run "push and pull with huggingface_hub" count_plain repos
        run "memory of the client" count_plain memory
        run "the Hub with older pairs" count_plain old_hub
        run "the Hub with datasets, transformers and pandas" count_plain libraries
        run "the Hub with huggingface.js" count_plain js
        run "the Hub with git-lfs" count_plain git_lfs
        run "old hf_xet clients" count_plain old_clients
        run "push, then hf_xet" count_plain push_then_hf_xet
        run "hf_xet, then pull" count_plain hf_xet_then_pull
    fi
}

# The Rust tests have built the programs already. Building them alone would be with other features of the libraries, and
# take as long again.
agree() {
    .venv/bin/python tests/hf_xet/agree.py "$target_dir/debug/drystone"
}

round_trip() {
    .venv/bin/python tests/hf_xet/roundtrip.py "$target_dir/debug/drystone" "$target_dir/debug/s3d"
}

hub() {
    .venv/bin/python tests/hub/hub.py "$target_dir/debug/drystone" "$target_dir/debug/s3d"
}

old_hub() {
    .venv/bin/python tests/hub/old_hub.py "$target_dir/debug/drystone" .venv/old/hub-*
}

libraries() {
    .venv/bin/python tests/hub/libraries.py "$target_dir/debug/drystone"
}

js() {
    .venv/bin/python tests/hub/js.py "$target_dir/debug/drystone" .venv/js
}

git_lfs() {
    .venv/bin/python tests/hub/git_lfs.py "$target_dir/debug/drystone"
}

repos() {
    .venv/bin/python tests/hub/repos.py "$target_dir/debug/drystone"
}

# At a fiftieth of the size that bench/memory.py measures by itself.
memory() {
    .venv/bin/python bench/memory.py "$target_dir/debug/drystone" --scale 0.02
}

old_clients() {
    .venv/bin/python tests/hf_xet/old_clients.py "$target_dir/debug/drystone" .venv/old/hf_xet-*
}

push_then_hf_xet() {
    .venv/bin/python tests/hf_xet/push.py "$target_dir/debug/drystone"
}

hf_xet_then_pull() {
    .venv/bin/python tests/hf_xet/pull.py "$target_dir/debug/drystone"
}

# Pictures of all pages are left beside what was built.
pages() {
    .venv/bin/python tests/web/pages.py "$target_dir/debug/drystone" "$target_dir/debug/shardpack" .venv/browser "$target_dir/screenshots"
}

web() {
    if [ "${SKIP_HF_XET:-}" = 1 ]; then
        skip "pages in a browser: SKIP_HF_XET=1"
    elif ! command -v chromium >/dev/null; then
        skip "pages in a browser: there is no chromium (make setup installs it)"
    else
        run "pages in a browser" count_plain pages
    fi
}

# Callers who know the protocol, against the real program.
attacks() {
    python3 tests/security/attacks.py "$target_dir/debug/drystone"
}

# Mixed encodings, in our kernels and in planted ones.
kernels() {
    python3 tests/kernels/run.py "$target_dir/debug/examples/kernels"
}

# Packs read by a reader in plain Python that knows the page and not the code.
pack_reader() {
    python3 tests/shardpack/reader.py "$target_dir/debug/shardpack"
}

# What people import, as they install it: from a wheel, built as quickly as the programs of the other tests.
python_tests() {
    if [ "${SKIP_HF_XET:-}" = 1 ]; then
        skip "the Python packages: SKIP_HF_XET=1"
        return
    fi
    run "packs from python" count_plain packs_from_python
    run "the Hub from python" count_plain .venv/bin/python tests/python/hub.py "$target_dir/debug/drystone"
    run "datasets in Parquet" count_plain .venv/bin/python tests/python/parquet.py "$target_dir/debug/shardpack"
    if [ -f .venv/torch/peers ]; then
        run "packs in torch" count_plain in_torch tests/python/loader.py
        run "datasets of others" count_plain in_torch tests/python/peers.py "$target_dir/debug/shardpack"
    else
        skip "packs in torch and datasets of webdataset and mosaicml-streaming: there is no torch for this Python (make setup says why)"
    fi
}

packs_from_python() {
    # Joined by hand: in a pipe of `run` a failure would not end the function, and an older wheel would be tested.
    rm -rf "$target_dir/wheels" &&
        .venv/bin/maturin build --quiet --manifest-path python/Cargo.toml --out "$target_dir/wheels" &&
        install_wheel .venv/bin/python &&
        .venv/bin/python tests/python/pack.py
}

in_torch() {
    install_wheel .venv/torch/bin/python && .venv/torch/bin/python -W ignore "$@"
}

install_wheel() {
    "$1" -m pip install --quiet --disable-pip-version-check --force-reinstall --no-deps "$target_dir"/wheels/drystone-*.whl
}

# What people read and what they install. The guide needs the wheel that the tests of Python put into .venv.
pages_and_packages() {
    if [ "${SKIP_HF_XET:-}" = 1 ]; then
        skip "the commands of the guide, and packages: SKIP_HF_XET=1"
        return
    fi
    run "the guide" count_plain guide
    run "packages" count_plain .venv/bin/python tests/packaging/run.py "$target_dir/debug" .venv/packaging
    local reason
    while read -r reason; do
        skipped+=("$reason")
    done < <(sed -n 's/^skipped: //p' "$logs/the guide" "$logs/packages")
}

guide() {
    local torch=()
    [ -f .venv/torch/peers ] && torch=(--torch .venv/torch/bin/python)
    .venv/bin/python tests/guide/run.py "$target_dir/debug/drystone" "$target_dir/debug/s3d" "${torch[@]}"
}

fuzzing() {
    if ! cargo +nightly --version >/dev/null 2>&1; then
        skip "fuzzing: there is no nightly toolchain (rustup toolchain install nightly)"
    elif ! command -v cargo-fuzz >/dev/null; then
        skip "fuzzing: there is no cargo-fuzz (make setup installs it)"
    else
        run "fuzzing, $FUZZ_SECONDS s each" count_plain scripts/fuzz.sh
    fi
}

# The same order as testkit::vectors looks in; passing tests keep their output to themselves.
name_vectors() {
    if [ -n "${DRYSTONE_VECTORS:-}" ]; then
        say "golden vectors: $DRYSTONE_VECTORS (DRYSTONE_VECTORS)"
    elif [ -f ../shared/vectors/manifest.json ]; then
        say "golden vectors: the full set, ../shared/vectors"
    else
        say "golden vectors: the committed part, testdata/vectors"
    fi
}

name_vectors
rust_tests
run "encodings of kernels" count_plain kernels
hf_xet_agreement
run "shardpack reader" count_plain pack_reader
run "one record more" count_plain python3 tests/shardpack/dedup.py "$target_dir/debug/shardpack" "$target_dir/debug/drystone"
run "attacks" count_plain attacks
web
python_tests
pages_and_packages
fuzzing

echo
for reason in "${skipped[@]}"; do
    echo "skipped: $reason"
done
echo "$passed_total passed, $failed_total failed"
[ "$failed_total" -eq 0 ]

#!/usr/bin/env bash
# Makes the tarball of a release: the same sources and programs give the same bytes.
#
# DIST_BIN: a folder of built programs, in place of building the release. DIST_OUT: where the tarball goes [target/dist].
# SOURCE_DATE_EPOCH: the time of every file [that of the last commit].
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
umask 022

target="${CARGO_TARGET_DIR:-target}"
out="${DIST_OUT:-$target/dist}"
if [ -z "${DIST_BIN:-}" ]; then
    cargo build --release --locked -p drystone
    DIST_BIN="$target/release"
fi
version="$("$DIST_BIN/drystone" --version | cut -d ' ' -f 2)"
name="drystone-$version-$(uname -m)-linux"
epoch="${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 0)}"

stage="$(mktemp -d)"
trap 'rm -rf "$stage"' EXIT
packaging/stage.sh "$DIST_BIN" "$stage/$name"
# Where people look first.
cp "$stage/$name/share/doc/drystone/"{README.md,LICENSE-MIT,LICENSE-APACHE} "$stage/$name/"
(cd "$stage/$name" && find . -type f ! -name SHA256SUMS -printf '%P\n' | LC_ALL=C sort | xargs -d '\n' sha256sum >"$stage/SHA256SUMS")
mv "$stage/SHA256SUMS" "$stage/$name/SHA256SUMS"

mkdir -p "$out"
tar --create --directory "$stage" --sort=name --mtime="@$epoch" --owner=0 --group=0 --numeric-owner --format=gnu "$name" |
    gzip --no-name -6 >"$out/$name.tar.gz"
(cd "$out" && sha256sum "$name.tar.gz" >"$name.tar.gz.sha256")
echo "$out/$name.tar.gz"

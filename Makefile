# The front door. `make` or `make help` lists the targets.

SHELL := /usr/bin/env bash
.DEFAULT_GOAL := help

FUZZ_SECONDS ?= 60
TARGET ?=
BENCH_ARGS ?=
SERVERS_ARGS ?=
HUB_ARGS ?=
PACKS_ARGS ?=
DEMO_ARGS ?=

.PHONY: help run demo test test-rgw check lint sim stress bench bench-servers bench-clients bench-hub bench-packs bench-sweep fuzz wheel dist deb install clean setup

help: ## list the targets
	@awk 'BEGIN { FS = ":.*## " } /^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: ## build it and start a server on ./drystone-data
	cargo build --release -p drystone
	target/release/drystone serve --data drystone-data

demo: ## build it and show what a hub does: push, change, push, pull, pack, read (DEMO_ARGS="--keep DIR")
	cargo build --release -p drystone
	"$${CARGO_TARGET_DIR:-target}"/release/drystone demo $(DEMO_ARGS)

test: setup ## install what the tests need, then run all of them
	@scripts/test.sh

test-rgw: setup ## run the tests of buckets against a Ceph gateway (installs it; needs root)
	scripts/rgw.sh cargo nextest run -p drystone-store -p drystone-server -p drystone \
	  -E 'test(objects::tests::live) + binary(cas) + test(replicas)'

check: setup lint ## format, clippy and documentation without a warning, then all tests
	@scripts/test.sh

lint: ## format, clippy, documentation, module cycles, retired words and the encodings of the kernels without a warning
	scripts/check-modules.py --self-test
	scripts/check-modules.py
	scripts/check-words.py --self-test
	scripts/check-words.py
	cargo fmt --all --check
	rustfmt --check --edition 2024 fuzz/fuzz_targets/*.rs
	cargo clippy --workspace --all-targets -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps
	cargo build --quiet -p drystone-xet --example kernels
	scripts/check-kernels.py "$${CARGO_TARGET_DIR:-target}"/debug/examples/kernels

sim: ## simulate sweeps beside writers with 10,000 seeds (SEEDS=…)
	CARGO_PROFILE_DEV_OPT_LEVEL=1 DRYSTONE_SIM_SEEDS="$${SEEDS:-10000}" cargo nextest run -p drystone-store --test sim

stress: ## writers, readers and sweepers for ten minutes on each database (SECONDS_EACH=…), then 100 kills
	DRYSTONE_STRESS_S="$${SECONDS_EACH:-600}" cargo nextest run -p drystone-store --test stress --no-capture
	DRYSTONE_KILLS=100 cargo nextest run -p drystone --test maintenance --no-capture

bench: bench-servers bench-clients bench-hub bench-packs bench-sweep ## measure against hf_xet on 2 GiB and on 10,000 small files (BENCH_ARGS="--scale 0.05" is quick)
	.venv/bin/python bench/run.py $(BENCH_ARGS)

bench-servers: setup ## measure the server with the hf_xet client (SERVERS_ARGS="--scale 0.01 --rounds 1" is quick)
	cargo build --release -p drystone -p drystone-testkit --bins
	cargo build --release -p drystone-store --example fill
	.venv/bin/python bench/servers.py $(SERVERS_ARGS)

bench-clients: setup ## measure our client against hf_xet (CLIENTS_ARGS="--scale 0.1 --rounds 1" is quick), and its memory
	cargo build --release -p drystone -p drystone-testkit --bins
	.venv/bin/python bench/clients.py $(CLIENTS_ARGS)
	.venv/bin/python bench/memory.py target/release/drystone --scale $(or $(MEMORY_SCALE),1)

bench-hub: setup ## measure the Hub side beside nginx (HUB_ARGS="--scale 0.05 --rounds 1" is quick; needs nginx)
	cargo build --release -p drystone -p drystone-testkit --bins
	.venv/bin/python bench/hub.py $(HUB_ARGS)

bench-packs: wheel ## measure packs from Python against plain reads and bagz (PACKS_ARGS="--rounds 1" is quick)
	.venv/bin/python -m pip install --quiet --disable-pip-version-check --force-reinstall --no-deps "$${CARGO_TARGET_DIR:-target}"/wheels/drystone-*.whl
	-.venv/bin/python -m pip install --quiet --disable-pip-version-check bagz
	.venv/bin/python bench/packs.py $(PACKS_ARGS)

bench-sweep: setup ## measure sweeps of a large catalog, deep verification and what they cost others (SWEEP_ARGS="--scale 0.05 --rounds 1" is quick)
	cargo build --release -p drystone --bins
	cargo build --release -p drystone-store --example fill
	cargo build --release -p drystone-xet --example kernels
	.venv/bin/python bench/sweep.py $(SWEEP_ARGS)

fuzz: ## fuzz each parser for FUZZ_SECONDS=60 (TARGET=name for one)
	@FUZZ_SECONDS="$(FUZZ_SECONDS)" scripts/fuzz.sh $(TARGET)

wheel: setup ## build the Python wheel into target/wheels (imports drystone and shardpack)
	.venv/bin/maturin build --release --locked --manifest-path python/Cargo.toml
	@ls "$${CARGO_TARGET_DIR:-target}"/wheels/*.whl

dist: ## build the release and pack it: programs, manual pages, completions, checksums (DIST_BIN=target/debug packs what is built)
	@packaging/dist.sh

deb: ## build the release as a Debian package
	@packaging/deb.sh

install: ## install the command line tools into cargo's bin folder
	cargo install --locked --path crates/cli

clean: ## remove everything that was built or generated
	cargo clean
	rm -rf .venv bench/work fuzz/target fuzz/artifacts fuzz/coverage

setup: ## install what the tests need (system packages, Python environment, cargo-fuzz)
	@scripts/setup.sh

#!/usr/bin/env bash
# Passes every test of the project. What the tests need besides Rust and a C compiler (tshark for
# the dissectors, C++ for its example, ip, nft and ethtool for network namespaces and their faults,
# pyarrow and NumPy for the files, scapy for RoCEv2, hunspell for the docs, Java and Maven for
# Kafka) is installed first.
set -euo pipefail
cd "$(dirname "$0")"

# Each step shows how long the tests have taken so far.
say() { printf '\n== %d:%02d %s\n' $((SECONDS / 60)) $((SECONDS % 60)) "$*"; }

need_packages=()
command -v tshark >/dev/null || need_packages+=(tshark)
command -v c++ >/dev/null || need_packages+=(g++)
command -v ip >/dev/null || need_packages+=(iproute2)
command -v nft >/dev/null || need_packages+=(nftables)
command -v ethtool >/dev/null || need_packages+=(ethtool)
hunspell -d en_GB -l </dev/null 2>/dev/null || need_packages+=(hunspell hunspell-en-gb)
python3 -c 'import venv, ensurepip' 2>/dev/null || need_packages+=(python3-venv)
if [ ${#need_packages[@]} -gt 0 ]; then
  say "installing ${need_packages[*]}"
  elevate=""
  [ "$(id -u)" = 0 ] || elevate="sudo"
  $elevate apt-get update -qq
  DEBIAN_FRONTEND=noninteractive $elevate apt-get install -y -qq "${need_packages[@]}" >/dev/null
fi

venv="$PWD/target/venv"
if ! "$venv/bin/python" -c 'import pyarrow, numpy, scapy' 2>/dev/null; then
  say "installing pyarrow, NumPy and scapy into target/venv"
  python3 -m venv "$venv"
  "$venv/bin/pip" install --quiet --disable-pip-version-check pyarrow numpy scapy
fi

# With these two, a test that lacks a tool fails instead of skipping.
export FLUXLINE_REQUIRE_TOOLS=1
export FLUXLINE_PYTHON="$venv/bin/python"

say "Java, Kafka and its Python modules"
tools/kafka/test.sh --prepare

# Kafka's tests in the same build: alone they would compile most dependencies a second time, with
# other features.
say "tests of all crates, documentation examples and a Kafka broker of our own among them"
flags=(--workspace --locked --features fluxline-cli/kafka-tls)
# With arguments, for example a test's name, cargo runs the programs one after another.
if [ $# -gt 0 ]; then cargo test "${flags[@]}" "$@"; else tools/run_tests.py -- "${flags[@]}"; fi

say "the Python package: its wheel, its tests"
tools/python/test.sh --quiet
say "rings, channels, slots and bells in every order of their steps (loom)"
RUSTFLAGS="--cfg loom" CARGO_TARGET_DIR=target/loom \
  cargo test --locked --release -p fluxline --lib loom_

say "all tests passed"

#!/usr/bin/env bash
# Tests the project.
#
#   ./test.sh              quick: what needs no broker, namespace, virtual machine or browser
#   ./test.sh all          all tests: also those, the Python package and loom (root; CI runs this)
#   ./test.sh NAME...      the quick tests with this name; further arguments are cargo's
#
# What the tests need besides Rust and a C compiler is installed first: tshark for the dissectors, C++
# for its example, hunspell for the docs, pyarrow and NumPy for the files, scapy for RoCEv2; for all
# tests ip, nft and ethtool, mosquitto, Java and Kafka, Debian's kernel and qemu, chromium and
# Node.js.
set -euo pipefail
cd "$(dirname "$0")"

# Each step shows how long the tests have taken so far.
say() { printf '\n== %d:%02d %s\n' $((SECONDS / 60)) $((SECONDS % 60)) "$*"; }

tier=quick
if [ "${1:-}" = all ]; then tier=all && shift; fi

needs=()
need() { command -v "$1" >/dev/null || needs+=("$2"); }
need tshark tshark
need c++ g++
hunspell -d en_GB -l </dev/null 2>/dev/null || needs+=(hunspell hunspell-en-gb)
python3 -c 'import venv, ensurepip' 2>/dev/null || needs+=(python3-venv)
if [ $tier = all ]; then
  need ip iproute2
  need nft nftables
  need ethtool ethtool
  PATH="$PATH:/usr/sbin" need mosquitto mosquitto
  need chromium chromium
  need node nodejs
  need npm npm
fi
if [ ${#needs[@]} -gt 0 ]; then
  say "installing ${needs[*]}"
  elevate=""
  [ "$(id -u)" = 0 ] || elevate="sudo"
  $elevate apt-get update -qq
  DEBIAN_FRONTEND=noninteractive $elevate apt-get install -y -qq "${needs[@]}" >/dev/null
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

flags=(--workspace --locked)
if [ $# -gt 0 ]; then
  exec cargo test "${flags[@]}" "$@"
fi
if [ $tier = quick ]; then
  say "quick tests of all crates, documentation examples among them"
  tools/run_tests.py -- "${flags[@]}"
  say "quick tests passed; ./test.sh all runs the rest"
  exit
fi

say "Java, Kafka and its Python modules"
tools/kafka/test.sh --prepare
# Kafka's tests in the same build: alone they would compile most dependencies a second time, with
# other features.
flags+=(--features fluxline-cli/kafka-tls,fluxline-cli/s3)
if ! "$venv/bin/python" -c 'import boto3, moto.server' 2>/dev/null; then
  say "installing moto[server], which speaks S3, into target/venv"
  "$venv/bin/pip" install --quiet --disable-pip-version-check "moto[server]"
fi
say "all tests of all crates, with brokers and network namespaces"
tools/run_tests.py --all -- "${flags[@]}"
say "the Python package: its wheel, its tests"
tools/python/test.sh --quiet
say "the gateware in simulation: frames, replies, registers, a run on a TAP"
FLUXLINE="$PWD/target/debug/fluxline" tools/fpga/test.sh
say "the live page in a browser"
FLUXLINE="$PWD/target/debug/fluxline" tools/page/test.sh
say "Linux's software RDMA device as a peer, in a virtual machine"
tools/rxe/test.sh
FLUXLINE="$PWD/target/debug/fluxline" tools/fpga/rxe.sh
say "rings, channels, slots and bells in every order of their steps (loom)"
RUSTFLAGS="--cfg loom" CARGO_TARGET_DIR=target/loom \
  cargo test --locked --release -p fluxline --lib loom_

say "all tests passed"

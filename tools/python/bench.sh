#!/usr/bin/env bash
# Measures the Python package beside the Rust rate: builds the release wheel and the Rust example,
# records a run of 1 GB into target/python-bench, and runs bench.py. Arguments go to bench.py.
set -euo pipefail
cd "$(dirname "$0")/../.."

PROFILE=release tools/python/test.sh --collect-only --quiet >/dev/null
cargo build --quiet --release --locked -p fluxline-python --example read_batches
program="target/release/fluxline"
[ -x "$program" ] || program="target/debug/fluxline"

export PYTHONPATH="$PWD/target/python"
if [ ! -d target/python-bench/runs/0000 ]; then
  target/venv/bin/python tools/python/make_run.py "$program" target/python-bench
fi
exec target/venv/bin/python tools/python/bench.py \
  --example target/release/examples/read_batches --run target/python-bench/runs/0000 "$@"

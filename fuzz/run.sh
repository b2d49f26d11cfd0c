#!/usr/bin/env bash
# Runs every fuzz target for so many seconds (default 30). Needs a nightly toolchain and cargo-fuzz.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds="${1:-30}"
if ! cargo +nightly fuzz --version >/dev/null 2>&1; then
  echo "cargo-fuzz is missing: rustup toolchain install nightly && cargo install cargo-fuzz --locked"
  exit 1
fi
for target in packet_program description_file capture_input run_file; do
  echo "== $target, $seconds s"
  cargo +nightly fuzz run "$target" -- -max_total_time="$seconds" -max_len=65536
done

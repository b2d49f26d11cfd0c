#!/usr/bin/env bash
# Runs every fuzz target for so many seconds (default 30), from the seeds in the repository and the
# corpus that earlier runs found. Needs a nightly toolchain and cargo-fuzz.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds="${1:-30}"
if ! cargo +nightly fuzz --version >/dev/null 2>&1; then
  echo "cargo-fuzz is missing: rustup toolchain install nightly && cargo install cargo-fuzz --locked"
  exit 1
fi
for target in packet_program description_file capture_input run_file roce_packet endpoint_frames; do
  seeds="fuzz/seeds/$target"
  dictionary=()
  length=4096
  case "$target" in
    description_file) seeds=formats dictionary=(-dict=fuzz/description.dict) length=16384 ;;
    run_file) length=16384 ;;
    roce_packet) length=256 ;;
    endpoint_frames) length=2048 ;;
    capture_input) length=65536 ;;
  esac
  echo "== $target, $seconds s"
  mkdir -p "fuzz/corpus/$target"
  # A unit slower than a second, or more memory than 512 MiB, is a finding too.
  cargo +nightly fuzz run "$target" "fuzz/corpus/$target" "$seeds" -- \
    -max_total_time="$seconds" -max_len="$length" -timeout=5 -rss_limit_mb=1024 \
    -malloc_limit_mb=512 "${dictionary[@]}"
done

#!/usr/bin/env bash
# Runs fuzz targets, each for SECONDS (default 30), from the seeds in the repository and the corpus
# of earlier runs: `fuzz/run.sh [SECONDS [TARGET...]]`; without names, all of them. Needs a nightly
# toolchain and cargo-fuzz (docs/fuzzing.md).
set -euo pipefail
cd "$(dirname "$0")/.."
seconds="${1:-30}"
shift || true
if ! cargo +nightly fuzz --version >/dev/null 2>&1; then
  echo "cargo-fuzz is missing: rustup toolchain install nightly && cargo install cargo-fuzz --locked"
  exit 1
fi
targets=("$@")
if [ ${#targets[@]} -eq 0 ]; then
  mapfile -t targets < <(cd fuzz/fuzz_targets && printf '%s\n' *.rs | sed 's/\.rs$//')
fi
failed=()
for target in "${targets[@]}"; do
  seeds="fuzz/seeds/$target"
  dictionary=()
  length=4096
  case "$target" in
    description_file) seeds=formats dictionary=(-dict=fuzz/description.dict) length=16384 ;;
    run_file | report_file) length=16384 ;;
    run_folder) length=33 ;;
    roce_packet) length=256 ;;
    endpoint_frames) length=2048 ;;
    shm_nodes) length=1200 ;;
    capture_input) length=65536 ;;
  esac
  echo "== $target, $seconds s"
  mkdir -p "fuzz/corpus/$target"
  # A unit slower than 5 s, or more memory than 1 GiB, is a finding too.
  cargo +nightly fuzz run "$target" "fuzz/corpus/$target" "$seeds" -- \
    -max_total_time="$seconds" -max_len="$length" -timeout=5 -rss_limit_mb=1024 \
    -malloc_limit_mb=512 -print_final_stats=1 "${dictionary[@]}" || failed+=("$target")
done
if [ ${#failed[@]} -gt 0 ]; then
  echo "found something: ${failed[*]}; the inputs are in fuzz/artifacts"
  exit 1
fi

#!/bin/sh
# Tests the live page in Debian's chromium: tools/page/test.sh [FOLDER FOR PICTURES]
set -eu
cd "$(dirname "$0")"
for program in chromium node npm; do
    command -v "$program" >/dev/null || {
        echo "$program is missing: apt-get install chromium nodejs npm" >&2
        exit 1
    }
done
npm ci --no-audit --no-fund --silent
cargo build --release --quiet --manifest-path ../../Cargo.toml
node test.mjs ../../target/release/fluxline "$@"

#!/bin/sh
# Tests the live page in Debian's chromium: tools/page/test.sh [FOLDER FOR PICTURES]
# FLUXLINE is the program to test; without it, it is built.
set -eu
pictures=${1:+$(realpath "$1")}
cd "$(dirname "$0")"
for tool in chromium node npm; do
    command -v "$tool" >/dev/null || {
        echo "$tool is missing: apt-get install chromium nodejs npm" >&2
        exit 1
    }
done
work=../../target/page
mkdir -p "$work"
cp package.json package-lock.json ./*.mjs "$work"
(cd "$work" && npm ci --no-audit --no-fund --silent)
if [ -z "${FLUXLINE:-}" ]; then
    cargo build --release --quiet --manifest-path ../../Cargo.toml
    FLUXLINE=../../target/release/fluxline
fi
node "$work/test.mjs" "$(realpath "$FLUXLINE")" "$(realpath ../..)" ${pictures:+"$pictures"}

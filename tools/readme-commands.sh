#!/usr/bin/env bash
# Runs every command that README.md and docs/tutorial show in a block marked `sh run`, so that docs cannot drift.
# A block runs as one script in a scratch folder that looks like a fresh clone; `fluxline` is the
# program that `cargo build --release` made. Blocks that need shared/captures are skipped without it.
set -euo pipefail
cd "$(dirname "$0")/.."
root="$PWD"
cargo build --release --locked --quiet
scratch="$(mktemp -d)"
trap 'rm -rf "$scratch"' EXIT
export PATH="$root/target/release:$PATH" CARGO_TARGET_DIR="$root/target"
shared="${FLUXLINE_SHARED:-$root/../shared}"

ran=0
for page in README.md docs/tutorial/*.md; do
  clone="$scratch/$(basename "$page" .md)"
  mkdir "$clone"
  for name in Cargo.toml Cargo.lock crates formats examples docs scenarios; do
    ln -s "$root/$name" "$clone/$name"
  done
  if [ -d "$shared/captures" ]; then ln -s "$(realpath "$shared")" "$clone/shared"; fi
  blocks="$(mktemp -d -p "$scratch")"
  awk -v out="$blocks" '
    /^```sh run/ { n++; file = sprintf("%s/%03d.sh", out, n); inside = 1; next }
    /^```/       { inside = 0 }
    inside       { print > file }' "$page"
  for block in "$blocks"/*.sh; do
    [ -f "$block" ] || continue
    if grep -q 'shared/captures' "$block" && [ ! -d "$clone/shared/captures" ]; then
      echo "skipped (no shared/captures): $page: $(head -1 "$block")"
      continue
    fi
    echo "--- $page"
    sed 's/^/    /' "$block"
    (cd "$clone" && bash -euo pipefail "$block" >"$block.out" 2>&1 </dev/null) || {
      cat "$block.out"
      echo "$page: this block failed"
      exit 1
    }
    ran=$((ran + 1))
  done
done
echo "$ran blocks passed"
[ "$ran" -gt 0 ]

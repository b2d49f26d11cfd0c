#!/usr/bin/env bash
# Runs every command that README.md and docs/tutorial show in a block marked `sh run`, as one script
# per block, in a folder that holds what a fresh clone holds. Blocks marked `python run` run too
# where their modules are installed. A block marked `text shown` must be what the block above it
# printed: digits and spaces may differ, `…` stands for lines that are left out, and at the end of a
# line for its rest. In a block marked `text exactly`, digits must be the same too. `fluxline` is the program that `cargo build --release` makes.
set -euo pipefail
cd "$(dirname "$0")/.."
root="$PWD"
# The programs are those of the tests; only a command that says --release builds one more.
cargo build --workspace --bins --locked --quiet --features fluxline-cli/kafka-tls,fluxline-cli/s3
scratch="$(mktemp -d)"
trap 'rm -rf "$scratch"' EXIT
# cargo takes the workspace by its own path: by another one it would build all crates once more.
mkdir "$scratch/bin"
printf '#!/bin/sh\nverb=$1; shift\nexec "%s" "$verb" --manifest-path "%s/Cargo.toml" "$@"\n' \
  "$(command -v cargo)" "$root" >"$scratch/bin/cargo"
chmod +x "$scratch/bin/cargo"
export PATH="$scratch/bin:$root/target/debug:$PATH" CARGO_TARGET_DIR="$root/target"
python="${FLUXLINE_PYTHON:-$root/target/venv/bin/python}"
[ -x "$python" ] || python=python3

# The blocks of a page, one file each, named by their order and kind.
cut_out() {
  awk -v out="$2" '
    /^```(sh run|python run|text shown|text exactly)$/ {
      kind = $2 == "exactly" ? $2 : substr($1, 4); file = sprintf("%s/%03d.%s", out, ++n, kind); inside = 1; next }
    /^```/ { inside = 0 }
    inside { print > file }' "$1"
}

# Whether each line of the first file comes, in this order, in the second; digits may differ by a
# third argument of 1.
is_shown_in() {
  awk -v differ="$3" '
    function plain(line) { if (differ) gsub(/[0-9]+/, "0", line); gsub(/ +/, " ", line); sub(/ $/, "", line); return line }
    NR == FNR { if ($0 != "" && $0 != "…") wanted[++count] = plain($0); next }
    at < count {
      line = plain($0); want = wanted[at + 1]
      if (sub(/ ?…$/, "", want)) line = substr(line, 1, length(want))
      if (line == want) at++
    }
    END { if (at < count) { print "not printed: " wanted[at + 1]; exit 1 } }' "$1" "$2"
}

fail() { cat "$printed"; echo "$page: this block failed"; exit 1; }

ran=0
for page in README.md docs/tutorial/*.md; do
  clone="$scratch/$(basename "$page" .md)"
  mkdir "$clone" "$clone.blocks"
  git ls-files | cut -d/ -f1 | sort -u | while read -r name; do ln -s "$root/$name" "$clone/$name"; done
  cut_out "$page" "$clone.blocks"
  printed=/dev/null
  for block in "$clone.blocks"/*; do
    [ -f "$block" ] || continue
    echo "--- $page"
    case "$block" in
    *.text) is_shown_in "$block" "$printed" 1 || fail ;;
    *.exactly) is_shown_in "$block" "$printed" 0 || fail ;;
    *.python)
      if ! grep '^import' "$block" | "$python" - 2>/dev/null; then
        echo "skipped, a module is missing: $(grep '^import' "$block")"
        continue
      fi
      printed="$block.out"
      (cd "$clone" && "$python" "$block" >"$printed" 2>&1) || fail
      ;;
    *.sh)
      sed 's/^/    /' "$block"
      printed="$block.out"
      (cd "$clone" && bash -euo pipefail "$block" >"$printed" 2>&1 </dev/null) || fail
      ;;
    esac
    ran=$((ran + 1))
  done
done
echo "$ran blocks passed"
[ "$ran" -gt 0 ]

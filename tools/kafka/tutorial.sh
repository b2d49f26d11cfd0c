#!/usr/bin/env bash
# Follows the tutorials on Kafka (docs/tutorial/8 and 9) to the letter: runs their `sh` blocks in
# order, each in a shell of its own, in a folder that holds what a fresh clone holds. Where the text
# says "a terminal of its own", each line of the block runs beside the others. It fails when a
# command fails, when a run or `inspect` does not print that its ledger closes, and when the nodes
# do not end as the text says.
#
#   tools/kafka/tutorial.sh
#
# FLUXLINE names a program that was built with Kafka: nothing is built then. FLUXLINE_PYTHON names a
# Python with the modules: nothing is installed then.
set -euo pipefail
root="$(cd "$(dirname "$0")/../.." && pwd)"
scratch="$(mktemp -d)"
clone="$scratch/clone"
closes='the ledger closes: [0-9]+ laws hold, every received datagram is in exactly one place'
# The longest time of a block: building and installing take minutes.
limit_s=180
[ -n "${FLUXLINE:-}" ] && [ -n "${FLUXLINE_PYTHON:-}" ] || limit_s=3600
terminals=()

clean_up() {
  local pid broker
  # `timeout` passes the signal on to its command.
  for pid in "${terminals[@]}"; do kill "$pid" 2>/dev/null || true; done
  for broker in "$scratch"/broker-*; do
    [ ! -d "$broker" ] || "$root/tools/kafka/broker.sh" stop "$broker"
  done
  rm -rf "$scratch"
}
trap clean_up EXIT

fail() {
  tail -n 20 "$scratch"/terminal-*.log 2>/dev/null || true
  printf 'tutorial.sh: %s\n' "$*"
  exit 1
}

# The `sh` blocks of a page, one file each, named by their order and kind.
cut_out() {
  awk -v out="$2" '
    /^```sh$/ {
      kind = words ~ /terminal of its own/ ? "terminals" : "once"
      file = sprintf("%s/%03d.%s", out, ++n, kind); words = ""; next }
    /^```/ { file = ""; words = ""; next }
    file != "" { print > file; next }
    { words = words " " $0 }' "$1"
}

# What this place has otherwise than a reader: folders of its own, and a shorter run.
adapt() {
  local changes=(-e "s,/tmp/broker,$scratch/broker,g" -e "s,^seconds = 60,seconds = 25,")
  if [ -n "${FLUXLINE:-}" ]; then
    changes+=(-e "/^cargo build/d" -e "s,target/release/fluxline,$FLUXLINE,g")
  else
    changes+=(-e "s,^cargo build.*,(cd $root; &),")
  fi
  if [ -n "${FLUXLINE_PYTHON:-}" ]; then
    changes+=(-e "/^python3 -m venv/d" -e "/^target.venv.bin.pip/d"
      -e "s,target/venv/bin/python,$FLUXLINE_PYTHON,g")
  fi
  sed -i "${changes[@]}" "$@"
}

# Runs each line of a block in a terminal of its own; waits until all of them take part in the run.
open_terminals() {
  local line log number="${#terminals[@]}"
  while IFS= read -r line; do
    log="$scratch/terminal-$number.log"
    timeout -k 5 "$limit_s" bash -c "exec $line" >"$log" 2>&1 </dev/null &
    terminals+=($!)
    number=$((number + 1))
  done <"$1"
  for log in "$scratch"/terminal-*.log; do
    for _ in $(seq 600); do ! grep -q '^.*run 1 goes on' "$log" || continue 2; sleep 0.1; done
    fail "$log: the run does not begin"
  done
}

# The ends of all terminals: of four nodes, the third one was killed, and the others name it.
await_terminals() {
  local pid ends=() named
  for pid in "${terminals[@]}"; do
    if wait "$pid" 2>/dev/null; then ends+=(0); else ends+=($?); fi
  done
  terminals=()
  [ "${ends[*]}" = "0 0 137 0" ] || fail "the nodes ended with status ${ends[*]}"
  named=$(grep -l 'b1.*silent for' "$scratch"/terminal-*.log | wc -l)
  [ "$named" = 3 ] || fail "$named nodes name the builder that was killed"
}

follow() {
  local page="$1" blocks block printed
  blocks="$scratch/$(basename "$page" .md)"
  mkdir "$blocks"
  cut_out "$page" "$blocks"
  adapt "$blocks"/*
  for block in "$blocks"/*; do
    echo "--- $((SECONDS / 60)) min $((SECONDS % 60)) s: $page"
    sed 's/^/    /' "$block"
    if [ "${block##*.}" = terminals ]; then open_terminals "$block"; continue; fi
    printed="$block.out"
    timeout -k 5 "$limit_s" bash -euo pipefail "$block" >"$printed" 2>&1 </dev/null ||
      { cat "$printed"; fail "$page: this block failed"; }
    cat "$printed"
    ! grep -qE ' (run|inspect) kafka' "$block" || grep -qE "$closes" "$printed" ||
      fail "$page: this block does not print that the ledger closes"
  done
}

mkdir -p "$clone" "$root/target"
ln -s "$root/tools" "$root/target" "$clone"
cd "$clone"
follow "$root/docs/tutorial/8-kafka.md"
follow "$root/docs/tutorial/9-several-machines.md"
await_terminals
echo "both tutorials work"

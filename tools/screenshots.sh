#!/usr/bin/env bash
# Makes the pictures in docs/pictures from what the program prints now: run.svg, a run of the
# example board and its ledger; and, where a Chromium is installed, sim-report.png, the page of a
# simulation. `tools/page/test.sh FOLDER` makes those of
# the live page (live-page*.png, run-curves.png, run-folder.png). Needs `fluxline` on the path (or FLUXLINE=its path) and Python 3.
set -euo pipefail
cd "$(dirname "$0")/.."
fluxline="${FLUXLINE:-fluxline}"
pictures="$PWD/docs/pictures"
scratch="$(mktemp -d)"
trap 'rm -rf "$scratch"' EXIT
mkdir -p "$pictures"

board=examples/board/board
{
  printf '$ fluxline run --pcap %s.pcapng --format %s.toml \\\n' "$board" "$board"
  printf '    --events key --require 4 --folder runs/board\n'
  "$fluxline" run --pcap $board.pcapng --format $board.toml --events key --require 4 \
    --folder "$scratch/board" 2>/dev/null | grep -v '^Next'
  printf '\n$ fluxline inspect runs/board --incomplete 3\n'
  "$fluxline" inspect "$scratch/board" --incomplete 3 | grep -A3 '^incomplete events'
} | python3 tools/terminal_svg.py "four boards, 600 packets sent, 9 lost on the way" \
  >"$pictures/run.svg"

browser="$(command -v chromium || command -v chromium-browser || command -v google-chrome || true)"
if [ -n "$browser" ]; then
  "$fluxline" sim run scenarios/sci-ring.toml --quick --report "$scratch/sim" >/dev/null
  "$browser" --headless --no-sandbox --disable-gpu --hide-scrollbars --window-size=1000,960 \
    --screenshot="$pictures/sim-report.png" "file://$scratch/sim/report.html" 2>/dev/null
else
  echo "no Chromium: docs/pictures/sim-report.png stays as it was"
fi
du -b "$pictures"/*

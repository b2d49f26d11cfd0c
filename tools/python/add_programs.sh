#!/bin/sh
# Puts fluxline, fluxline-sim and fluxline-bench into a wheel, so that pip installs the commands:
#
#   PYTHON=target/venv/bin/python tools/python/add_programs.sh WHEEL FOLDER OUT
#
# FOLDER has the programs. They are static: the tag of a wheel says which hosts its library suits,
# and was given without them. The wheel in OUT has the same tags, and lists them in its RECORD.
# PYTHON has `wheel` (PyPI), which unpacks, packs and writes RECORD.
set -eu
wheel=$1 folder=$2 out=$3
for program in fluxline fluxline-sim fluxline-bench; do
    [ -s "$folder/$program" ] || {
        echo "$folder/$program is missing or empty: a wheel needs all three programs" >&2
        exit 1
    }
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$PYTHON" -m wheel unpack --dest "$work" "$wheel"
tree=$(echo "$work"/*)
scripts="$tree/$(basename "$tree").data/scripts"
mkdir -p "$scripts" "$out"
for program in fluxline fluxline-sim fluxline-bench; do
    install -m 755 "$folder/$program" "$scripts/$program"
done
"$PYTHON" -m wheel pack --dest-dir "$out" "$tree"

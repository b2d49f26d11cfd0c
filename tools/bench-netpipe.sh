#!/bin/sh
# Holds `fluxline bench tcp://127.0.0.1` against NetPIPE's own NPtcp, in turns: time of each, per
# size, medians over rounds, and their ratio. Needs NPtcp (Debian: netpipe-tcp) and two cores.
# Usage: tools/bench-netpipe.sh [ROUNDS] [LAST SIZE]   FLUXLINE=program to measure with
set -eu
rounds=${1:-5}
last=${2:-1048576}
fluxline=${FLUXLINE:-target/release/fluxline}
command -v NPtcp >/dev/null || { echo "NPtcp is not installed: apt-get install netpipe-tcp" >&2; exit 1; }
folder=$(mktemp -d)
server=
trap 'rm -rf "$folder"; [ -z "$server" ] || kill "$server" 2>/dev/null || true' EXIT INT TERM
round=1
while [ "$round" -le "$rounds" ]; do
    taskset -c 1 NPtcp >/dev/null 2>&1 &
    server=$!
    sleep 0.5
    taskset -c 0 NPtcp -h 127.0.0.1 -u "$last" -o "$folder/peer.$round" >/dev/null 2>&1
    wait "$server" || true
    server=
    "$fluxline" bench tcp://127.0.0.1 --only pingpong --rounds 1 --sizes "1..$last" --perturbation 3 \
        --format netpipe > "$folder/ours.$round"
    round=$((round + 1))
done
awk '
    function middle(list,   parts, count, i, j, swap) {
        count = split(list, parts, " ")
        for (i = 1; i <= count; i++)
            for (j = i + 1; j <= count; j++)
                if (parts[j] + 0 < parts[i] + 0) { swap = parts[i]; parts[i] = parts[j]; parts[j] = swap }
        return parts[int((count + 1) / 2)]
    }
    FILENAME ~ /ours/ { ours[$1] = ours[$1] " " $3 }
    FILENAME ~ /peer/ { peer[$1] = peer[$1] " " $3; if (!($1 in seen)) { seen[$1] = 1; order[++sizes] = $1 } }
    END {
        printf "%10s %12s %12s %7s\n", "byte", "NPtcp us", "fluxline us", "ratio"
        for (i = 1; i <= sizes; i++) {
            size = order[i]
            if (!(size in ours)) continue
            one = middle(peer[size]) * 1e6; other = middle(ours[size]) * 1e6
            printf "%10d %12.2f %12.2f %7.2f\n", size, one, other, other / one
            all = all " " other / one
        }
        printf "median ratio %.3f over %d sizes\n", middle(all), sizes
    }
' "$folder"/ours.* "$folder"/peer.*

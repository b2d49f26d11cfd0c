#!/bin/sh
# The receiver against the RTL, on a TAP in a network namespace of its own.
#   sim/tap.sh BLOCKS [options of flx_sim]
# FLUXLINE names the program. Prints both ledgers and compares them; status 1: they differ.
set -e
cd "$(dirname "$0")/.."
if [ -z "$FLX_INSIDE" ]; then
    # A user namespace stands in for root where the kernel allows it.
    [ "$(id -u)" = 0 ] && root="" || root="--map-root-user"
    FLX_INSIDE=1 exec unshare --net $root "$0" "$@"
fi
FLUXLINE="${FLUXLINE:-fluxline}"
BLOCKS="$1"; shift
OUT="$(mktemp -d)"
RUN= SIM=
trap 'kill $RUN $SIM 2>/dev/null || true; rm -r "$OUT"' EXIT
ip link set lo up
ip tuntap add dev tap0 mode tap
ip link set tap0 address 02:f1:0a:0b:0c:fe up
ip addr add 10.23.0.1/24 dev tap0
receive="--udp 10.23.0.1:6006 --format packet.toml --events packet" port=1776     # 6006
[ ! -e roce.toml ] || receive=roce.toml port=12B7                                # 4791
"$FLUXLINE" run $receive \
    --folder "$OUT/run" --accept missing,socket_dropped > "$OUT/run.txt" 2>&1 &
RUN=$!
tries=0
until grep -q ":$port " /proc/net/udp; do       # the receiver listens
    tries=$((tries + 1))
    [ $tries -lt 600 ] && kill -0 $RUN || { cat "$OUT/run.txt"; exit 1; }
    sleep 0.1
done
sim/obj/flx_sim --tap tap0 --blocks "$BLOCKS" --until "$OUT/asked" "$@" > "$OUT/sim.json" &
SIM=$!
until ip link show dev tap0 | grep -q LOWER_UP; do      # the simulation has opened it
    kill -0 $SIM || exit 1
    sleep 0.1
done
ask() {
    "$@" > "$OUT/asked.txt" 2>&1 || { cat "$OUT/asked.txt"; exit 1; }
    tail -2 "$OUT/asked.txt"
}
ask ping -c 3 -i 0.3 -W 10 -s 1400 10.23.0.2
ip neigh show 10.23.0.2 | grep -q 02:f1:0a:0b:0c:01 || { echo "no answer to ARP"; exit 1; }
# All samples are out when the counters stand still.
before= now=new
while [ "$before" != "$now" ]; do
    sleep 1
    before="$now"
    now="$("$FLUXLINE" fpga status 10.23.0.2 --json)"
done
echo "$now" > "$OUT/status.json"
touch "$OUT/asked"
wait $SIM
SIM=
kill -TERM $RUN     # a shell starts background programs with SIGINT ignored
wait $RUN || true   # compare.py judges
RUN=
cat "$OUT/sim.json" "$OUT/status.json" "$OUT/run.txt"
"${PYTHON:-python3}" sim/compare.py "$OUT/sim.json" "$OUT/status.json" "$OUT/run/run.json"

#!/bin/sh
# Measures raw datagrams, or with the word xdp the experiments of a fabric past both kernels, between
# two network namespaces of its own, joined by a veth pair: as between two machines with a cable of
# that MTU.
#
#   tools/bench-veth.sh [MTU] [xdp] [-- ARGUMENTS OF fluxline bench]
#
#   tools/bench-veth.sh 1500 -- --quick
#   tools/bench-veth.sh 9000 -- --trial-seconds 2
#   tools/bench-veth.sh 1500 xdp -- --quick --only pingpong
#
# FLUXLINE in the environment: the program, else target/release/fluxline. Needs root and iproute2.
# Whatever happens, Ctrl-C too, the namespaces are taken away again.
set -eu

say() { echo "bench-veth: $*" >&2; }
fail() { say "$*"; exit 2; }

mtu=1500
case "${1-}" in
    --|xdp) ;;
    *[!0-9]*) fail "the MTU is a number of byte, not '$1': tools/bench-veth.sh 9000 -- --quick" ;;
    ?*) mtu=$1; shift ;;
esac
link=udp
if [ "${1-}" = xdp ]; then link=xdp; shift; fi
if [ "${1-}" = -- ]; then shift; fi
[ "$mtu" -ge 576 ] && [ "$mtu" -le 65535 ] || fail "an MTU of $mtu: choose 576 to 65535 byte"
[ "$(id -u)" = 0 ] || fail "network namespaces need root: run it with sudo"
command -v ip > /dev/null || fail "the command ip is missing: install iproute2"
root=$(cd "$(dirname "$0")/.." && pwd)
fluxline=${FLUXLINE:-$root/target/release/fluxline}
[ -x "$fluxline" ] || fail "no program at $fluxline: cargo build --release, or set FLUXLINE"

near=flxbench$$a
far=flxbench$$b
server=
near_process=
clean() {
    trap - EXIT INT TERM HUP
    for process in $near_process $server; do
        kill "$process" 2> /dev/null || true
        wait "$process" 2> /dev/null || true
    done
    ip netns del "$near" 2> /dev/null || true
    ip netns del "$far" 2> /dev/null || true
}
trap clean EXIT
trap 'clean; exit 130' INT TERM HUP

ip netns add "$near"
ip netns add "$far"
ip link add veA netns "$near" type veth peer name veB netns "$far"
# A queue as long as a card's ring, so that a paced sender does not find it full.
ip -n "$near" link set veA mtu "$mtu" txqueuelen 10000 up
ip -n "$far" link set veB mtu "$mtu" txqueuelen 10000 up
ip -n "$near" link set lo up
ip -n "$far" link set lo up
ip -n "$near" addr add 10.94.0.1/24 dev veA
ip -n "$far" addr add 10.94.0.2/24 dev veB

# Only these two processes are to know it.
FLUXLINE_BENCH_KEY=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
export FLUXLINE_BENCH_KEY
ip netns exec "$far" "$fluxline" bench --serve 10.94.0.2:14791 --once > /dev/null &
server=$!
# Until it listens, for five seconds at most.
tries=0
until [ -n "$(ip netns exec "$far" ss -ltn 'sport = :14791' 2> /dev/null | grep 14791)" ]; do
    tries=$((tries + 1))
    kill -0 "$server" 2> /dev/null || fail "the far side ended before it listened"
    [ "$tries" -lt 50 ] || fail "the far side does not listen after five seconds"
    sleep 0.1
done
[ $# -gt 0 ] || set -- --quick
if [ "$link" = udp ]; then set -- --only datagrams,lossfree "$@"; fi
say "MTU $mtu: fluxline bench $link://10.94.0.2 $*"
# In the background, so that a signal is not held back until it ends.
ip netns exec "$near" "$fluxline" bench "$link://10.94.0.2" \
    --key "$FLUXLINE_BENCH_KEY" "$@" &
near_process=$!
status=0
wait "$near_process" || status=$?
near_process=
exit "$status"

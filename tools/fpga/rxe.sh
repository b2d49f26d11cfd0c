#!/usr/bin/env bash
# Lets Linux's software RDMA device (rdma_rxe) judge frames of the RTL: the simulated board writes
# into the memory of a virtual machine, by an unreliable connection, with immediate.
#
#   tools/fpga/test.sh lint && tools/rxe/test.sh && tools/fpga/rxe.sh     # the last: a minute
#
# The first two make the board and the machine. Needs root and /dev/net/tun. Works in a network
# namespace of its own; everything that it starts ends with it.
set -euo pipefail
cd "$(dirname "$0")/../.."
root="$PWD"
if [ "$(id -u)" != 0 ] || [ ! -e target/rxe/initrd.gz ] || [ ! -e target/fpga/adc-roce ]; then
  echo "not run: needs root, and what the two commands above make"
  [ "${FLUXLINE_REQUIRE_TOOLS:-0}" = 1 ] && exit 1
  exit 0
fi
[ -n "${FLX_INSIDE:-}" ] || FLX_INSIDE=1 exec unshare --net "$0" "$@"
export FLUXLINE="${FLUXLINE:-$root/target/debug/fluxline}"
out="$(mktemp -d)"
machine= board=
trap 'kill $machine $board 2>/dev/null || true; rm -r "$out"' EXIT

make -s -C target/fpga/adc-roce sim/obj/flx_sim
ip link set lo up
ip link add bridge0 type bridge
for tap in tap0 tap1; do
  ip tuntap add dev "$tap" mode tap
  ip link set "$tap" master bridge0 up
done
ip link set bridge0 up
ip addr add 10.77.0.1/24 dev bridge0
ip addr add 10.23.0.1/24 dev bridge0     # the board's network, for its registers

qemu-system-x86_64 -m 768 -smp 1 -display none -no-reboot -serial "file:$out/console" \
  -kernel target/rxe/vmlinuz -initrd target/rxe/initrd.gz -append "console=ttyS0 panic=-1 quiet \
flx_address=10.77.0.2 flx_address6=fd77::2 flx_mtu=1500" \
  -netdev tap,id=net,ifname=tap0,script=no,downscript=no -device virtio-net-pci,netdev=net \
  >"$out/qemu" 2>&1 &
machine=$!
until grep -q READY "$out/console" 2>/dev/null; do
  kill -0 "$machine" || { cat "$out/qemu" "$out/console"; exit 1; }
  sleep 1
done
target/fpga/adc-roce/sim/obj/flx_sim --tap tap1 --blocks 300 --duty 50 --lose 50000 --flip 100000 \
  --from "$out/from" --until "$out/until" >"$out/sim.json" &
board=$!
target/fpga/venv/bin/python tools/fpga/rxe.py "$out" "$board"

#!/usr/bin/env bash
# Tests remote writes against Linux's software RDMA device (rdma_rxe): makes a virtual machine with
# it (Debian's kernel, 30 MiB of disk below target/rxe), boots it under qemu on a TAP in a network
# namespace of its own, and runs the tests `rxe` of crates/fluxline (a node), `rxe_run` of
# crates/fluxline-cli (`fluxline run`) and `rxe_perftest` of crates/fluxline-bench-cli (`fluxline
# rdma`) there.
# No KVM is needed. Everything that it starts ends with it.
#
#   tools/rxe/test.sh [FILTER...]     arguments are those of the test programs
#
# Needs root (a namespace and a TAP). Missing Debian packages are installed; where that is
# impossible it says so and exits with status 0, or 1 with FLUXLINE_REQUIRE_TOOLS=1.
set -euo pipefail
cd "$(dirname "$0")/../.."
root="$PWD"
work="$root/target/rxe"
own=10.77.0.1 device=10.77.0.2 own6=fd77::1 device6=fd77::2

say() { printf '\n== %s\n' "$*"; }

skip() {
  echo "not run: $*"
  [ "${FLUXLINE_REQUIRE_TOOLS:-0}" = 1 ] && exit 1
  exit 0
}

[ "$(id -u)" = 0 ] || skip "needs root for a network namespace and a TAP"
[ "$(uname -m)" = x86_64 ] || skip "the virtual machine is made for x86_64"
[ -e /dev/net/tun ] || skip "/dev/net/tun is missing"
packages=()
for pair in qemu-system-x86_64:qemu-system-x86 modprobe:kmod cpio:cpio rping:rdmacm-utils \
  ib_write_bw:perftest rdma:iproute2 ibv_devinfo:ibverbs-utils nft:nftables; do
  command -v "${pair%%:*}" >/dev/null || packages+=("${pair#*:}")
done
[ -e /usr/include/infiniband/verbs.h ] || packages+=(libibverbs-dev)
[ -e /usr/lib/x86_64-linux-gnu/libibverbs/librxe-rdmav34.so ] || packages+=(ibverbs-providers)
[ -e /bin/busybox ] && ! ldd /bin/busybox >/dev/null 2>&1 || packages+=(busybox-static)
if [ ${#packages[@]} -gt 0 ]; then
  say "installing ${packages[*]}"
  apt-get update -qq && DEBIAN_FRONTEND=noninteractive \
    apt-get install -y -qq --no-install-recommends "${packages[@]}" >/dev/null ||
    skip "these packages cannot be installed: ${packages[*]}"
fi

say "virtual machine"
tools/rxe/image.sh "$work" || skip "the virtual machine cannot be made"

say "test programs"
built="$(cargo test --workspace --locked --features fluxline-cli/kafka-tls,fluxline-cli/s3 \
  --test links_tests --test cli_tests --test bench_cli_tests --no-run --message-format=json)"
program_of() { sed -n 's/.*"name":"'"$1"'".*"executable":"\([^"]*\)".*/\1/p' <<<"$built" | tail -1; }
programs=("$(program_of links_tests)" "$(program_of cli_tests)" "$(program_of bench_cli_tests)")
# The module of each with the tests for this machine.
modules=(rxe:: rxe_run:: rxe_perftest::)
for program in "${programs[@]}"; do
  [ -x "$program" ] || { echo "no test program"; exit 1; }
done

namespace="flxrxe$$"
machine=
finish() {
  [ -z "$machine" ] || kill "$machine" 2>/dev/null || true
  ip netns del "$namespace" 2>/dev/null || true
}
trap finish EXIT
ip netns add "$namespace" || skip "a network namespace cannot be made"
ip -n "$namespace" link set lo up
ip -n "$namespace" tuntap add tap0 mode tap
ip -n "$namespace" link set tap0 mtu 1500 up
ip -n "$namespace" addr add "$own/24" dev tap0
ip -n "$namespace" -6 addr add "$own6/64" dev tap0 nodad

say "boot"
: >"$work/console"
ip netns exec "$namespace" qemu-system-x86_64 -m 768 -smp 1 -display none -no-reboot \
  -serial "file:$work/console" -kernel "$work/vmlinuz" -initrd "$work/initrd.gz" \
  -append "console=ttyS0 panic=-1 quiet flx_address=$device flx_address6=$device6 flx_mtu=1500" \
  -netdev tap,id=net,ifname=tap0,script=no,downscript=no -device virtio-net-pci,netdev=net \
  >"$work/qemu.log" 2>&1 &
machine=$!
for second in $(seq 120); do
  grep -q READY "$work/console" && break
  kill -0 "$machine" 2>/dev/null || { cat "$work/qemu.log" "$work/console"; exit 1; }
  sleep 1
done
grep -q READY "$work/console" && ! grep FAILED "$work/console" || { cat "$work/console"; exit 1; }
echo "ready after $second s"

run() {
  say "$1"
  shift
  for index in 0 1 2; do
    FLUXLINE_RXE="$FLUXLINE_RXE" ip netns exec "$namespace" "${programs[$index]}" \
      --test-threads=1 --include-ignored "${modules[$index]}" "$@"
  done
}
FLUXLINE_RXE="$own $device 7471" run "IPv4" "$@"
FLUXLINE_RXE="$own6 $device6 7472" run "IPv6" "$@"
say "all tests passed against rdma_rxe"

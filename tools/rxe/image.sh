#!/usr/bin/env bash
# Makes kernel and initial RAM disk of the virtual machine with Linux's software RDMA device, below
# the folder given: `image.sh FOLDER`. The kernel and its modules are unpacked from Debian's package,
# not installed. Needs: apt-get, cpio, kmod, gcc, busybox (static), rdma-core, iproute2, perftest and
# the headers of libibverbs and librdmacm.
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
out="$1"
mkdir -p "$out"
cd "$out"

if [ ! -e kernel/ready ]; then
  package="$(apt-cache depends linux-image-amd64 | awk '/Depends: linux-image/ { print $2; exit }')"
  rm -rf kernel && mkdir kernel
  (cd kernel && apt-get download -qq "$package" 2>/dev/null && dpkg-deb -x "$package"_*.deb . && rm "$package"_*.deb)
  depmod -b kernel "$(ls kernel/lib/modules)"
  touch kernel/ready
fi
version="$(ls kernel/lib/modules)"

root="$(mktemp -d)"
trap 'rm -rf "$root"' EXIT
mkdir -p "$root"/{bin,lib,lib64,proc,sys,dev,modules,etc/libibverbs.d}

# insmod has no notion of dependencies: modprobe says the order. crc32 is asked for by name only.
: >"$root/modules/order"
for module in crc32_generic virtio_pci virtio_net rdma_rxe rdma_ucm; do
  modprobe -d "$PWD/kernel" -S "$version" --ignore-install --show-depends "$module" |
    awk '$1 == "insmod" { print $2 }'
done | awk '!seen[$0]++' | while read -r file; do
  cp "$file" "$root/modules/"
  basename "$file" >>"$root/modules/order"
done

gcc -O1 -Wall -Wextra -Werror -o "$root/bin/peer" "$here/peer.c" -libverbs
cp "$here/init" "$root/init"
cp /bin/busybox "$root/bin/busybox"
for program in ip rdma ibv_devinfo ib_{write,read,send,atomic}_{bw,lat} rping; do
  found="$(PATH="$PATH:/sbin:/usr/sbin" command -v "$program" || true)"
  [ -z "$found" ] || cp "$(readlink -f "$found")" "$root/bin/$program"
done
triple=/usr/lib/x86_64-linux-gnu
cp "$(ls $triple/libibverbs/librxe-rdmav*.so)" "$root/lib/"
printf 'driver /lib/%s\n' "$(basename $triple/libibverbs/librxe-rdmav*.so | sed 's/-rdmav.*//')" >"$root/etc/libibverbs.d/rxe.driver"
# ldd fails for the static busybox, and says so of nothing else.
{ ldd "$root"/bin/* "$root"/lib/librxe* 2>/dev/null || true; } | awk '/=> \// { print $3 } /^\t\// { print $1 }' | sort -u |
  xargs -I{} cp -L {} "$root/lib/"
# rping ends its threads with it, and ldd does not know.
cp -L $triple/libgcc_s.so.1 "$root/lib/"
cp -L /lib64/ld-linux-x86-64.so.2 "$root/lib64/"
(cd "$root" && find . | cpio --quiet -o -H newc | gzip -1) >initrd.gz
cp "kernel/boot/vmlinuz-$version" vmlinuz
ls -l "$PWD/vmlinuz" "$PWD/initrd.gz"

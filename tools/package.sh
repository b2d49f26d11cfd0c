#!/usr/bin/env bash
# Makes what a host without Rust can install, below target/package:
#
#   fluxline                      one static binary
#   fluxline_VERSION_ARCH.deb     the same with manual pages, completions, descriptions and examples
#
# Then tries the binary in a root directory that holds nothing else. The C library is linked in
# (glibc, `crt-static`), so the binary runs on any Linux of its architecture, at the same speed. It
# takes addresses as numbers: a static glibc resolves names only where the same glibc is installed.
# Needs Rust, a C compiler with the static C library (Debian: libc6-dev), unshare for the trial, and
# dpkg-deb for the package.
set -euo pipefail
cd "$(dirname "$0")/.."
target="$(uname -m)-unknown-linux-gnu"
version="$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -1)"
out="$PWD/target/package"

say() { printf '\n== %s\n' "$*"; }

if ! rustc --print target-libdir --target "$target" 2>/dev/null | xargs -r test -d; then
  echo "Rust has no standard library for $target here; install it: rustup target add $target"
  exit 1
fi

say "static binary for $target"
RUSTFLAGS="-C target-feature=+crt-static" cargo build --release --locked --target "$target"
mkdir -p "$out"
binary="$out/fluxline"
strip -o "$binary" "target/$target/release/fluxline"
if ldd "$binary" 2>/dev/null | grep -q '=>'; then
  echo "$binary still needs shared libraries:"
  ldd "$binary"
  exit 1
fi

say "trial in a root directory with this file, two examples and /dev/[u]random"
root="$(mktemp -d)"
trap 'rm -rf "$root"' EXIT
mkdir "$root/tmp" "$root/dev"
touch "$root/dev/random" "$root/dev/urandom"
cp "$binary" examples/board/board.toml examples/board/board.pcapng "$root/"
unshare --map-root-user --mount bash -euo pipefail -c '
  for name in random urandom; do mount --bind /dev/$name "$1/dev/$name"; done
  chroot "$1" /fluxline --version
  chroot "$1" /fluxline run --pcap board.pcapng --format board.toml --events key --require 4 \
    --folder tmp/run >"$1/tmp/printed"
  chroot "$1" /fluxline export tmp/run --to parquet
' trial "$root"
grep "^Received 591 datagrams: 591 recorded" "$root/tmp/printed"

say "Debian package"
if ! command -v dpkg-deb >/dev/null; then
  echo "dpkg-deb is missing: no package is made"
  exit 0
fi
tree="$root/deb"
share="$tree/usr/share"
install -D -m 755 "$binary" "$tree/usr/bin/fluxline"
"$binary" generate man "$share/man/man1"
"$binary" generate completions "$root/completions"
install -D -m 644 "$root/completions/fluxline.bash" "$share/bash-completion/completions/fluxline"
install -D -m 644 "$root/completions/_fluxline" "$share/zsh/vendor-completions/_fluxline"
install -D -m 644 "$root/completions/fluxline.fish" "$share/fish/vendor_completions.d/fluxline.fish"
gzip -9n "$share"/man/man1/*
mkdir -p "$share/doc/fluxline/examples"
cp -r examples/*.toml examples/board "$share/doc/fluxline/examples/"
cp -rL formats "$share/doc/fluxline/formats"
cp LICENSE-MIT LICENSE-APACHE README.md CHANGELOG.md "$share/doc/fluxline/"
cat LICENSE-MIT LICENSE-APACHE >"$share/doc/fluxline/copyright"
architecture="$(dpkg --print-architecture)"
mkdir "$tree/DEBIAN"
cat >"$tree/DEBIAN/control" <<CONTROL
Package: fluxline
Version: $version
Architecture: $architecture
Maintainer: Fluxline developers <fluxline@localhost>
Section: science
Priority: optional
Installed-Size: $(du -sk "$tree/usr" | cut -f1)
Description: data acquisition for detector boards that send UDP
 Receives packets by a TOML description, builds events, records them, and accounts
 for every packet. Includes a link benchmark, host checks and a network simulator.
CONTROL
deb="$out/fluxline_${version}_$architecture.deb"
dpkg-deb --root-owner-group --build "$tree" "$deb" >/dev/null
dpkg-deb --info "$deb" | sed -n '/Package/,$p'
ls -l "$out"

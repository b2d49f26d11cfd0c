#!/usr/bin/env bash
# Makes what a host without Rust can install, below target/package:
#
#   fluxline, fluxline-sim, fluxline-bench    static binaries, in the profile dist (thin LTO)
#   fluxline_VERSION_ARCH.deb     the same with manual pages, completions, descriptions and examples
#
# Then tries the first two in a root directory that holds nothing else. The C library is linked in
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

programs=(fluxline fluxline-sim fluxline-bench)
say "static binaries for $target"
RUSTFLAGS="-C target-feature=+crt-static" cargo build --profile dist --locked --target "$target" \
  --workspace --bins --features fluxline-cli/zstd
mkdir -p "$out"
for program in "${programs[@]}"; do
  binary="$out/$program"
  strip -o "$binary" "target/$target/dist/$program"
  if ldd "$binary" 2>/dev/null | grep -q '=>'; then
    echo "$binary still needs shared libraries:"
    ldd "$binary"
    exit 1
  fi
done
binary="$out/fluxline"

say "trial in a root directory with this file, two examples and /dev/[u]random"
root="$(mktemp -d)"
trap 'rm -rf "$root"' EXIT
mkdir "$root/tmp" "$root/dev"
touch "$root/dev/random" "$root/dev/urandom"
cp "$binary" "$out/fluxline-sim" scenarios/sci-ring.toml examples/board/board.toml examples/board/board.pcapng "$root/"
unshare --map-root-user --mount bash -euo pipefail -c '
  for name in random urandom; do mount --bind /dev/$name "$1/dev/$name"; done
  chroot "$1" /fluxline --version
  chroot "$1" /fluxline run --pcap board.pcapng --format board.toml --events key --require 4 \
    --folder tmp/run >"$1/tmp/printed"
  chroot "$1" /fluxline export tmp/run --to parquet
  chroot "$1" /fluxline sim run sci-ring.toml --quick >"$1/tmp/simulated"
' trial "$root"
grep "^Received 591 datagrams: 591 recorded" "$root/tmp/printed"

say "Debian package"
if ! command -v dpkg-deb >/dev/null; then
  echo "dpkg-deb is missing: no package is made"
  exit 0
fi
tree="$root/deb"
share="$tree/usr/share"
# The first one has a short page for each command of the others, which theirs replace.
for program in "${programs[@]}"; do
  install -D -m 755 "$out/$program" "$tree/usr/bin/$program"
  "$out/$program" generate man "$share/man/man1"
  "$out/$program" generate completions "$root/completions"
  install -D -m 644 "$root/completions/$program.bash" "$share/bash-completion/completions/$program"
  install -D -m 644 "$root/completions/_$program" "$share/zsh/vendor-completions/_$program"
  install -D -m 644 "$root/completions/$program.fish" "$share/fish/vendor_completions.d/$program.fish"
done
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

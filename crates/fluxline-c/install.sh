#!/usr/bin/env bash
# Builds the C library and installs header, libraries and pkg-config file: ./install.sh [PREFIX]
set -euo pipefail
prefix="$(realpath -m "${1:-/usr/local}")"
cd "$(dirname "$0")"
cargo build --release --locked -p fluxline-c
target="${CARGO_TARGET_DIR:-$(cd ../.. && pwd)/target}/release"
version="$(sed -n 's/^version = "\(.*\)"/\1/p' ../../Cargo.toml | head -1)"
install -d "$prefix/include" "$prefix/lib/pkgconfig"
install -m 644 include/fluxline.h "$prefix/include/"
install -m 644 "$target/libfluxline_c.a" "$prefix/lib/"
# The shared library has the number of its interface in its name (build.rs): programs ask for it.
name="$(sed -n 's/^const INTERFACE: u32 = \(.*\);/libfluxline_c.so.\1/p' build.rs)"
install -m 755 "$target/libfluxline_c.so" "$prefix/lib/$name"
ln -sf "$name" "$prefix/lib/libfluxline_c.so"
sed -e "s|@PREFIX@|$prefix|" -e "s|@VERSION@|$version|" fluxline.pc.in \
  > "$prefix/lib/pkgconfig/fluxline.pc"
echo "installed in $prefix; compile with \$(PKG_CONFIG_PATH=$prefix/lib/pkgconfig pkg-config --cflags --libs fluxline)"

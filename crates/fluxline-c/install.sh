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
install -m 755 "$target/libfluxline_c.so" "$prefix/lib/"
sed -e "s|@PREFIX@|$prefix|" -e "s|@VERSION@|$version|" fluxline.pc.in \
  > "$prefix/lib/pkgconfig/fluxline.pc"
echo "installed in $prefix; compile with \$(PKG_CONFIG_PATH=$prefix/lib/pkgconfig pkg-config --cflags --libs fluxline)"

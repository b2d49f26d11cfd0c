#!/usr/bin/env bash
# Makes what a host without Rust can install, below target/package:
#
#   fluxline, fluxline-sim, fluxline-bench    static binaries, in the profile dist (thin LTO)
#   fluxline-VERSION-TAGS.whl     the same and the Python package, for pip and CPython from 3.11
#   fluxline_VERSION_ARCH.deb     the same with manual pages, completions, descriptions and examples
#
# Then tries the first two in a root directory that holds nothing else, and the wheel in a fresh
# virtual environment. The C library is linked in (glibc, `crt-static`), so the binary runs on any
# Linux of its architecture, at the same speed. It takes addresses as numbers: a static glibc
# resolves names only where the same glibc is installed. The library of the Python package needs the
# glibc that the tag of the wheel names (manylinux), which is at most that of this host.
# Needs Rust, a C compiler with the static C library (Debian: libc6-dev), unshare for the trial,
# Python 3.11 or newer with venv, PyPI (maturin and wheel, once; NumPy for the trial), and dpkg-deb
# for the package.
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
  # Without /proc, fluxline does not know its own folder, so it finds fluxline-sim by the path.
  export PATH="$PATH:/"
  chroot "$1" /fluxline --version
  chroot "$1" /fluxline run --pcap board.pcapng --format board.toml --events key --require 4 \
    --folder tmp/run >"$1/tmp/printed"
  chroot "$1" /fluxline export tmp/run --to parquet
  chroot "$1" /fluxline sim run sci-ring.toml --quick >"$1/tmp/simulated"
' trial "$root"
grep "^Received 591 datagrams: 591 recorded" "$root/tmp/printed"

say "wheel"
venv="$PWD/target/venv"
if ! "$venv/bin/python" -c 'import maturin, wheel' 2>/dev/null; then
  [ -x "$venv/bin/python" ] || python3 -m venv "$venv"
  "$venv/bin/python" -m pip install --quiet --disable-pip-version-check 'maturin>=1.9,<2' wheel
fi
# maturin reads the symbols that the library needs, and tags the wheel with the oldest glibc for it.
"$venv/bin/python" -m maturin build --quiet --locked --profile dist --target "$target" \
  --manifest-path crates/fluxline-python/Cargo.toml --interpreter "$venv/bin/python" \
  --out "$root/bare"
rm -f "$out"/fluxline-*.whl
PYTHON="$venv/bin/python" tools/python/add_programs.sh "$root"/bare/*.whl "$out" "$out"
wheel="$(echo "$out"/fluxline-*.whl)"
if [[ "$wheel" != *manylinux* ]]; then
  echo "$wheel suits this host alone: maturin found no manylinux tag for it"
  exit 1
fi

say "trial of the wheel: a fresh virtual environment, an empty folder, nothing of this one on PATH"
mkdir "$root/empty"
"$venv/bin/python" -m venv "$root/venv"
# What a host without network is given: the wheel and NumPy.
"$root/venv/bin/pip" download --quiet --disable-pip-version-check --dest "$root/wheels" "$wheel"
env -i HOME="$root" PATH="$root/venv/bin:/usr/bin:/bin" PIP_DISABLE_PIP_VERSION_CHECK=1 \
  bash -euo pipefail -c '
  cd "$1/empty"
  pip install --quiet --no-index --find-links "$1/wheels" fluxline
  for program in fluxline fluxline-sim fluxline-bench; do
    test "$(command -v $program)" = "$1/venv/bin/$program"
    $program --version
  done
  fluxline demo --seconds 1 --folder runs/demo >printed
  fluxline sim run "$1/sci-ring.toml" --quick >simulated
  python - <<PYTHON
import fluxline as fl
[recorded] = fl.runs("runs").numpy("events")
assert len(fl.Run("runs/demo").events()) == recorded > 0, recorded
print(f"fluxline {fl.__version__} reads the {recorded} events of fluxline demo")
PYTHON
  pip uninstall --quiet --yes fluxline
' trial "$root"
left="$(find "$root/venv" -iname '*fluxline*')"
if [ -n "$left" ]; then
  printf 'pip uninstall left:\n%s\n' "$left"
  exit 1
fi

say "Debian package"
if ! command -v dpkg-deb >/dev/null; then
  echo "dpkg-deb is missing: no Debian package is made"
  ls -lh "$out"
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
ls -lh "$out"

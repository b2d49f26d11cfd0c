#!/usr/bin/env bash
# Builds the wheel of the Python package, installs it into target/python, and runs its tests.
# Arguments go to pytest: tools/python/test.sh -k run
set -euo pipefail
cd "$(dirname "$0")/../.."

venv="$PWD/target/venv"
tools=(maturin wheel pytest mypy matplotlib numba cffi pandas polars awkward)
# Formats of laboratories and their readers: docs/export-labs.md.
# aioca and paho-mqtt are of the slow control bridges (docs/slow-control.md); the test of MQTT needs
# Debian's mosquitto, and is skipped without it unless FLUXLINE_REQUIRE_TOOLS=1.
labs=(h5py scippnexus punx mdsthin "imas-python[netcdf]" p4p aioca paho-mqtt uproot awkward)
has() { "$venv/bin/python" -c "import $1" 2>/dev/null; }
installed() {
  has "maturin, wheel, pytest, mypy, matplotlib, numba, cffi, pandas, polars, awkward" &&
    has "numpy, pyarrow, h5py, scippnexus, punx, mdsthin, imas, netCDF4, p4p, aioca" &&
    has "paho.mqtt, uproot"
}
if ! installed; then
  [ -x "$venv/bin/python" ] || python3 -m venv "$venv"
  "$venv/bin/python" -m pip install --quiet --disable-pip-version-check numpy pyarrow "${tools[@]}" \
    "${labs[@]}"
fi

# A profile of cargo's: `PROFILE=release tools/python/test.sh` tests the wheel that users get.
"$venv/bin/maturin" build --quiet --locked --profile "${PROFILE:-dev}" \
  --manifest-path crates/fluxline-python/Cargo.toml --interpreter "$venv/bin/python" \
  --out target/wheels
rm -rf target/python
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --no-index \
  --target target/python --find-links target/wheels fluxline

export PYTHONPATH="$PWD/target/python"
exec "$venv/bin/python" -m pytest -c crates/fluxline-python/pyproject.toml \
  --rootdir crates/fluxline-python -p no:cacheprovider "$@"

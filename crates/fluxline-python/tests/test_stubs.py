"""The stubs agree with the module, and the package passes a strict check of its types."""

import pathlib
import subprocess
import sys

import fluxline

PACKAGE = pathlib.Path(fluxline.__file__).parent


def mypy(*arguments):
    done = subprocess.run(
        [sys.executable, "-m", *arguments], cwd=PACKAGE.parent, capture_output=True, text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_stubs_have_every_name_and_signature():
    mypy("mypy.stubtest", "fluxline._fluxline")


def test_the_package_is_typed(tmp_path):
    files = ["__init__", "_lines", "_waiting", "acquire", "connected", "epics_values", "errors"]
    files += ["links", "measured", "mqtt_values", "runs", "simulated", "tables"]
    modules = [argument for name in files for argument in ("-m", f"fluxline.{name}")]
    modules[1] = "fluxline"
    mypy("mypy", "--strict", "--python-version", "3.11", "--cache-dir", str(tmp_path), *modules)

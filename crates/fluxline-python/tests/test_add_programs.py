"""The programs in the wheel: tools/python/add_programs.sh, with stand-ins for wheel and programs.

The real ones take minutes to build. tools/package.sh builds, installs and runs those.
"""

import base64
import csv
import hashlib
import io
import os
import pathlib
import subprocess
import sys
import zipfile

import pytest

SCRIPT = pathlib.Path(__file__).resolve().parents[3] / "tools/python/add_programs.sh"
PROGRAMS = ("fluxline", "fluxline-sim", "fluxline-bench")
NAME = "fluxline-1.2.3-cp311-abi3-manylinux2014_x86_64.manylinux_2_17_x86_64.whl"
TAGS = ["cp311-abi3-manylinux2014_x86_64", "cp311-abi3-manylinux_2_17_x86_64"]


@pytest.fixture
def lab(tmp_path: pathlib.Path) -> pathlib.Path:
    """A folder with a wheel of one module, and three programs that print their names."""
    tree = tmp_path / "tree"
    info = tree / "fluxline-1.2.3.dist-info"
    info.mkdir(parents=True)
    (tree / "stand_in.py").write_text("whole = True\n")
    (info / "METADATA").write_text("Metadata-Version: 2.4\nName: fluxline\nVersion: 1.2.3\n")
    (info / "WHEEL").write_text(
        "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: false\n"
        + "".join(f"Tag: {tag}\n" for tag in TAGS)
    )
    (info / "RECORD").write_text("")
    pack = [sys.executable, "-m", "wheel", "pack", "--dest-dir", tmp_path, tree]
    subprocess.run(pack, check=True, stdout=subprocess.DEVNULL)
    (tmp_path / "programs").mkdir()
    for program in PROGRAMS:
        # Not executable, as after a download.
        (tmp_path / "programs" / program).write_text(f"#!/bin/sh\necho {program} runs\n")
    return tmp_path


def add(lab: pathlib.Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [SCRIPT, lab / NAME, lab / "programs", lab / "out"],
        env=os.environ | {"PYTHON": sys.executable}, capture_output=True, text=True,
    )


def test_the_record_has_the_hash_and_size_of_each_file_and_the_tags_stay(lab):
    done = add(lab)
    assert done.returncode == 0, done.stderr
    with zipfile.ZipFile(lab / "out" / NAME) as made, zipfile.ZipFile(lab / NAME) as before:
        scripts = {f"fluxline-1.2.3.data/scripts/{program}" for program in PROGRAMS}
        assert set(made.namelist()) == set(before.namelist()) | scripts
        listed = csv.reader(io.StringIO(made.read("fluxline-1.2.3.dist-info/RECORD").decode()))
        record = {name: (digest, size) for name, digest, size in listed}
        assert set(record) == set(made.namelist())
        for name, (digest, size) in record.items():
            if name.endswith("/RECORD"):
                continue
            data = made.read(name)
            own = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")
            assert (digest, size) == (f"sha256={own}", str(len(data))), name
        for name in scripts:
            assert made.getinfo(name).external_attr >> 16 & 0o777 == 0o755, name
        wheel = made.read("fluxline-1.2.3.dist-info/WHEEL").decode().splitlines()
        assert sorted(line[5:] for line in wheel if line.startswith("Tag: ")) == TAGS


def test_installed_programs_run_and_leave_with_the_package(lab):
    assert add(lab).returncode == 0
    quiet = ["--quiet", "--disable-pip-version-check"]
    subprocess.run([sys.executable, "-m", "venv", lab / "venv"], check=True)
    # Isolated: PYTHONPATH may have the real package, which pip would take away instead.
    pip = [lab / "venv/bin/python", "-I", "-m", "pip"]
    subprocess.run([*pip, "install", *quiet, "--no-index", lab / "out" / NAME], check=True)
    for program in PROGRAMS:
        printed = subprocess.run(
            [lab / "venv/bin" / program], check=True, capture_output=True, text=True
        )
        assert printed.stdout == f"{program} runs\n"
    subprocess.run([*pip, "uninstall", *quiet, "--yes", "fluxline"], check=True)
    assert [*(lab / "venv").rglob("*fluxline*"), *(lab / "venv").rglob("*stand_in*")] == []


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_missing_or_empty_program_is_named_and_no_wheel_is_made(lab, program):
    path = lab / "programs" / program
    for spoil in (lambda: path.write_text(""), path.unlink):
        spoil()
        done = add(lab)
        assert done.returncode != 0
        assert f"programs/{program} is missing or empty" in done.stderr
        assert not (lab / "out").exists()


def test_a_damaged_wheel_is_refused_and_no_wheel_is_made(lab):
    with zipfile.ZipFile(lab / NAME) as good:
        files = {name: good.read(name) for name in good.namelist()}
    with zipfile.ZipFile(lab / NAME, "w") as bad:
        for name, data in files.items():
            bad.writestr(name, b"whole = False\n" if name == "stand_in.py" else data)
    done = add(lab)
    assert done.returncode != 0
    assert "stand_in.py" in done.stderr
    assert not (lab / "out").exists()

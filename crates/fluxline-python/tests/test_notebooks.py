"""The notebooks of the examples run from the first cell to the last."""

import json
import os
import subprocess
import sys

import pytest

from conftest import ROOT

NOTEBOOKS = sorted((ROOT / "examples/python/notebooks").glob("*.ipynb"))


def test_there_are_notebooks():
    assert len(NOTEBOOKS) >= 3


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(notebook, program, tmp_path):
    cells = json.loads(notebook.read_text())["cells"]
    code = "\n\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
    assert not any(cell.get("outputs") for cell in cells), "store notebooks without outputs"
    script = tmp_path / f"{notebook.stem}.py"
    script.write_text(code)
    environment = dict(os.environ, MPLBACKEND="Agg", TMPDIR=str(tmp_path))
    environment["PATH"] = f"{program.parent}:{environment['PATH']}"
    done = subprocess.run(
        [sys.executable, script], cwd=tmp_path, env=environment, timeout=300,
        capture_output=True, text=True, check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr

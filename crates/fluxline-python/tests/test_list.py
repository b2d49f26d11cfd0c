"""The list of runs: the rows of the program, also of damaged, tagged and archived runs."""

import json
import shutil
import subprocess

import numpy as np
import pytest
from test_runs import record

import fluxline as fl


@pytest.fixture(scope="module")
def folder(program, tmp_path_factory):
    at = tmp_path_factory.mktemp("list")
    run = record(program, at, np.zeros((20, 2, 4), dtype=np.int16))
    runs = at / "all"
    for number in range(4):
        shutil.copytree(run, runs / f"{number:04}")
    (runs / "0002/run.json").write_text("{")
    for arguments in (["runs", "tag", runs / "0001", "good", "hv=1"],
                      ["runs", "comment", runs / "0001", "beam was unstable"],
                      ["archive", runs / "0003", "--to", at, "--remove-local"]):
        subprocess.run([program, *arguments], check=True, capture_output=True)
    return runs


def rows(program, folder, *options):
    command = [program, "--json", "runs", folder, *options]
    return json.loads(subprocess.run(command, check=True, capture_output=True).stdout)["runs"]


def test_the_rows_are_those_of_the_program(program, folder):
    wanted = rows(program, folder)
    found = fl.runs(folder).arrow().to_pylist()
    assert [set(row) for row in found] == [set(row) for row in wanted]
    assert found == wanted and len(found) == 4
    table = fl.runs(folder, sort="name")
    assert list(table.numpy("name")) == ["0000", "0001", "0002", "0003"]
    assert table.numpy("events").mask.tolist() == [False, False, True, False]
    assert table.pandas()["archived_at"][3].endswith("0003")
    assert len(table) == 4


@pytest.mark.parametrize(("options", "arguments"), [
    ({"tags": "good"}, ["--tag", "good"]),
    ({"tags": ["good", "hv=1"]}, ["--tag", "good", "--tag", "hv=1"]),
    ({"search": "UNSTABLE"}, ["--search", "UNSTABLE"]),
    ({"status": ["damaged"]}, ["--status", "damaged"]),
    ({"since": 1, "until": "2100-01-01", "limit": 2, "sort": "size", "reverse": True},
     ["--until", "2100-01-01", "--limit", "2", "--sort", "size", "--reverse"]),
    ({"until": 1}, ["--until", "1970-01-01T00:00:01Z"]),
])
def test_filters_are_those_of_the_command_line(program, folder, options, arguments):
    assert fl.runs(folder, **options).arrow().to_pylist() == rows(program, folder, *arguments)


def test_wrong_arguments_are_sentences(folder, tmp_path):
    for options, says in [({"sort": "colour"}, "unknown variant `colour`"),
                          ({"status": "broken"}, "unknown variant `broken`"),
                          ({"since": "noon"}, "noon")]:
        with pytest.raises(fl.InputError, match=says):
            fl.runs(folder, **options)
    with pytest.raises(fl.InputError, match="is not a folder"):
        fl.runs(tmp_path / "none")
    with pytest.raises(fl.InputError, match="is a run, not a folder of runs"):
        fl.runs(folder / "0000")
    assert len(fl.runs(tmp_path)) == 0

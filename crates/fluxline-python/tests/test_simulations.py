"""Simulations and benchmarks: tables that are ready to plot."""

import os
import pathlib

import numpy as np
import pyarrow as pa
import pytest

import fluxline as fl
from fluxline.simulated import toml

SCENARIO = {
    "title": 'a "quoted" ring',
    "seed": 3,
    "network": {"kind": "sci-ring", "nodes": 4, "preset": "lc2"},
    "traffic": {"pattern": "uniform", "bytes": 64},
    "run": {"loads": [0.05, 0.1, 0.2], "duration-us": 100.0, "warm-up-us": 10.0},
}


def test_a_dict_is_simulated_and_its_results_are_tables():
    simulation = fl.simulate(SCENARIO, quick=True)
    assert simulation.tables == ["latency", "links", "nodes", "points"]
    points = simulation.points
    assert points["load"].tolist() == [0.05, 0.1, 0.2]
    assert (np.diff(points["accepted_mb_s"]) > 0).all()
    assert simulation["points"].units["p99_us"] == "us"
    assert pa.table(simulation["nodes"]).num_rows == 12
    assert pa.table(simulation["nodes"]).num_rows == 12, "a table may be read twice"
    assert simulation.document["scenario"]["title"] == 'a "quoted" ring'
    again = fl.simulate(toml(SCENARIO), quick=True)
    assert again.fingerprint == simulation.fingerprint
    assert fl.simulate(SCENARIO, quick=True, seed=4).fingerprint != simulation.fingerprint


def test_a_file_and_a_sweep_are_simulated(tmp_path):
    swept = dict(SCENARIO, sweep={"key": "network.nodes", "values": [2, 4]})
    file = tmp_path / "sweep.toml"
    file.write_text(toml(swept))
    simulation = fl.simulate(file, quick=True)
    assert set(simulation["points"].numpy("value")) == {"2", "4"}
    assert simulation.fingerprint is None


def test_wrong_scenarios_are_sentences_with_line_and_key(tmp_path):
    for wrong, says in [
        ({"network": {"kind": "sci-rings"}}, "sci-ring"),
        (dict(SCENARIO, trafic={}), "did you mean"),
        ("a = 1\nb = [", "the scenario"),
        (tmp_path / "none.toml", "none.toml"),
        ({"network": {"kind": "sci-ring", "nodes": 10**9}}, "nodes"),
    ]:
        with pytest.raises(fl.SimulationError, match=says):
            fl.simulate(wrong)
    for wrong in ({1: 2}, {"a": object()}):
        with pytest.raises(fl.InputError):
            fl.simulate(wrong)


def test_toml_keeps_every_value():
    tomllib = pytest.importorskip("tomllib")
    document = {
        "text": 'quote " slash \\ line \n tab \t é \x01 \x7f',
        "number": -3,
        "big": 2**62,
        "float": 1e-7,
        "inf": float("-inf"),
        "yes": True,
        "list": [1, 2, [3, "x"]],
        "numpy": np.arange(3),
        "scalar": np.float64(0.5),
        "inner": {"deep key": {"a": 1}, "rows": [{"a": 1, "b": [True]}]},
    }
    wanted = dict(document, numpy=[0, 1, 2], scalar=0.5)
    assert tomllib.loads(toml(document)) == wanted


def test_a_simulated_link_is_measured_and_repeats():
    report = fl.bench("sim:sci?nodes=2", only=["pingpong"], sizes=(1, 4096))
    assert report.experiments == ["pingpong"]
    size, latency = report.curve("pingpong")
    assert size[0] == 1 and size[-1] == 4096 and (latency > 0).all()
    columns = report.series()
    assert len({len(column) for column in columns.values()}) == 1
    assert set(columns["x_unit"]) == {"B"}
    again = fl.bench("sim:sci?nodes=2", only="pingpong", sizes=(1, 4096))
    assert again.document["experiments"] == report.document["experiments"]
    with pytest.raises(fl.InputError, match="no series"):
        report.curve("pingpong", "none")


@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="both ends need a core each")
def test_shared_memory_is_measured_between_two_processes():
    report = fl.bench("shm://", only=["pingpong"], rounds=1, sizes=(1, 64))
    size, latency = report.curve("pingpong")
    assert size.tolist()[0] == 1 and 0 < latency[0] < 1e5
    assert "Both sides on this host" in report.document["environment"]["pinned"]


def test_wrong_benchmarks_are_sentences():
    for call, says in [
        (lambda: fl.bench("carrier-pigeon://"), "write shm://"),
        (lambda: fl.bench("shm://", only=["pinpong"]), "pingpong"),
        (lambda: fl.bench("tcp://127.0.0.1", only=["load"]), "not possible"),
        (lambda: fl.bench("shm://", peer="here"), "not an address"),
    ]:
        with pytest.raises(fl.Error, match=says):
            call()
    with pytest.raises(fl.BenchError, match="serves at"):
        fl.bench("udp://127.0.0.1", only=["pingpong"], peer="127.0.0.1:1", key="x")


def test_examples_of_the_project_are_simulated():
    root = pathlib.Path(__file__).resolve().parents[3]
    simulation = fl.simulate(root / "scenarios/sci-ring.toml", quick=True)
    assert len(simulation.points["load"]) > 2

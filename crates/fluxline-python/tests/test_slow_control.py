"""Slow control values of a run, joined with its events by time."""

import shutil

import numpy as np
import pyarrow as pa
import pytest
from test_runs import EVENTS, record

import fluxline as fl

TIME = pa.timestamp("ns", "UTC")
SCHEMA = pa.schema([("time", TIME), ("arrival", TIME), ("name", pa.string()),
                    ("value", pa.float64()), ("text", pa.string()), ("unit", pa.string())])


def rows(first):
    """Return batches of values around the time `first`, out of order as senders are."""
    at = [first + 2_000, first - 500, first + 2_000, first - 800, first + 10]
    names = ["hv/voltage", "hv/voltage", "hv/voltage", "t/c", "t/state"]
    return [pa.record_batch([
        pa.array(at, pa.int64()).cast(TIME), pa.array(range(5), pa.int64()).cast(TIME),
        pa.array(names), pa.array([1, 2, 3, 20.5, None], pa.float64()),
        pa.array([None, None, None, None, "ok"], pa.string()), pa.array(["V"] * 3 + [None] * 2),
    ], schema=SCHEMA)] * 2


@pytest.fixture(scope="module")
def path(program, tmp_path_factory):
    samples = np.zeros((EVENTS, 2, 4), dtype=np.int16)
    return record(program, tmp_path_factory.mktemp("slow"), samples)


@pytest.fixture
def run(path, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(path, folder)
    first = fl.Run(folder).events(columns=["first_time"]).numpy("first_time").min()
    with pa.ipc.new_stream(folder / "slow.arrows", SCHEMA) as stream:
        for batch in rows(int(first.astype(np.int64))):
            stream.write_batch(batch)
    return fl.Run(folder)


def test_each_event_has_the_newest_value_at_or_before_its_time(run):
    first = run.events().numpy("first_time").min()
    near = first + np.array([-501, -500, 0, 1_999, 2_000, 10**9], dtype="timedelta64[ns]")
    wanted = [np.nan, 2, 2, 2, 3, 3]
    for events in (near, near.astype(np.int64), pa.array(near), pa.table({"first_time": near}),
                   pa.table({"time": pa.array(near, TIME)})):
        np.testing.assert_array_equal(run.join("hv/voltage", events), wanted)
    of_all = run.join("hv/voltage")
    assert of_all.shape == (EVENTS,) and set(of_all) <= {2.0, 3.0}
    assert (run.join("hv/voltage", run.events()) == of_all).all()
    assert (run.join("t/c", run.packets()) == 20.5).all()
    assert run.join("t/c", run.events(events=(3, 7))).shape == (4,)


def test_a_torn_file_has_its_whole_batches(run, path):
    assert run.slow().num_rows == 10
    file = pa.OSFile(f"{run.path}/slow.arrows").readall()
    with open(f"{run.path}/slow.arrows", "wb") as torn:
        torn.write(file[:-40])
    assert run.slow().num_rows == 5
    with pytest.raises(fl.InputError, match="has no .slow-control."):
        fl.Run(path).slow()


def test_wrong_names_and_events_are_refused_in_a_sentence(run):
    for name, events, says in [("hv/voltag", None, "did you mean 'hv/voltage'"),
                               ("t/state", None, "has texts"),
                               ("t/c", [1, 2], "has no times"),
                               ("t/c", np.array([1.5]), "has no times"),
                               ("t/c", pa.table({"key": [1]}), "has no times"),
                               ("t/c", pa.array([None, 1]), "1 nulls")]:
        with pytest.raises(fl.InputError, match=says):
            run.join(name, events)

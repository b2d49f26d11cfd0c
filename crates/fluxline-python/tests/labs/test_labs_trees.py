"""Exports to MDSplus (a server of the protocol, written for this test) and to IMAS."""

import memory_runs as runs
import numpy as np
import pyarrow as pa
import pytest
from needs import package
from mdsip_server import MdsipServer

from fluxline._selection import ExportError


def common(batches):
    """Marks the columns that every packet has, as the tables of a run do."""
    made = []
    for batch in batches:
        fields = [field.with_metadata({**(field.metadata or {}), "common": field.name,
                                       "part": "common"})
                  if field.name in ("event", "source", "time") else field for field in batch.schema]
        schema = pa.schema(fields, {"fluxline.sources": '{"0": "left", "1": "right"}'})
        made.append(pa.record_batch(batch.columns, schema=schema))
    return made


def a_run(**given):
    return runs.MemoryRun(runs.info(), {"x-data": common(runs.waveforms(1, **given))})


@pytest.fixture(name="server")
def running():
    package("mdsthin")
    server = MdsipServer()
    yield server
    server.stop()


def test_columns_of_sources_become_segments_with_times(server):
    from fluxline.mdsplus import to_mdsplus

    report = to_mdsplus(a_run(), f"{server.address}/daq/4711")
    assert report.rows == {"x-data": 15}
    assert server.calls == [("TreeOpen", "DAQ", 4711), ("TreeClose", "DAQ", 4711)]
    found = server.segments[r"\DAQ::TOP.X_DATA.S1:AMPLITUDE"]
    wanted = [batch for batch in runs.waveforms(1)]
    assert len(found) == len(wanted)
    for (times, values), batch in zip(found, wanted, strict=True):
        rows = np.flatnonzero(batch.column("source").to_numpy() == 1)
        assert (times == batch.column("time").cast(pa.int64()).to_numpy()[rows]).all()
        assert values.dtype == np.int16
        assert values.tolist() == [batch.column("amplitude")[int(row)].as_py() for row in rows]


def test_waveforms_of_different_length_are_joined_with_a_time_for_each_sample(server):
    from fluxline.mdsplus import to_mdsplus

    run = a_run(ragged=True)
    with pytest.raises(ExportError, match="differ in length; give sample-seconds"):
        to_mdsplus(run, f"{server.address}/daq/1")
    server.segments.clear()
    to_mdsplus(run, f"{server.address}/daq/1", sample_seconds=1e-8, columns=["amplitude"])
    parts = server.segments[r"\DAQ::TOP.X_DATA.S0:AMPLITUDE"]
    times, values = (np.concatenate(one) for one in zip(*parts, strict=True))
    wanted_values, wanted_times = [], []
    for batch in runs.waveforms(1, ragged=True):
        starts = batch.column("time").cast(pa.int64()).to_pylist()
        for row, number in enumerate(batch.column("source").to_pylist()):
            if number == 0:
                samples = batch.column("amplitude")[row].as_py()
                wanted_values += samples
                wanted_times += [starts[row] + 10 * k for k in range(len(samples))]
    assert values.tolist() == wanted_values and times.tolist() == wanted_times
    assert list(server.segments) == [r"\DAQ::TOP.X_DATA.S0:AMPLITUDE",
                                     r"\DAQ::TOP.X_DATA.S1:AMPLITUDE"]


def test_the_commands_create_every_node_that_is_written(server):
    from fluxline.mdsplus import to_mdsplus

    text = to_mdsplus(a_run(), f"{server.address}/daq/4711", tcl=True)
    lines = text.splitlines()
    assert lines[0] == "edit DAQ /shot=-1" and lines[-1] == "create pulse 4711"
    signals = [line.split()[2] for line in lines if line.endswith("/usage=signal")]
    to_mdsplus(a_run(), f"{server.address}/daq/4711")
    assert sorted(signals) == sorted(server.segments)
    assert r"add node \DAQ::TOP.X_DATA.S0 /usage=structure" in lines


def test_missing_nodes_and_servers_are_one_sentence(server):
    from fluxline.mdsplus import node_name, to_mdsplus

    server.nodes = set()
    with pytest.raises(ExportError, match="took no segment .*create the nodes by the commands"):
        to_mdsplus(a_run(), f"{server.address}/daq/1")
    with pytest.raises(ExportError, match="write SERVER/TREE/SHOT"):
        to_mdsplus(a_run(), "localhost")
    server.stop()
    with pytest.raises(ExportError, match="no answer from .*is mdsip running there"):
        to_mdsplus(a_run(), f"{server.address}/daq/1")
    names = {node_name("fragment_index_of_the_board"), node_name("fragment_index_of_the_bean")}
    assert len(names) == 2 and all(len(one) == 12 for one in names)


def test_imas_reads_waveforms_back_with_their_times(tmp_path):
    imas = package("imas")
    from fluxline.imas import to_imas

    path = tmp_path / "run.nc"
    to_imas(a_run(), path, ids="magnetics/flux_loop/voltage", signal="amplitude",
            sample_seconds=1e-6)
    with imas.DBEntry(str(path), "r") as entry:
        ids = entry.get("magnetics")
        names = [str(one.name) for one in ids.flux_loop]
        values = ids.flux_loop[1].voltage.data.value
        times = ids.flux_loop[1].voltage.time.value
        comment = str(ids.ids_properties.comment)
    assert names == ["left", "right"] and comment == "Received 8 datagrams."
    wanted, starts = [], []
    for batch in runs.waveforms(1):
        for row in np.flatnonzero(batch.column("source").to_numpy() == 1):
            wanted += batch.column("amplitude")[int(row)].as_py()
            starts.append(batch.column("time").cast(pa.int64())[int(row)].as_py() - runs.START)
    assert values.tolist() == wanted
    assert np.allclose(times[::16], np.array(starts) * 1e-9)
    assert np.allclose(np.diff(times)[:15], 1e-6)


@pytest.mark.parametrize(("given", "sentence"), [
    ({}, "an IDS needs a place, a column and the sample time"),
    ({"ids": "magnetics"}, "write IDS/ARRAY/FIELD"),
    ({"ids": "magnet/flux_loop/voltage"}, "has no IDS `magnet`"),
    ({"ids": "magnetics/flux_loop/name"}, "does not take waveforms"),
    ({"ids": "magnetics/loop/voltage"}, "does not take waveforms"),
    ({"signal": "adc"}, "no selected packet has a column `adc`"),
    ({"path": "run.h5"}, "does not end in .nc"),
])
def test_imas_refuses_in_one_sentence(given, sentence, tmp_path):
    package("imas")
    from fluxline.imas import to_imas

    usual = {"ids": "magnetics/flux_loop/voltage", "signal": "amplitude", "sample_seconds": 1e-6}
    options = {**usual, **given} if given else {}
    path = tmp_path / options.pop("path", "run.nc")
    with pytest.raises(ExportError, match=sentence):
        to_imas(a_run(), path, **options)
    assert list(tmp_path.iterdir()) == []

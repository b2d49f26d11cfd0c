"""Exports to NeXus: read back by scippnexus, checked by punx."""

import subprocess
import sys
from pathlib import Path

import memory_runs as runs
import numpy as np
import pyarrow as pa
import pytest
from needs import package
from test_runs import EVENTS, record
from test_slow_control import SCHEMA, TIME

import fluxline as fl

h5py = package("h5py")

from fluxline.nexus import Roles, nexus_name, to_nexus  # noqa: E402

SOURCES = {"fluxline.sources": '{"0": "left", "1": "right"}'}
INFO = {
    "control": {"shot": 4711, "remarks": [{"at_ns": runs.START + 5, "text": "beam is back"}]},
    "ledger": {"builder": {"events_complete": 7, "huge": (1 << 64) - 1},
               "inputs": [{"name": "boards", "counters": {"datagrams": 8}}]},
}


def hits(seed=3, batches=3):
    """Returns batches of a table with records that have a pixel, a time and a charge."""
    made = []
    for batch in runs.waveforms(seed, batches=batches, ragged=True):
        lists = batch.column("amplitude")
        values = np.abs(lists.flatten().to_numpy().astype(np.int32))
        own = [pa.ListArray.from_arrays(lists.offsets, pa.array(values.astype(kind)))
               for kind in (np.uint16, np.uint32, np.uint16)]
        fields = [runs.described("pixel", own[0].type, part="record"),
                  runs.described("time_offset", own[1].type, "ns", part="record"),
                  runs.described("adc", own[2].type, "count", part="record")]
        facts = {**SOURCES, "fluxline.record": "hit"}
        schema = pa.schema([*list(batch.schema)[:4], *fields], facts)
        made.append(pa.record_batch([*batch.columns[:4], *own], schema=schema))
    return made


def slow():
    return [batch.select(["event", "source", "time", "gain"]) for batch in runs.waveforms(4)]


def a_run():
    tables = {"x-data": runs.waveforms(1), "x-ragged": runs.waveforms(2, ragged=True),
              "x-hits": hits(), "x-slow": slow()}
    return runs.MemoryRun(runs.info(**INFO), tables)


@pytest.fixture(name="path")
def written(tmp_path):
    path = tmp_path / "run.nxs"
    to_nexus(a_run(), path)
    return path


def test_scippnexus_reads_waveforms_events_and_logs(path):
    snx = package("scippnexus")
    with snx.File(path, "r") as file:
        entry = file["entry"]
        waves = entry["x_data"][...]
        events = entry["instrument/x_hits/events"][...]
        log = entry["x_slow/source_1/gain"][...]
    assert waves.dims == ("time", "sample") and waves.shape == (15, 16)
    wanted = np.concatenate([np.stack(one.column("amplitude").to_numpy(zero_copy_only=False))
                             for one in runs.waveforms(1)])
    assert (waves.values == wanted).all()
    assert str(waves.coords["time"].values[0]).startswith("2026-11-23T11:42:20.720361737")
    batches = hits()
    lengths = [len(row) for batch in batches for row in batch.column("pixel").to_pylist()]
    assert [len(one) for one in events.values] == lengths
    content = events.bins.concat().value
    wanted = np.concatenate([one.column("pixel").flatten().to_numpy() for one in batches])
    assert (content.coords["event_id"].values == wanted).all()
    assert str(content.coords["event_time_offset"].unit) == "ns"
    assert str(events.coords["event_time_zero"].values[0]).startswith("2026-11-23T11:42:20")
    rows = sum((one.column("source").to_numpy() == 1).sum() for one in slow())
    assert log.sizes["time"] == rows


def test_punx_finds_no_error_and_warns_only_of_free_collections(path, tmp_path):
    package("punx")
    punx = Path(sys.executable).parent / "punx"
    done = subprocess.run([punx, "validate", path], capture_output=True, text=True, timeout=120,
                          cwd=tmp_path, check=False)
    lines = done.stdout.splitlines()
    errors = [line for line in lines if " ERROR " in line and "violates" not in line]
    assert "ERROR    0" in done.stdout, (errors, done.stderr)
    warnings = [line for line in lines if " WARN " in line and "not generally" not in line]
    strange = [line for line in warnings if "NXcollection contains non-NeXus content" not in line]
    assert strange == []


def test_the_entry_has_facts_notes_ledger_and_sources(path):
    with h5py.File(path) as file:
        entry = file["entry"]
        assert entry["title"].asstr()[()] == "bench of the tests"
        assert entry["experiment_identifier"].asstr()[()] == "4711"
        assert entry["start_time"].asstr()[()].startswith("2026-11-23T11:42:20")
        assert entry["note_0/data"].asstr()[()] == "beam is back"
        assert entry["ledger/builder/events_complete"][()] == 7
        assert entry["ledger/inputs_0/counters/datagrams"][()] == 8
        assert list(entry["sources/name"].asstr()) == ["left", "right"]
        assert entry.attrs["default"] == "x_data"
        assert entry["x_ragged"].attrs["NX_class"] == "NXcollection"


def test_columns_without_known_names_take_roles(tmp_path):
    renamed = [pa.record_batch(one.columns, schema=pa.schema(
        [field.with_name({"pixel": "strip", "time_offset": "delay"}.get(field.name, field.name))
         for field in one.schema], one.schema.metadata)) for one in hits()]
    run = runs.MemoryRun(runs.info(), {"x": renamed})
    to_nexus(run, tmp_path / "plain.nxs")
    to_nexus(run, tmp_path / "roles.nxs", roles=Roles(event_id="strip", event_time="delay"))
    with h5py.File(tmp_path / "plain.nxs") as plain, h5py.File(tmp_path / "roles.nxs") as roles:
        assert plain["entry/x"].attrs["NX_class"] == "NXcollection"
        events = roles["entry/instrument/x/events"]
        total = sum(len(one.column("pixel").flatten()) for one in hits())
        assert events["event_id"].shape == events["event_time_offset"].shape == (total,)
        assert events["event_index"].shape == (15,)


def test_fields_called_time_and_sample_keep_their_names(tmp_path):
    sensor = runs.described("sensor_time_ns", pa.uint64(), "ns", epoch="1970-01-01 UTC",
                            common="sensor_time_ns")

    def renamed(batch, also):
        fields = [sensor if one.name == "time" else one.with_name(also.get(one.name, one.name))
                  for one in batch.schema]
        columns = [column.cast(pa.int64()).cast(pa.uint64()) if one.name == "time" else column
                   for one, column in zip(batch.schema, batch.columns, strict=True)]
        return pa.record_batch(columns, schema=pa.schema(fields))

    run = runs.MemoryRun(runs.info(), {
        "slow": [renamed(one, {"gain": "time"}) for one in slow()],
        "fast": [renamed(one, {"gain": "sample"}) for one in runs.waveforms(1)],
    })
    to_nexus(run, tmp_path / "a.nxs")
    with h5py.File(tmp_path / "a.nxs") as file:
        log = file["entry/slow/source_0/time"]
        assert set(log["value"][...]) <= {0, 7} and log["time"].attrs["start"].startswith("1970")
        fast = file["entry/fast"]
        assert list(fast.attrs["axes"]) == ["sensor_time_ns", "sample_number"]
        assert set(fast["sample"][...]) <= {0, 7}


def test_slow_control_values_are_logs_by_name_and_unit(program, tmp_path):
    path = record(program, tmp_path, np.zeros((EVENTS, 2, 4), dtype=np.int16))
    to_nexus(path, tmp_path / "without.nxs")
    at = [runs.START + one for one in (30, 10, 20, 20, 40, 50, 60)]
    names = ["hv{slot=3}/v", "hv{slot=3}/v", "hv{slot=3}/v", "hv{slot=3}/v", "hv_slot_3_/v", "1/s",
             "hv{slot=3}/v"]
    values = [3.0, 1.0, 2.0, 2.5, 7.0, None, 6.0]
    slow = pa.table([
        pa.array(at, pa.int64()).cast(TIME), pa.array(range(7), pa.int64()).cast(TIME),
        names, pa.array(values, pa.float64()), [*[None] * 5, "on µ", None],
        ["V", "V", "V", "V", None, None, "kV"]], schema=SCHEMA)
    with pa.ipc.new_stream(Path(path) / "slow.arrows", SCHEMA) as stream:
        stream.write_table(slow)
    to_nexus(path, tmp_path / "a.nxs", tables=["events"])
    with h5py.File(tmp_path / "without.nxs") as file:
        assert "slow_control" not in file["entry"]
    with h5py.File(tmp_path / "a.nxs") as file:
        group = file["entry/slow_control"]
        assert group.attrs["NX_class"] == "NXcollection" and len(group) == 4
        log = group["hv_slot_3__v"]
        assert log.attrs["NX_class"] == "NXlog"
        assert list(log["value"]) == [1.0, 2.0, 2.5, 3.0] and log["value"].attrs["units"] == "V"
        assert list(log["time"]) == sorted(at[:4]) and log["time"].attrs["units"] == "ns"
        assert log["time"].attrs["start"] == "1970-01-01T00:00:00Z"
        assert log["description"].asstr()[()] == "hv{slot=3}/v"
        table = fl.Run(path).slow()
        joined = fl.Run(path).join("hv{slot=3}/v", log["time"][:])
        assert table.num_rows == sum(one["value"].size for one in group.values())
        assert list(joined) == [1.0, 2.5, 2.5, 3.0]  # the last of one time
        assert list(group["hv_slot_3__v_2/value"]) == [7.0]
        assert "units" not in group["hv_slot_3__v_2/value"].attrs
        assert group["hv_slot_3__v_3/value"].attrs["units"] == "kV"
        text = group["value_1_s"]
        assert text.attrs["NX_class"] == "NXcollection"
        assert list(text["value"].asstr()) == ["on µ"] and list(text["time"]) == [at[5]]
    punx = Path(sys.executable).parent / "punx"
    done = subprocess.run([punx, "validate", tmp_path / "a.nxs"], capture_output=True, text=True,
                          timeout=120, cwd=tmp_path, check=False)
    lines = [one for one in done.stdout.splitlines() if "slow_control" in one]
    assert len(lines) > 10 and not any(" ERROR " in one for one in lines), lines


def test_names_of_groups_are_those_that_nexus_permits():
    assert nexus_name("ess-readout-version-1") == "ess_readout_version_1"
    assert nexus_name("1/µ") == "table_1__"

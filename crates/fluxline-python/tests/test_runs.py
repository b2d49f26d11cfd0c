"""Runs: recorded by the program, read as tables and arrays, finished or not."""

import datetime
import json
import shutil
import subprocess

import numpy as np
import pyarrow as pa
import pytest

import fluxline as fl

DESCRIPTION = """
name = "digitizer"
about = "Waveforms of a board of these tests."
reference = "none: made up"
byte-order = "big"

[[packet]]
name = "waveform"
source = ["board"]
fields = [
  { name = "magic", type = "u16", equals = 0xBEEF },
  { name = "board", type = "u16" },
  { name = "number", type = "u32" },
  { name = "temperature", type = "i16", unit = "0.1 K", help = "Of the board." },
  { name = "spare", type = "u16" },
]
sequence = { value = "number" }
event = { key = "number" }
[packet.records]
name = "sample"
bytes = 2
fields = [{ name = "adc", type = "i16", unit = "count", help = "Amplitude." }]
"""

EXPERIMENT = """
name = "waveforms"
[[source]]
name = "boards"
format = "digitizer.toml"
[source.raw]
file = "packets.bin"
length-prefix = "u32-le"
[events]
build = "key"
require = 2
"""

EVENTS, SAMPLES = 500, 100


def packets(samples):
    """Return the packets of a file: one of each board for each event, with length prefixes."""
    parts = []
    for number in range(samples.shape[0]):
        for board in range(samples.shape[1]):
            head = b"\xbe\xef" + board.to_bytes(2, "big") + number.to_bytes(4, "big")
            head += (200 + board).to_bytes(2, "big") + bytes(2)
            packet = head + samples[number, board].astype(">i2").tobytes()
            parts.append(len(packet).to_bytes(4, "little") + packet)
    return b"".join(parts)


def record(program, folder, samples, more=""):
    """Record a run of two boards, with more of its experiment; return its path."""
    (folder / "digitizer.toml").write_text(DESCRIPTION)
    (folder / "run.toml").write_text(EXPERIMENT + more)
    (folder / "packets.bin").write_bytes(packets(samples))
    done = subprocess.run(
        [program, "run", "run.toml"], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr + done.stdout
    return folder / "runs/0000"


@pytest.fixture(scope="module")
def samples():
    rng = np.random.default_rng(3)
    return rng.integers(-(2**15), 2**15, (EVENTS, 2, SAMPLES), dtype=np.int16)


@pytest.fixture(scope="module")
def path(program, samples, tmp_path_factory):
    return record(program, tmp_path_factory.mktemp("run"), samples)


@pytest.fixture
def run(path):
    return fl.Run(path)


def test_a_run_knows_its_tables_sources_and_ledger(run, path):
    assert run.tables[:2] == ["events", "packets"]
    assert "digitizer-waveform" in run.tables
    assert [source["source"] for source in run.sources] == [0, 1]
    assert run.info["state"] == "complete" or run.info["state"]
    assert run.info == json.loads((path / "run.json").read_text())
    assert run.ledger == run.info.get("ledger", {})
    assert run.notes == []
    assert str(path) in repr(run)


def test_waveforms_are_rows_of_one_array(run, samples):
    table = run.fragments()
    assert table.name == "digitizer-waveform"
    adc = table.numpy("adc")
    assert adc.shape == (2 * EVENTS, SAMPLES) and adc.dtype == np.int16
    board = table.numpy("board")
    for number in range(2):
        assert (adc[board == number] == samples[:, number]).all()
    assert table.units["adc"] == "count" and table.units["temperature"] == "0.1 K"
    values, offsets = table.ragged("adc")
    assert (values.reshape(-1, SAMPLES) == adc).all()
    assert offsets.tolist() == list(range(0, values.size + 1, SAMPLES))


def test_arrow_libraries_read_tables_with_lists_and_units(run, samples):
    table = run.fragments().arrow()
    table.validate(full=True)
    field = table.schema.field("adc")
    assert pa.types.is_list(field.type) or pa.types.is_fixed_size_list(field.type)
    assert field.type.value_type == pa.int16()
    assert field.metadata[b"unit"] == b"count" and field.metadata[b"help"] == b"Amplitude."
    assert table.num_rows == 2 * EVENTS
    flat = table.column("adc").combine_chunks().flatten().to_numpy()
    assert (flat == run.fragments().numpy("adc").ravel()).all()
    reader = run.events().reader()
    assert sum(batch.num_rows for batch in reader) == EVENTS
    schema = pa.schema(run.events().schema)
    assert schema.names == run.events().columns
    batch = next(iter(run.events()))
    assert pa.record_batch(batch).num_rows == len(batch) == batch.num_rows


def test_rows_are_counted_and_the_first_ones_are_read_alone(run):
    events = run.events(batch=64)
    assert len(events) == EVENTS and events
    assert events.head(100)["event"].to_pylist() == list(range(100))
    assert events.head().num_rows == 5 and events.head(10**9).num_rows == EVENTS


def test_a_short_run_has_its_history_and_no_alarms(run, path, tmp_path):
    history = run.history()
    last = history.slice(history.num_rows - 1).drop_columns(["time"]).to_pylist()[0]
    assert last["packets"] == run.info["totals"]["parsed"]
    assert run.alarms == []
    cut = tmp_path / "cut"
    shutil.copytree(path, cut)
    whole = (cut / "history.arrows").read_bytes()
    (cut / "history.arrows").write_bytes(whole[:-20])
    assert fl.Run(cut).history().num_rows <= history.num_rows
    (cut / "alarms.jsonl").write_text('{"name": "a"}\n{"name": "torn')
    assert fl.Run(cut).alarms == [{"name": "a"}]
    (cut / "history.arrows").unlink()
    with pytest.raises(fl.InputError, match=r"history\.arrows does not exist"):
        fl.Run(cut).history()


def test_events_have_keys_times_and_states(run):
    events = run.events()
    assert (np.sort(events.numpy("key")) == np.arange(EVENTS)).all()
    assert set(events.numpy("status")) == {"complete"}
    assert events.numpy("first_time").dtype == np.dtype("datetime64[ns]")
    assert (events.numpy("packets") == 2).all()


def test_parts_of_a_table_are_chosen(run, samples):
    only = run.fragments(columns=["event", "adc"], sources=[1], events=range(10, 20))
    assert only.columns == ["event", "adc"]
    assert only.numpy("adc").shape == (10, SAMPLES)
    assert sorted(only.numpy("event")) == list(range(10, 20))
    some = run.events(events=(3, 7), batch=3)
    assert [len(batch) for batch in some] == [3, 1]
    assert run.events(events=slice(4, 6)).arrow().num_rows == 2


def test_a_time_means_the_same_in_every_type_and_as_on_the_command_line(run):
    first = run.events(columns=["first_time"]).numpy("first_time").min()
    second = first.astype("datetime64[s]")
    moment = second.astype(datetime.datetime)
    seconds = int(second.astype(int))
    same = [seconds, float(seconds), np.int64(seconds), second, second.astype("datetime64[ns]"),
            moment, moment.replace(tzinfo=datetime.timezone.utc), f"{second}Z", str(seconds)]
    assert {run.events(since=time).arrow().num_rows for time in same} == {EVENTS}
    assert {run.events(until=time).arrow().num_rows for time in same} == {0}
    later = [seconds + 3600, second + np.timedelta64(1, "h"), moment + datetime.timedelta(hours=1)]
    assert {run.events(since=time).arrow().num_rows for time in later} == {0}
    assert run.events(until=first).arrow().num_rows == 0, "to the nanosecond"
    after = first + np.timedelta64(1, "ns")
    assert run.events(until=after).arrow().num_rows > 0, "to the nanosecond"


@pytest.mark.parametrize("time", [
    b"2026", [1], True, object(), "noon", datetime.datetime(1969, 1, 1), -1, float("nan"), 1e300,
    1795365386_000_000_000, np.datetime64("NaT"), datetime.date(2026, 1, 1),
])
def test_a_time_of_another_kind_is_refused_in_a_sentence(run, time):
    for bound in ("since", "until"):
        with pytest.raises(fl.InputError, match="time|between"):
            run.events(**{bound: time})


def test_a_choice_without_rows_keeps_the_types(run):
    none = run.fragments(events=(10**6, 10**6 + 1))
    assert list(none) == [] and none.arrow().num_rows == 0
    assert none.numpy("adc").dtype == np.int16 and none.numpy("adc").shape == (0, 0)
    assert none.numpy("board").dtype == np.uint16
    values, offsets = none.ragged("adc")
    assert values.dtype == np.int16 and offsets.tolist() == [0]


def test_wrong_choices_name_what_there_is(run):
    for call, says in [
        (lambda: run.table("event"), "did you mean `events`"),
        (lambda: run.fragments(columns=["acd"]), "did you mean `adc`"),
        (lambda: run.events(sources=["nobody"]), "no source"),
        (lambda: run.events(sources="boards"), "is a text"),
        (lambda: run.events(events=(5, 5)), "are none"),
        (lambda: run.events(events=range(0, 10, 2)), "range"),
        (lambda: run.events(batch=0), "batch is 0"),
        (lambda: run.events().numpy("x"), "no column"),
        (lambda: run.packets().numpy("data"), "arrow"),
        (lambda: run.events().ragged("key"), "not a list"),
    ]:
        with pytest.raises(fl.InputError, match=says):
            call()


def test_folders_that_hold_no_run_are_errors(tmp_path):
    with pytest.raises(fl.RunError, match="none"):
        fl.Run(tmp_path / "none")
    with pytest.raises(fl.RunError):
        fl.Run(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(fl.RunError):
        fl.Run(tmp_path / "file")
    (tmp_path / "run.json").write_text("{")
    with pytest.raises(fl.RunError, match="run.json"):
        fl.Run(tmp_path).info


def cut(path, folder, drop):
    """Copy a run whose last file lacks its last bytes, as during writing or after a crash."""
    copy = folder / "0000"
    shutil.copytree(path, copy)
    (copy / "run.json").unlink()
    last = sorted(copy.glob("events-*.arrows"))[-1]
    data = last.read_bytes()
    last.write_bytes(data[: len(data) - drop])
    return copy


def test_a_run_that_is_still_written_gives_its_complete_batches(path, tmp_path, seed):
    rng = np.random.default_rng(seed)
    for number, drop in enumerate(rng.integers(1, 40_000, 5)):
        run = fl.Run(cut(path, tmp_path / str(number), int(drop)))
        rows = run.events().arrow().num_rows
        assert 0 <= rows <= EVENTS
        assert run.fragments().arrow().num_rows == 2 * rows or rows < EVENTS
        with pytest.raises(fl.RunError):
            run.info


def test_damage_is_an_error_or_fewer_rows_but_no_crash(path, tmp_path, seed):
    rng = np.random.default_rng(seed)
    copy = tmp_path / "0000"
    shutil.copytree(path, copy)
    file = sorted(copy.glob("events-*.arrows"))[0]
    sound = file.read_bytes()
    for _ in range(20):
        data = bytearray(sound)
        for at in rng.integers(0, len(data), 5):
            data[at] ^= 1 << int(rng.integers(0, 8))
        file.write_bytes(data)
        try:
            rows = fl.Run(copy).fragments().arrow().num_rows
        except (fl.Error, pa.ArrowException) as error:
            assert str(error)
        else:
            assert rows <= 2 * EVENTS


def test_rows_that_damage_took_are_announced_by_a_warning(path, tmp_path):
    copy = tmp_path / "0000"
    shutil.copytree(path, copy)
    file = sorted(copy.glob("events-*.arrows"))[0]
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    run = fl.Run(copy)
    with pytest.warns(fl.DamageWarning, match="fluxline inspect"):
        rows = run.fragments().arrow().num_rows
    assert rows < 2 * EVENTS


def test_a_run_that_disappears_is_an_error(path, tmp_path):
    copy = tmp_path / "0000"
    shutil.copytree(path, copy)
    run = fl.Run(copy)
    shutil.rmtree(copy)
    with pytest.raises(fl.RunError, match="0000"):
        run.events()


def test_arrays_outlive_the_run_and_are_read_only(path):
    adc = fl.Run(path).fragments(events=(0, 5)).numpy("adc")
    before = adc.copy()
    with pytest.raises(ValueError, match="read-only"):
        adc[0, 0] = 1
    assert (adc == before).all()


@pytest.mark.parametrize("library", ["pandas", "polars", "awkward"])
def test_other_libraries_read_tables(run, library):
    pytest.importorskip(library)
    whole = getattr(run.fragments(columns=["board", "adc"]), library)()
    assert len(whole) == 2 * EVENTS
    assert len(whole["adc"][0]) == SAMPLES


def test_a_library_that_is_missing_is_named(run, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "polars", None)
    with pytest.raises(fl.Error, match="pip install polars"):
        run.events().polars()

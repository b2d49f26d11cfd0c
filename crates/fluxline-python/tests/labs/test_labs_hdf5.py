"""Exports to HDF5 and .npz: values, gaps, words, interruptions, full disks."""

import os
import random
import resource
import signal
import subprocess
import sys
import textwrap

import numpy as np
import pyarrow as pa
import pytest
from needs import package
import memory_runs as runs

h5py = package("h5py")

from fluxline import _partial  # noqa: E402
from fluxline._partial import Stopped  # noqa: E402
from fluxline._selection import ExportError  # noqa: E402
from fluxline.hdf5 import to_hdf5  # noqa: E402
from fluxline.nexus import to_nexus  # noqa: E402
from fluxline.npz import to_npz  # noqa: E402


def memory_run(**tables):
    return runs.MemoryRun(runs.info(), tables)


def read_column(group, name):
    """Returns a column of an export as the lists that were written: the inverse of the layout."""
    values = group[name][...]
    rows = list(values)
    if f"{name}_words" in group:
        words = [one.decode() if isinstance(one, bytes) else str(one)
                 for one in group[f"{name}_words"][...]]
        rows = [words[code] for code in rows]
    rows = [one.decode() if isinstance(one, bytes) else one for one in rows]
    for level in (f"{name}_item_offsets", f"{name}_offsets"):
        if level in group:
            bounds = [int(one) for one in group[level][...]]
            rows = [rows[first:end] for first, end in zip(bounds, bounds[1:], strict=False)]
    rows = [plain(one) for one in rows]
    if f"{name}_valid" in group:
        rows = [one if ok else None for one, ok in zip(rows, group[f"{name}_valid"][...],
                                                       strict=True)]
    return rows


def plain(value):
    if isinstance(value, (list, np.ndarray)):
        return [plain(one) for one in value]
    if isinstance(value, bytes):
        return list(value)
    return value.item() if isinstance(value, np.generic) else value


def expected_column(batches, name):
    columns = [batch.column(name) for batch in batches]
    if pa.types.is_timestamp(columns[0].type):
        columns = [one.cast(pa.int64()) for one in columns]
    return [plain(one) for column in columns for one in column.to_pylist()]


class NpzGroup(dict):
    def __init__(self, file, table):
        loaded = np.load(file)
        super().__init__({name.partition("/")[2]: loaded[name] for name in loaded.files
                          if name.startswith(f"{table}/")})


def exported(kind, run, path, table="x"):
    """Writes a run; returns a mapping with its table's datasets."""
    if kind == "npz":
        to_npz(run, path)
        return NpzGroup(path, table)
    to_hdf5(run, path)
    return h5py.File(path)[f"tables/{table}"]


def random_batches(seed):
    """Returns batches with random columns: numbers, lists, lists of bytes, words, gaps."""
    dice = random.Random(seed)
    kinds = [pa.uint8(), pa.int16(), pa.uint64(), pa.float32(), pa.float64(), pa.bool_(),
             pa.string(), pa.dictionary(pa.int32(), pa.string()), pa.binary(),
             pa.list_(pa.int16()), pa.list_(pa.binary()), pa.list_(pa.float32(), 4),
             pa.timestamp("ns", "UTC")]
    fields = [pa.field(f"c{number}", dice.choice(kinds)) for number in range(dice.randint(1, 8))]
    equal = dice.random() < 0.5

    def value(kind, depth=0):
        if depth == 0 and dice.random() < 0.1:
            return None
        if pa.types.is_fixed_size_list(kind):
            return [value(kind.value_type, 1) for _ in range(kind.list_size)]
        if pa.types.is_list(kind):
            length = 3 if equal and not pa.types.is_binary(kind.value_type) else dice.randint(0, 4)
            return [value(kind.value_type, 1) for _ in range(length)]
        if pa.types.is_floating(kind):
            return float(dice.randint(-1000, 1000)) / 4
        if pa.types.is_boolean(kind):
            return dice.random() < 0.5
        if pa.types.is_dictionary(kind) or pa.types.is_string(kind):
            return dice.choice(["board 1", "µ", "", "late"])
        if pa.types.is_binary(kind):
            return dice.randbytes(dice.randint(0, 5))
        return dice.randint(0, 127)

    schema = pa.schema(fields)
    made = []
    for _ in range(dice.randint(1, 5)):
        rows = dice.randint(0, 9)
        columns = [pa.array([value(one.type) for _ in range(rows)], one.type) for one in fields]
        made.append(pa.record_batch(columns, schema=schema))
    return made


def assert_same(group, batches):
    for one in batches[0].schema:
        wanted = expected_column(batches, one.name)
        if not wanted:
            continue
        found = read_column(group, one.name)
        kind = one.type
        empty = 0 if not pa.types.is_string(kind) else ""
        if any(each is None for each in wanted):
            assert [one is None for one in found] == [one is None for one in wanted], one.name
        assert len(found) == len(wanted), (one.name, found, wanted)
        for got, want in zip(found, wanted, strict=True):
            assert got == want or (want is None and got in (None, empty)), (one, got, want)


def test_a_replayed_capture_has_the_times_of_its_data(tmp_path):
    source = {"first_time_ns": 1_000_000_000_000_000_000, "last_time_ns": 1_000_000_060_000_000_000}
    def start_of(inputs):
        info = runs.info(ledger={"sources": [source]})
        info["experiment"]["source"] = inputs
        path = tmp_path / f"{len(list(tmp_path.iterdir()))}.h5"
        to_hdf5(runs.MemoryRun(info, {}), path)
        with h5py.File(path) as file:
            return file.attrs["start_time"], file.attrs["end_time"]
    replayed, live = {"pcap": {"file": "a.pcap"}}, {"udp": {"listen": ["127.0.0.1:6006"]}}
    assert start_of([replayed]) == ("2001-09-09T01:46:40Z", "2001-09-09T01:47:40Z")
    assert start_of([replayed, live])[0].startswith("2026-11-23")
    assert start_of([live])[0].startswith("2026-11-23")


@pytest.mark.parametrize("kind", ["hdf5", "npz"])
def test_random_tables_come_back_value_by_value(kind, tmp_path):
    first = int(os.environ.get("SEED", "1"))
    for seed in range(first, first + 60):
        print("seed", seed)
        batches = random_batches(seed)
        if not any(batch.num_rows for batch in batches):
            continue
        group = exported(kind, memory_run(x=batches), tmp_path / f"{seed}.{kind}")
        assert_same(group, batches)


@pytest.mark.parametrize("kind", ["hdf5", "npz"])
def test_waveforms_become_two_dimensional_until_one_is_shorter(kind, tmp_path):
    equal = runs.waveforms(1, samples=16)
    group = exported(kind, memory_run(x=equal), tmp_path / f"equal.{kind}")
    assert group["amplitude"].shape == (15, 16)
    mixed = equal + runs.waveforms(2, samples=9) + runs.waveforms(3, ragged=True)
    group = exported(kind, memory_run(x=mixed), tmp_path / f"mixed.{kind}")
    assert group["amplitude"].ndim == 1
    assert_same(group, mixed)


def test_fields_of_records_share_their_bounds(tmp_path):
    batch = runs.waveforms(1, batches=1, ragged=True)[0]
    lists = batch.column("amplitude")
    fields = [runs.described(name, lists.type, part="record") for name in ("adc", "tdc")]
    schema = pa.schema(fields, {"fluxline.record": "hit"})
    group = exported("hdf5", memory_run(x=[pa.record_batch([lists, lists], schema=schema)]),
                     tmp_path / "a.h5")
    assert sorted(group) == ["adc", "hit_offsets", "tdc"]


@pytest.mark.parametrize("to_file", [to_hdf5, to_npz])
def test_columns_whose_names_clash_are_refused(to_file, tmp_path):
    batch = runs.waveforms(1, batches=1, ragged=True)[0]
    clash = batch.append_column("amplitude_offsets", batch.column("event"))
    with pytest.raises(ExportError, match="`amplitude_offsets` has the name of the bounds"):
        to_file(memory_run(x=[clash]), tmp_path / "a")
    assert list(tmp_path.iterdir()) == []
    to_file(memory_run(x=[clash]), tmp_path / "a", columns=["amplitude", "event"])


def test_units_and_meanings_are_attributes(tmp_path):
    group = exported("hdf5", memory_run(x=runs.waveforms(1)), tmp_path / "a.h5")
    assert group["amplitude"].attrs["units"] == "count"
    assert group["amplitude"].attrs["long_name"] == "Samples of the digitiser."
    assert group["time"].attrs["units"] == "ns"
    assert group.file.attrs["start_time"] == "2026-11-23T11:42:20.720361Z"


@pytest.mark.parametrize("kind", ["hdf5", "npz"])
def test_a_file_is_little_larger_than_its_payload(kind, tmp_path):
    batches = runs.waveforms(1, batches=20, rows=100, samples=512)
    path = tmp_path / f"a.{kind}"
    exported(kind, memory_run(x=batches), path)
    payload = 20 * 100 * 512 * 2
    assert payload < path.stat().st_size < 1.2 * payload


def datasets(path):
    """Returns the values of all datasets of a file, by path."""
    found = {}
    with h5py.File(path) as file:
        file.visititems(lambda name, one: found.update({name: one[()]})
                        if isinstance(one, h5py.Dataset) else None)
        assert "fluxline_resume" not in file.attrs
    return found


@pytest.mark.parametrize("to_file", [to_hdf5, to_nexus])
def test_an_export_goes_on_where_the_disk_was_full(to_file, tmp_path, monkeypatch):
    batches = runs.waveforms(1, batches=6) + runs.waveforms(2, batches=2, ragged=True)
    slow = [batch.select(["event", "source", "time", "gain"]) for batch in batches]
    run = memory_run(equal=batches[:6], mixed=batches, slow=slow)
    path, whole = tmp_path / "a.h5", tmp_path / "whole.h5"
    to_file(run, whole)
    asked = []
    usage = _partial.shutil.disk_usage

    def nearly_full(folder):
        asked.append(folder)
        found = usage(folder)
        return found._replace(free=1 << 20) if len(asked) % 4 == 0 else found

    monkeypatch.setattr(_partial.shutil, "disk_usage", nearly_full)
    stops = 0
    while True:
        try:
            report = to_file(run, path)
            break
        except Stopped as error:
            stops += 1
            assert "too little to go on; free some" in str(error)
            assert not path.exists()
    assert stops >= 3 and any("continued behind" in note for note in report.notes)
    assert report.rows == {"equal": 30, "mixed": 40, "slow": 40}
    found, wanted = datasets(path), datasets(whole)
    assert found.keys() == wanted.keys()
    for name, values in wanted.items():
        assert np.array_equal(found[name], values), name


def test_a_part_of_another_export_is_written_again(tmp_path):
    path = tmp_path / "a.h5"
    calls = iter([False, True])
    with pytest.raises(Stopped):
        to_hdf5(memory_run(x=runs.waveforms(1)), path, stop=lambda: next(calls))
    report = to_hdf5(memory_run(x=runs.waveforms(1)), path, columns=["gain"])
    assert "was of another or an interrupted export" in report.notes[0]
    with h5py.File(path) as file:
        assert sorted(file["tables/x"]) == ["gain", "gain_valid"]


def test_a_half_written_part_is_named_and_written_again(tmp_path):
    path = tmp_path / "a.h5"
    (tmp_path / "a.h5.part").write_bytes(b"\x89HDF\r\n\x1a\n" + bytes(range(200)))
    report = to_hdf5(memory_run(x=runs.waveforms(1)), path)
    assert "half-written HDF5 file that cannot be opened" in report.notes[0]
    with h5py.File(path) as file:
        assert len(file["tables/x/event"]) == 15


CHILD = """
    import resource, signal, sys, time
    sys.path.insert(0, {here!r})
    import memory_runs as runs
    from fluxline._selection import ExportError
    from fluxline.hdf5 import to_hdf5
    made = runs.waveforms(1, batches=400, rows=20, samples=512)
    limit, pause = int(sys.argv[2]), float(sys.argv[3])
    if limit:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    def show(progress):
        print(progress.rows, flush=True)
        time.sleep(pause)
    try:
        to_hdf5(runs.MemoryRun(runs.info(), {{"x": made}}), sys.argv[1], progress=show)
    except ExportError as error:
        print("refused:", error)
"""


def child(path, limit=0, pause=0.0):
    text = textwrap.dedent(CHILD.format(here=os.path.dirname(runs.__file__)))
    return subprocess.Popen([sys.executable, "-c", text, str(path), str(limit), str(pause)],
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_a_killed_export_leaves_no_file_of_the_final_name_and_can_be_repeated(tmp_path):
    path = tmp_path / "a.h5"
    process = child(path, pause=0.01)
    for _ in range(20):
        process.stdout.readline()
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not path.exists() and (tmp_path / "a.h5.part").exists()
    batches = runs.waveforms(1, batches=400, rows=20, samples=512)
    report = to_hdf5(memory_run(x=batches), path)
    assert "written again" in report.notes[0]
    with h5py.File(path) as file:
        assert file["tables/x/amplitude"].shape == (8000, 512)


def test_a_write_that_fails_is_one_sentence_and_leaves_nothing(tmp_path):
    path = tmp_path / "a.h5"
    process = child(path, limit=2 << 20)
    out, err = process.communicate(timeout=60)
    last = out.strip().splitlines()[-1]
    assert last.startswith("refused:") and "cannot be written" in last, (out, err)
    assert process.returncode == 0, err
    assert list(tmp_path.iterdir()) == []


def test_a_second_writer_is_refused(tmp_path):
    path = tmp_path / "a.h5"
    process = child(path, pause=0.05)
    process.stdout.readline()
    try:
        with pytest.raises(ExportError, match="another process writes"):
            to_hdf5(memory_run(x=runs.waveforms(1)), path)
    finally:
        process.kill()
        process.wait()


def test_wrong_names_and_places_are_refused_with_a_hint(tmp_path):
    run = memory_run(x=runs.waveforms(1))
    with pytest.raises(ExportError, match="no column `amplitud`; did you mean `amplitude`"):
        to_hdf5(run, tmp_path / "a.h5", columns=["amplitud"])
    with pytest.raises(ExportError, match="no table `y`; there are x"):
        to_hdf5(run, tmp_path / "a.h5", tables=["y"])
    with pytest.raises(ExportError, match="the directory .* does not exist"):
        to_hdf5(run, tmp_path / "nowhere" / "a.h5")
    with pytest.raises(ExportError, match="choose one of none, lzf, gzip"):
        to_hdf5(run, tmp_path / "a.h5", compression="zip")
    (tmp_path / "a.h5").write_text("mine")
    with pytest.raises(ExportError, match="exists already"):
        to_hdf5(run, tmp_path / "a.h5")
    assert (tmp_path / "a.h5").read_text() == "mine"
    assert not (tmp_path / "a.h5.part").exists()


def test_memory_does_not_grow_with_the_run(tmp_path):
    batch = runs.waveforms(1, batches=1, rows=1000, samples=1024)

    def peak(count):
        text = textwrap.dedent(f"""
            import sys, resource
            sys.path.insert(0, {os.path.dirname(runs.__file__)!r})
            import memory_runs as runs
            from fluxline.hdf5 import to_hdf5
            batch = runs.waveforms(1, batches=1, rows=1000, samples=1024)
            run = runs.MemoryRun(runs.info(), {{"x": batch * {count}}})
            to_hdf5(run, {str(tmp_path / str(count))!r})
            print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
        """)
        return int(subprocess.check_output([sys.executable, "-c", text]))

    assert batch[0].nbytes > 2_000_000
    assert peak(60) < peak(5) + 20_000

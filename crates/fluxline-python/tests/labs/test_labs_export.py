"""The command `python3 -m fluxline.export` on a recorded run."""

import json
import os
import subprocess
import sys

import digitizer
import numpy as np
import pytest
from needs import package

import fluxline as fl
from fluxline.export import main

BOARDS, SAMPLES, EVENTS = 3, 100, 400


@pytest.fixture(scope="session", name="recorded")
def run_of_digitizers(program, tmp_path_factory):
    adc = np.random.default_rng(1).integers(-500, 500, (EVENTS, BOARDS, SAMPLES))
    return digitizer.record(program, tmp_path_factory.mktemp("recorded"), adc)


def export(*arguments):
    return subprocess.run([sys.executable, "-m", "fluxline.export", *map(str, arguments)],
                          capture_output=True, text=True, timeout=120, check=False)


def waveforms(recorded, **options):
    table = fl.Run(recorded).fragments("digitizer-waveform", columns=["adc"], **options)
    return table.numpy("adc")


def test_hdf5_has_the_values_of_the_run_with_units(recorded, tmp_path):
    h5py = package("h5py")
    done = export(recorded, "--to", "hdf5", tmp_path / "run.h5")
    assert done.returncode == 0, done.stderr
    assert f"{BOARDS * EVENTS:>12} rows  digitizer-waveform" in done.stdout
    with h5py.File(tmp_path / "run.h5") as file:
        table = file["tables/digitizer-waveform"]
        assert (table["adc"][...] == waveforms(recorded)).all()
        assert table["adc"].attrs["units"] == "mV"
        assert table["temperature"].attrs["long_name"] == "Of the board."
        assert len(file["tables/events/key"]) == EVENTS
        assert "packets" not in file["tables"]
        assert "digitizer" in file["run/formats/digitizer.toml"].asstr()[()]
        assert file.attrs["title"] == "digitizers"
    payload = BOARDS * EVENTS * 208
    assert (tmp_path / "run.h5").stat().st_size < 1.2 * payload + (64 << 10)


def test_nexus_reads_back_as_the_run(recorded, tmp_path):
    snx = package("scippnexus")
    done = export(recorded, "--to", "nexus", tmp_path / "run.nxs")
    assert done.returncode == 0, done.stderr
    with snx.File(tmp_path / "run.nxs", "r") as file:
        found = file["entry/digitizer_waveform"][...]
    assert (found.values == waveforms(recorded)).all()
    assert str(found.unit) == "mV"


def test_root_reads_back_as_the_run(recorded, tmp_path):
    uproot = package("uproot")
    done = export(recorded, "--to", "root", tmp_path / "run.root")
    assert done.returncode == 0, done.stderr
    with uproot.open(tmp_path / "run.root") as file:
        tree = file["digitizer-waveform"]
        found = tree["adc"].array()
        assert (np.asarray(found) == waveforms(recorded)).all()
        assert json.loads(file["digitizer-waveform_columns"])["adc"]["unit"] == "mV"
        assert file["events"].num_entries == EVENTS


def test_a_selection_of_columns_sources_and_events(recorded, tmp_path):
    package("h5py")
    chosen = ["--columns", "event,adc", "--sources", "1,board=2", "--events", "100..150"]
    done = export(recorded, "--to", "npz", tmp_path / "run.npz", *chosen)
    assert done.returncode == 0, done.stderr
    found = np.load(tmp_path / "run.npz")
    wanted = waveforms(recorded, sources=["1", "2"], events=range(100, 150))
    assert wanted.shape == (100, SAMPLES)
    assert (found["digitizer-waveform/adc"] == wanted).all()
    assert sorted(found.files) == ["digitizer-waveform/adc", "digitizer-waveform/event",
                                   "events/event"]


def test_times_select_events(recorded, tmp_path):
    package("pyarrow")
    # The packets of a raw file come at one time, to the nanosecond.
    first = fl.Run(recorded).events(columns=["first_time"]).numpy("first_time")[0]
    before, after = (first.astype("datetime64[us]") + step for step in (0, 1))
    for number, (flag, time, wanted) in enumerate([
        ("--since", before, EVENTS), ("--until", before, 0),
        ("--since", after, 0), ("--until", after, EVENTS),
    ]):
        done = export(recorded, "--to", "npz", tmp_path / str(number), flag, f"{time}Z")
        assert done.returncode == 0, done.stderr
        assert f"{wanted:>12} rows  events" in done.stdout, (flag, time, done.stdout)
    for wrong in ("noon", "2026-11-23T12:00:00+01:00"):
        done = export(recorded, "--to", "npz", tmp_path / "c", "--since", wrong)
        assert done.returncode == 2 and f"`{wrong}` is not a time" in done.stderr


def by_the_program(program, *arguments):
    """Run `fluxline export` with this Python."""
    environment = {**os.environ, "FLUXLINE_PYTHON": sys.executable}
    return subprocess.run([program, *map(str, arguments)], capture_output=True, text=True,
                          timeout=120, check=False, env=environment)


def test_the_program_passes_times_and_statuses_on(program, recorded, tmp_path):
    h5py = package("h5py")
    first = fl.Run(recorded).events(columns=["first_time"]).numpy("first_time")[0].astype(int)
    for number, (flag, time, wanted) in enumerate([
        ("--since", first, EVENTS), ("--until", first, 0), ("--since", first + 1, 0),
    ]):
        out = tmp_path / f"{number}.h5"
        text = f"{time // 10**9}.{time % 10**9:09}"
        done = by_the_program(program, "--json", "export", recorded, "--to", "hdf5", "--into", out,
                              flag, text)
        assert done.returncode == 0, done.stderr
        found = json.loads(done.stdout)
        assert found["status"] == 0 and found["file"] == str(out)
        rows = {table["name"]: table["rows"] for table in found["tables"]}
        assert rows["events"] == wanted, (flag, time)
        with h5py.File(out) as file:
            assert file.get("tables/events/key", []).__len__() == wanted
    again = by_the_program(program, "export", recorded, "--to", "hdf5", "-o", out)
    assert again.returncode == 3 and "exists already" in again.stderr
    again = by_the_program(program, "--json", "export", recorded, "--to", "hdf5", "--into", out)
    error = json.loads(again.stderr)
    assert error["status"] == again.returncode == 3 and "exists already" in error["error"]
    copy = tmp_path / "0009"
    subprocess.run(["cp", "-r", recorded, copy], check=True)
    file = next(copy.glob("events-*.arrows"))
    file.write_bytes(file.read_bytes()[:-5000])
    damaged = by_the_program(program, "export", copy, "--to", "nexus", "--into", tmp_path / "d.nxs")
    assert damaged.returncode == 8 and "cannot be read" in damaged.stderr, damaged.stderr


def test_a_killed_export_to_npz_begins_anew_and_leaves_nothing_behind(recorded, tmp_path):
    out = tmp_path / "run.npz"
    (tmp_path / "run.npz.part").write_bytes(b"PK half a file")
    (tmp_path / "run.npz.columns").mkdir()
    (tmp_path / "run.npz.columns" / "0").write_bytes(b"a half column")
    done = export(recorded, "--to", "npz", out)
    assert done.returncode == 0 and "npz begins anew" in done.stdout, done.stderr
    assert (np.load(out)["digitizer-waveform/adc"] == waveforms(recorded)).all()
    assert [path.name for path in tmp_path.iterdir()] == ["run.npz"]


def test_imas_takes_a_channel_for_each_board(recorded, tmp_path):
    imas = package("imas")
    done = export(recorded, "--to", "imas", tmp_path / "run.nc", "--signal", "adc", "--ids",
                  "magnetics/flux_loop/voltage", "--sample-seconds", "1e-8")
    assert done.returncode == 0, done.stderr
    with imas.DBEntry(str(tmp_path / "run.nc"), "r") as entry:
        loops = entry.get("magnetics").flux_loop
        assert [str(one.name) for one in loops] == ["board=0", "board=1", "board=2"]
        found = loops[2].voltage.data.value
    assert (found == waveforms(recorded, sources=["2"]).reshape(-1)).all()


@pytest.mark.parametrize(("arguments", "sentence"), [
    (["--columns", "adcc"], "no column `adcc`; did you mean `adc`?"),
    (["--sources", "board=9"], "no source `board=9`"),
    (["--tables", "events", "--event-id", "x"], "--event-id has no meaning for --to hdf5"),
])
def test_wrong_arguments_are_one_sentence(recorded, tmp_path, arguments, sentence):
    package("h5py")
    done = export(recorded, "--to", "hdf5", tmp_path / "run.h5", *arguments)
    assert done.returncode == 3 and sentence in done.stderr, done.stderr
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_missing_run_and_a_wrong_range_are_named(recorded, tmp_path):
    package("h5py")
    done = export(tmp_path / "nowhere", "--to", "hdf5", tmp_path / "run.h5")
    assert done.returncode == 3 and "nowhere" in done.stderr and "Traceback" not in done.stderr
    done = export(recorded, "--to", "hdf5", tmp_path / "run.h5", "--events", "5..2")
    assert done.returncode == 2
    assert "`5..2` is not a range; write for example 0..1000" in done.stderr


def test_an_export_that_is_stopped_has_failed(recorded, tmp_path, monkeypatch, capsys):
    package("h5py")
    monkeypatch.setattr("fluxline.export.StopSignal", lambda: lambda: True)
    out = tmp_path / "run.h5"
    assert main([str(recorded), "--to", "hdf5", str(out)]) == 1, "the file is not complete"
    assert "repeat the export, and it continues" in capsys.readouterr().err
    assert not out.exists()


def test_an_unfinished_run_exports_its_complete_batches(recorded, tmp_path):
    h5py = package("h5py")
    copy = tmp_path / "0007"
    subprocess.run(["cp", "-r", recorded, copy], check=True)
    file = next(copy.glob("events-*.arrows"))
    file.write_bytes(file.read_bytes()[:-1000])
    (copy / "run.json").unlink()
    done = export(copy, "--to", "hdf5", tmp_path / "run.h5")
    assert done.returncode == 0, done.stderr
    assert "run.json" in done.stdout
    with h5py.File(tmp_path / "run.h5") as found:
        rows = found["tables/events/key"].shape[0] if "tables" in found else 0
    assert rows < EVENTS


@pytest.mark.parametrize("chosen", [[], ["--columns", "adc"], ["--events", "0..10"]])
def test_packets_of_a_damaged_file_are_missed_aloud(recorded, tmp_path, chosen):
    package("h5py")
    copy = tmp_path / "0008"
    subprocess.run(["cp", "-r", recorded, copy], check=True)
    file = next(copy.glob("events-*.arrows"))
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 0xFF
    file.write_bytes(content)
    done = export(copy, "--to", "hdf5", tmp_path / "run.h5", *chosen)
    assert done.returncode == 8, done.stderr
    assert f"of {BOARDS * EVENTS} recorded packets cannot be read" in done.stderr


def test_a_format_whose_package_is_missing_says_what_to_install(recorded, tmp_path):
    (tmp_path / "h5py.py").write_text("raise ImportError('no')")
    code = (f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import fluxline.export as e;"
            f"sys.exit(e.main([{str(recorded)!r}, '--to', 'hdf5', {str(tmp_path / 'a')!r}]))")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 3 and "pip install 'fluxline[hdf5]'" in done.stderr, done.stderr

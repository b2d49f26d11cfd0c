"""Acquisitions from Python: start, control, filters, events as they come, sources of the program."""

import json
import pathlib
import signal
import struct
import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import pytest

import fluxline as fl

PATIENCE = 60.0
HEADER = 32  # bytes before the samples of the format `counter`


def boards(packets, *, sources=4, rate=0.0, rest=""):
    return textwrap.dedent(f"""
        [[source]]
        name = "boards"
        format = "counter"
        [source.emulator]
        sources = {sources}
        rate = {rate}
        packets = {packets}
        link = "direct"
        payload-bytes = 64
        [events]
        build = "key"
        require = {sources}
        """) + rest


def fed(rest=""):
    return f'[[source]]\nname = "sim"\nformat = "counter"\n[source.program]\n{rest}\n'


def packet(number, samples=(1, 2, 3)):
    header = struct.pack("<4sBBHIHHQQ", b"FLXC", 1, 0, 0, number, 0, 1, number, 0)
    return header + np.asarray(samples, "<u2").tobytes()


@pytest.fixture(autouse=True)
def runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def recorded_keys(report):
    return fl.Run(report["folder"]).events().numpy("key")


def wait_for(condition):
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_a_run_is_started_controlled_and_closed(tmp_path):
    file = tmp_path / "boards.toml"
    file.write_text(boards(0, rate=500.0))
    with fl.acquire(file, armed=True, runs=tmp_path / "here") as run:
        assert run.state == "armed"
        wait_for(lambda: run.stats["paused"] > 10)
        assert run.stats["events"] == 0
        assert run.ledger["sources"][0]["counters"]["recorded"] == 0
        run.start()
        run.note("beam on")
        run.shot = 4711
        wait_for(lambda: run.stats["recorded_bytes"] > 0)
        run.pause()
        assert run.state == "paused"
        with pytest.raises(fl.InputError, match="command `begin` is unknown"):
            run._handle.command("pause")
            run._handle.command("begin")
        run.resume()
        assert run.shot == 4711 and run.wait(timeout=0.05) is None
    assert run.state == "stopped"
    assert pathlib.Path(run.folder).parent == tmp_path / "here"
    assert run.report["control"]["shot"] == 4711
    assert run.report["control"]["remarks"][0]["text"] == "beam on"
    assert run.report["closes"] and run.ledger == run.report["ledger"]
    assert len(run.run().events().numpy("key")) == run.report["recorded"]["events"]
    run.stop()
    assert run.wait() == run.report


def test_mistakes_are_exceptions_with_the_words_of_the_command_line(tmp_path):
    with pytest.raises(fl.InputError, match="cannot be read"):
        fl.acquire(tmp_path / "none.toml")
    with pytest.raises(fl.InputError, match="did you mean `amplitude`"):
        fl.acquire(boards(1), filter="max(amplitud) > 3")
    with pytest.raises(fl.InputError, match="pass a text or a function"):
        fl.acquire(boards(1), filter=3.5)
    with pytest.raises(fl.InputError, match="address of the filter is 0"):
        fl.acquire(boards(1), filter=0)
    assert not (tmp_path / "runs").exists()


def test_an_expression_and_a_function_filter_by_the_same_rows():
    report = fl.acquire(boards(300), filter="event.key % 3 == 0").wait()
    assert list(recorded_keys(report)) == list(range(0, 300, 3))
    seen = []

    def thirds(events):
        table = events.table("events")
        seen.append(len(events))
        return table.numpy("key") % 3 == 0

    report = fl.acquire(boards(300), filter=thirds).wait()
    assert list(recorded_keys(report)) == list(range(0, 300, 3))
    assert sum(seen) == 300 and report["ledger"]["filter"]["events_filtered"] == 200
    assert report["closes"] and report["totals"]["filtered"] == 800


def test_a_mark_is_on_the_events_that_the_expression_names():
    run = fl.acquire(boards(30), filter="event.key % 2 == 0", mark="event.key % 3 == 0")
    report = run.wait()
    assert report["ledger"]["filter"]["events_marked"] == 5
    events = run.run().events()
    marked = events.numpy("missing") == "filter: marked"
    assert list(events.numpy("key")[marked]) == [0, 6, 12, 18, 24]
    with pytest.raises(fl.InputError, match=r"\[filter\] mark, character 1"):
        fl.acquire(boards(1), mark="evnt.key == 1")


def test_a_function_sees_the_samples_of_its_batch_as_arrays():
    def loud(events):
        waves = events.table("counter-data", columns=["event", "amplitude"])
        peaks = waves.numpy("amplitude").max(axis=1)
        loudest = np.zeros(len(events), peaks.dtype)
        np.maximum.at(loudest, waves.numpy("event").astype(int), peaks)
        return loudest > 20

    source = [packet(number, [number, 0, 1]) for number in range(40)]
    for record in (True, False):
        run = fl.acquire(fed(), filter=loud, source={"sim": source}, record=record)
        totals = run.wait()["totals"]
        assert (totals["filtered"], totals["parsed"]) == (21, 40), run.notes


def test_an_exception_in_a_filter_is_counted_and_its_events_are_kept_and_marked():
    def broken(events):
        raise ValueError("no threshold")

    run = fl.acquire(boards(50), filter=broken)
    report = run.wait()
    assert report["ledger"]["filter"]["events_undecided"] == 50
    assert "the filter failed on 50 events" in report["sentence"] and report["status"] == 7
    assert any("ValueError: no threshold" in note for note in run.notes)
    missing = run.run().events().numpy("missing")
    assert set(missing) == {"filter: no decision"}

    def on_seven(events):
        keys = events.table("events").numpy("key")
        if 7 in keys:
            raise KeyError("seven")
        return keys % 2 == 0

    run = fl.acquire(boards(1000), filter=on_seven)
    report = run.wait()
    assert list(recorded_keys(report)) == sorted([*range(0, 1000, 2), 7])
    assert report["ledger"]["filter"]["events_undecided"] == 1, "only the failing event is marked"
    marked = run.run().events().numpy("missing") == "filter: no decision"
    assert list(run.run().events().numpy("key")[marked]) == [7]

    @fl.each_event
    def one(event):
        if event["key"] == 7:
            raise KeyError("seven")
        return event["key"] % 2 == 0 and len(event["packets"]) == 4

    report = fl.acquire(boards(20), filter=one).wait()
    assert list(recorded_keys(report)) == sorted([*range(0, 20, 2), 7])
    assert report["ledger"]["filter"]["events_undecided"] == 1

    for wrong in (lambda events: np.zeros(3, bool), lambda events: "yes"):
        report = fl.acquire(boards(20), filter=wrong).wait()
        assert report["ledger"]["filter"]["events_undecided"] == 20, report["notes"]


def test_a_numba_function_filters_by_its_address():
    numba = pytest.importorskip("numba")
    event = numba.from_dtype(fl.EVENT_DTYPE)
    row = numba.from_dtype(fl.PACKET_DTYPE)
    pointer = numba.types.CPointer
    signature = numba.types.int32(
        pointer(event), pointer(row), pointer(numba.types.uint8), numba.types.voidptr
    )

    @numba.cfunc(signature)
    def loud(event, packets, data, context):
        about = numba.carray(event, 1)[0]
        rows = numba.carray(packets, about.packets)
        bytes = numba.carray(data, about.bytes)
        for i in range(about.packets):
            first = rows[i].start + rows[i].payload_start
            for at in range(first, first + rows[i].payload_bytes, 2):
                if bytes[at] + 256 * bytes[at + 1] > 500:
                    return 1
        return 0

    source = [packet(number, [number, 0]) for number in range(1000)]
    report = fl.acquire(fed(), filter=loud, source={"sim": source}).wait()
    counts = report["ledger"]["filter"]
    assert (counts["events_kept"], counts["events_filtered"]) == (499, 501)
    assert (fl.EVENT_DTYPE.itemsize, fl.PACKET_DTYPE.itemsize) == (56, 64)


def test_a_cffi_function_filters_and_its_failure_is_counted():
    cffi = pytest.importorskip("cffi")
    ffi = cffi.FFI()

    @ffi.callback("int32_t(void *, void *, uint8_t *, void *)")
    def third(event, packets, data, context):
        key = int.from_bytes(ffi.buffer(event, 8)[:], "little")
        return -1 if key == 9 else int(key % 3 == 0)

    run = fl.acquire(boards(30), filter=third)
    counts = run.wait()["ledger"]["filter"]
    assert counts["events_undecided"] == 1 and counts["events_kept"] == 9
    assert any("returned -1" in note for note in run.notes)


def test_events_come_as_they_close_and_a_slow_reader_loses_only_its_own():
    run = fl.acquire(boards(3000, rate=20000.0, rest="[record]\nbatch-ms = 20\n"))
    events, slow = run.events(timeout=PATIENCE), run.events(waiting=1)
    keys = []
    for batch in events:
        assert batch.fate == "recorded" and not batch.is_late.any()
        keys.extend(batch.table().numpy("key"))
        assert "counter-data" in batch.tables
        assert batch.table("counter-data").numpy("amplitude").shape == (4 * len(batch), 32)
    report = run.wait()
    assert events.dropped == 0 and keys == sorted(keys) and len(keys) > 2000
    assert slow.dropped > 0 and report["recorded"]["events"] == 3000
    with pytest.raises(fl.Gone, match="ended"):
        run.events()


def test_sources_of_the_program_push_bytes_arrays_and_their_failures():
    rows = np.stack([np.frombuffer(packet(number), np.uint8) for number in range(10, 500)])

    def packets():
        yield from (packet(number) for number in range(10))
        yield rows

    report = fl.acquire(fed(), source={"sim": packets}).wait()
    assert report["totals"]["recorded"] == 500 and report["status"] == 0

    run = fl.acquire(fed("datagram-bytes-max = 64"))
    feeder = run.feeder("sim")
    with pytest.raises(fl.InputError, match="longer than datagram-bytes-max = 64"):
        feeder.push(bytes(65))
    with pytest.raises(fl.InputError, match="pass bytes or a NumPy array"):
        feeder.push("text")
    with pytest.raises(fl.InputError, match="not contiguous"):
        feeder.push(np.zeros((4, 8), np.uint8)[:, ::2])
    with pytest.raises(fl.InputError, match="has one feeder"):
        run.feeder("sim")
    run.close()
    with pytest.raises(fl.Gone, match="ended"):
        feeder.push(packet(0))

    def fails():
        yield packet(0)
        raise OSError("the simulation diverged")

    run = fl.acquire(fed(), source={"sim": fails})
    with pytest.raises(OSError, match="diverged"):
        run.wait()
    assert run.report["totals"]["recorded"] == 1


def test_other_threads_run_while_one_waits_and_filters():
    ticks, done = [], threading.Event()

    def tick():
        while not done.is_set():
            ticks.append(time.monotonic())
            time.sleep(0.01)

    thread = threading.Thread(target=tick)
    thread.start()
    with fl.acquire(boards(0, rate=100.0), filter=lambda events: True) as run:
        run.wait(timeout=0.5)
    done.set()
    thread.join()
    assert len(ticks) > 20


PROGRAM = """
import fluxline as fl
run = fl.acquire({experiment!r}, filter=lambda events: len(events) > 0)
while run.stats["events"] < 20:
    run.wait(timeout=0.05)
print(run.folder, flush=True)
{end}
"""


@pytest.mark.parametrize("end", ["", "raise SystemExit(0)", "import _thread; run.events()"])
def test_a_program_that_ends_while_a_run_goes_on_completes_its_files(end):
    source = PROGRAM.format(experiment=boards(0, rate=500.0), end=end)
    ended = subprocess.run(
        [sys.executable, "-c", source], capture_output=True, text=True, timeout=PATIENCE
    )
    assert ended.returncode == 0, ended.stderr
    run = fl.Run(ended.stdout.strip())
    assert run.info["state"] == "finished" and len(run.events().numpy("key")) >= 20


def test_ctrl_c_ends_a_wait():
    source = PROGRAM.format(experiment=boards(0, rate=500.0), end="run.wait()")
    # A shell's background job ignores Ctrl-C, and its children would too.
    program = subprocess.Popen(
        [sys.executable, "-c", source],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    folder = program.stdout.readline().strip()
    program.send_signal(2)
    _, errors = program.communicate(timeout=PATIENCE)
    assert "KeyboardInterrupt" in errors
    assert json.loads((pathlib.Path(folder) / "run.json").read_text())["state"] == "finished"

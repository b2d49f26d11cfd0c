"""The bridge to EPICS, with p4p's client: values, alarms, commands, losses of the server."""

import os
import subprocess
import sys
import threading
import time

import pytest
from needs import package
from state_server import TOKEN, StateServer

package("p4p")

from p4p.client.thread import Context, RemoteError, TimeoutError  # noqa: E402
from p4p.nt import NTTable, defaultNT  # noqa: E402
from p4p.server import Server  # noqa: E402

from fluxline._state import StateClient  # noqa: E402
from fluxline.epics import INVALID, MAJOR, MINOR, Bridge, main, server_settings  # noqa: E402

PATIENCE_S = 10.0


class Setup:
    """A stand-in for a run, the bridge, and a client, all on loopback."""

    def __init__(self, place=None, control=True, **server):
        self.state = StateServer(**server) if place is None else None
        client = StateClient(place or self.state.url, patience_s=1.0)
        self.bridge = Bridge(client, "T", control)
        self.server = Server([self.bridge.provider], conf=server_settings("127.0.0.1", 0))
        port = self.server.conf()["EPICS_PVAS_SERVER_PORT"]
        settings = {"EPICS_PVA_NAME_SERVERS": f"127.0.0.1:{port}",
                    "EPICS_PVA_AUTO_ADDR_LIST": "NO", "EPICS_PVA_ADDR_LIST": ""}
        # p4p unwraps nothing more after a type that it does not know, so tables are named here.
        known = {**defaultNT(), "epics:nt/NTTable:1.0": NTTable}
        self.client = Context("pva", conf=settings, useenv=False, nt=known)
        self.thread = threading.Thread(target=self.bridge.run, daemon=True)
        self.thread.start()

    def get(self, name):
        return self.client.get(f"T:{name}", timeout=PATIENCE_S)

    def put(self, name, value):
        self.client.put(f"T:{name}", value, timeout=PATIENCE_S)

    def until(self, name, wanted):
        end = time.monotonic() + PATIENCE_S
        while not wanted(found := self.get(name)):
            assert time.monotonic() < end, (name, found, found.raw.alarm)
            time.sleep(0.05)
        return found

    def close(self):
        self.bridge.stop()
        if self.state is not None:
            self.state.stop()
        self.thread.join(PATIENCE_S)
        assert not self.thread.is_alive()
        self.client.close()
        self.server.stop()


@pytest.fixture(name="make")
def setups(monkeypatch):
    # Searches by broadcast stay away from other servers on this computer.
    monkeypatch.setenv("EPICS_PVAS_BROADCAST_PORT", "0")
    made = []

    def make(**given):
        made.append(Setup(**given))
        return made[-1]

    yield make
    for one in made:
        one.close()


def test_values_units_and_tables_arrive(make):
    setup = make(sources=3)
    setup.until("CONNECTED", lambda one: bool(one))
    assert setup.get("STATE") == "running"
    rate = setup.get("RATE:PACKETS")
    assert rate == 1000.5 and rate.raw.display.units == "packets/s" and rate.severity == 0
    assert setup.get("SOURCE:2:LABEL") == "board=2"
    assert setup.get("FLOW:END:COUNTED_ONLY") == 1
    assert setup.get("INPUT:0:DATAGRAMS") == 5 and setup.get("DELAY:P99") == 5000
    rows = list(setup.get("SOURCES"))
    assert [row["label"] for row in rows] == ["board=0", "board=1", "board=2"]
    assert rows[1]["lost"] % 10 == 1


def test_a_monitor_sees_only_changes_and_every_change(make):
    setup = make(sources=2, changing=0.5)
    setup.until("CONNECTED", lambda one: bool(one))
    changing, steady = [], []
    monitors = [setup.client.monitor("T:SOURCE:0:PACKETS", changing.append),
                setup.client.monitor("T:SOURCE:1:PACKETS", steady.append)]
    time.sleep(1.5)
    for one in monitors:
        one.close()
    assert len(steady) == 1 and int(steady[0]) == 71
    steps = [int(one) for one in changing]
    assert len(steps) >= 10 and steps == sorted(set(steps))
    assert set(b - a for a, b in zip(steps, steps[1:], strict=False)) == {10}


def test_commands_notes_and_shots_reach_the_run(make):
    setup = make()
    setup.until("CONNECTED", lambda one: bool(one))
    setup.put("COMMAND", "pause")
    setup.put("NOTE", "beam is back")
    setup.put("SHOT", 4711)
    assert setup.state.commands == [{"command": "pause"}, {"remark": "beam is back"},
                                    {"shot": 4711}]
    with pytest.raises(RemoteError, match="`jump` is not a command; write start, pause"):
        setup.put("COMMAND", "jump")
    with pytest.raises(RemoteError, match="T:STATE is read-only"):
        setup.put("STATE", "armed")


def test_without_control_and_with_a_wrong_token_nothing_is_changed(make):
    setup = make(control=False)
    setup.until("CONNECTED", lambda one: bool(one))
    with pytest.raises(RemoteError, match="this bridge is read-only; start it with --control"):
        setup.put("COMMAND", "stop")
    assert setup.state.commands == []
    wrong = make(place=setup.state.url.replace(TOKEN, "guess"))
    wrong.until("CONNECTED", lambda one: bool(one))
    with pytest.raises(RemoteError, match="the token is missing or of another run"):
        wrong.put("COMMAND", "stop")
    assert setup.state.commands == []


def test_alarms_mark_losses_and_dead_sources(make):
    setup = make()
    setup.state.change = {
        "rates": {"lost": {"value": 5.0, "unit": "packets/s"}},
        "sources": [{"number": 0, "label": "a", "state": "dead", "packets": 1},
                    {"number": 1, "label": "b", "state": "live", "packets": 1}],
    }
    lost = setup.until("RATE:LOST", lambda one: one.severity == MINOR)
    assert lost == 5.0 and lost.raw.alarm.message == "packets are lost"
    assert setup.until("SOURCE:0:STATE", lambda one: one.severity == MAJOR) == "dead"
    assert setup.get("SOURCE:1:STATE").severity == 0


def test_a_lost_server_is_an_alarm_and_its_successor_clears_it(make, capfd):
    setup = make()
    setup.until("CONNECTED", lambda one: bool(one))
    seen = []
    monitor = setup.client.monitor("T:RATE:PACKETS", lambda one: seen.append(one.severity))
    setup.get("RATE:PACKETS")
    end = time.monotonic() + PATIENCE_S
    while not seen and time.monotonic() < end:
        time.sleep(0.02)
    port = setup.state.port
    setup.state.stop()
    away = setup.until("CONNECTED", lambda one: not one)
    assert away.severity == INVALID
    rate = setup.get("RATE:PACKETS")
    assert rate == 1000.5 and rate.severity == INVALID
    assert "the run may have ended" in rate.raw.alarm.message
    assert "the run may have ended" in str(setup.get("MESSAGE"))
    with pytest.raises(RemoteError, match="no answer from"):
        setup.put("COMMAND", "start")
    setup.state = StateServer(port=port, sources=1)
    setup.until("CONNECTED", lambda one: bool(one))
    assert setup.until("RATE:PACKETS", lambda one: one.severity == 0) == 1000.5
    gone = setup.until("SOURCE:1:LOST", lambda one: one.severity == INVALID)
    assert gone.raw.alarm.message == "this run has no such value"
    monitor.close()
    assert seen[0] == 0 and INVALID in seen and seen[-1] == 0
    said = [line for line in capfd.readouterr().err.splitlines() if "fluxline.epics" in line]
    assert 1 <= len(said) <= 3, said


def test_a_snapshot_of_another_version_is_an_alarm(make):
    setup = make()
    setup.until("CONNECTED", lambda one: bool(one))
    setup.state.change = {"rates": {"packets": 7}}
    lost = setup.until("CONNECTED", lambda one: not one)
    assert lost.severity == INVALID
    assert "the snapshot is not understood" in lost.raw.alarm.message
    setup.state.change = {}
    setup.until("CONNECTED", lambda one: bool(one))


def test_a_variable_exists_before_the_first_snapshot(make, tmp_path):
    setup = make(place=str(tmp_path))
    found = setup.until("MESSAGE", lambda one: bool(one))
    assert found == f"no run in {tmp_path} is served; start one with --serve."
    with pytest.raises(TimeoutError):
        setup.client.get("T:SOURCE:0:LOST", timeout=0.5)


def test_wrong_places_are_refused_in_one_sentence(capsys):
    assert main(["/nowhere/at/all"]) == 3
    assert "neither the address of a run nor a folder" in capsys.readouterr().err


EXPERIMENT = """
name = "epics"
runs = "runs"
[[source]]
name = "boards"
format = "counter"
[source.emulator]
sources = 2
rate = 500
payload-bytes = 64
link = "udp"
"""


def test_a_real_run_is_started_watched_and_stopped(make, program, tmp_path):
    (tmp_path / "experiment.toml").write_text(EXPERIMENT)
    (tmp_path / "runs").mkdir()
    run = subprocess.Popen([program, "run", "experiment.toml", "--serve", "127.0.0.1:0",
                            "--armed"], cwd=tmp_path, stdout=subprocess.DEVNULL,
                           stderr=subprocess.PIPE, text=True)
    try:
        setup = make(place=str(tmp_path / "runs"))
        setup.until("STATE", lambda one: one == "armed")
        setup.put("SHOT", 4711)
        setup.put("COMMAND", "start")
        setup.until("RECORDED", lambda one: one > 0)
        assert setup.get("SHOT") == 4711
        assert setup.get("SOURCE:1:LABEL") == "source_id=1"
        setup.put("COMMAND", "stop")
        _, said = run.communicate(timeout=30)
        assert run.returncode in (0, 7), said
        setup.until("CONNECTED", lambda one: not one)
    finally:
        run.kill()
        run.wait()


def test_the_command_serves_until_a_signal(tmp_path):
    state = StateServer()
    settings = {**os.environ, "EPICS_PVAS_BROADCAST_PORT": "0"}
    bridge = subprocess.Popen([sys.executable, "-m", "fluxline.epics", state.url, "--port", "0"],
                              env=settings, stdout=subprocess.PIPE, text=True)
    assert bridge.stdout.readline() == "serving FLUXLINE:* on 127.0.0.1\n"
    bridge.terminate()
    assert bridge.wait(PATIENCE_S) == 0
    state.stop()

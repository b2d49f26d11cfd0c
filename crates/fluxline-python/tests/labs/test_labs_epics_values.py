"""The bridge from EPICS to slow control values, with p4p's server and an IOC on loopback."""

import argparse
import os
import random
import signal
import socket
import subprocess
import sys
import time

import pytest
from needs import package

package("p4p")
package("aioca")

from p4p.client.thread import Context  # noqa: E402
from p4p.nt import NTEnum, NTScalar  # noqa: E402
from p4p.server import Server, StaticProvider  # noqa: E402
from p4p.server.thread import SharedPV  # noqa: E402

from fluxline._lines import Reading, Sender, address  # noqa: E402
from fluxline.epics_values import follow_pva, variable  # noqa: E402

PATIENCE_S = 60.0


class Lab:
    """Variables of a slow control, the bridge to a socket, and that socket."""

    def __init__(self):
        self.volts = SharedPV(nt=NTScalar("d", display=True),
                              initial={"value": 1500.5, "display.units": "V"},
                              timestamp=time.time())
        self.state = SharedPV(nt=NTEnum(), initial={"index": 1, "choices": ["off", "on, ramping"]})
        self.text = SharedPV(nt=NTScalar("s"), initial='a "quoted" \\ one')
        self.many = SharedPV(nt=NTScalar("ad"), initial=[1.0, 2.0])
        self.pvs = {"HV:V 1": self.volts, "HV:STATE": self.state, "T": self.text, "A": self.many}
        provider = StaticProvider("lab")
        for name, pv in self.pvs.items():
            provider.add(name, pv)
        self.server = Server([provider], conf={"EPICS_PVAS_INTF_ADDR_LIST": "127.0.0.1",
                             "EPICS_PVAS_SERVER_PORT": "0", "EPICS_PVAS_BROADCAST_PORT": "0",
                             "EPICS_PVAS_AUTO_BEACON_ADDR_LIST": "NO"}, useenv=False)
        port = self.server.conf()["EPICS_PVAS_SERVER_PORT"]
        self.context = Context("pva", conf={"EPICS_PVA_NAME_SERVERS": f"127.0.0.1:{port}",
                               "EPICS_PVA_AUTO_ADDR_LIST": "NO", "EPICS_PVA_ADDR_LIST": ""},
                               useenv=False)
        self.run = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.run.bind(("127.0.0.1", 0))
        self.run.settimeout(PATIENCE_S)
        self.values = Sender(self.run.getsockname())
        self.end = follow_pva(list(self.pvs), self.values, self.context)

    def lines(self, count):
        return sorted(self.run.recv(65535).decode() for _ in range(count))

    def close(self):
        self.end()
        self.context.close()
        self.server.stop()
        self.run.close()


@pytest.fixture
def lab():
    lab = Lab()
    yield lab
    lab.close()


def test_values_with_units_times_and_choices_are_lines_and_are_repeated(lab, capsys):
    state, volts, text = lab.lines(3)
    head, stamp = volts.rsplit(" ", 1)
    assert head == "HV:V\\ 1,unit=V value=1500.5" and abs(int(stamp) * 1e-9 - time.time()) < 600
    assert state.startswith('HV:STATE value="on, ramping"')
    assert text.startswith('T value="a \\"quoted\\" \\\\ one"')
    lab.volts.post(12.0, timestamp=time.time())
    assert lab.lines(1)[0].startswith("HV:V\\ 1,unit=V value=12.0 ")
    lab.values.repeat()
    assert "HV:V\\ 1,unit=V value=12.0\n" in lab.lines(3)
    said = ""
    while "A: " not in said:
        said += capsys.readouterr().out
        time.sleep(0.01)
    assert "not a finite number" in said


def test_a_variable_that_is_away_is_not_repeated(lab):
    lab.lines(3)
    lab.server.stop()
    lab.run.settimeout(1.0)
    for _ in range(int(PATIENCE_S)):
        lab.values.repeat()
        try:
            lab.run.recv(65535)
        except TimeoutError:
            return
        time.sleep(0.1)
    raise AssertionError("it is still sent")


def test_an_invalid_value_is_not_sent_until_it_is_valid(lab):
    lab.lines(3)
    invalid = {"value": 3.0, "alarm.severity": 3, "display.units": "V"}
    lab.volts.post(invalid, timestamp=time.time())
    lab.volts.post(4.0, timestamp=time.time(), severity=0)
    assert lab.lines(1)[0].startswith("HV:V\\ 1,unit=V value=4.0 ")


IOC = """
import sys
from epicscorelibs.ioc import ioc, start_ioc
start_ioc(sys.argv[1])
for line in sys.stdin:
    ioc(line.strip())
"""
RECORDS = """
record(ao, "HV:VOLTAGE") {
    field(VAL, "1500.5") field(EGU, "V") field(PINI, "YES") field(DESC, "of the long detector")
}
record(bo, "HV:STATE") { field(ZNAM, "off") field(ONAM, "on") field(VAL, "1") field(PINI, "YES") }
record(stringin, "HV:TEXT") { field(VAL, "a b") field(PINI, "YES") }
record(ao, "HV:UNDEFINED") { field(EGU, "V") }
"""


class Ioc:
    """An IOC of EPICS Base in a process, which speaks Channel Access on loopback."""

    def __init__(self, folder):
        (folder / "lab.db").write_text(RECORDS)
        self.folder = folder
        port, repeater = random.sample(range(20_000, 30_000), 2)
        self.env = {**os.environ, "EPICS_CA_SERVER_PORT": str(port),
                    "EPICS_CA_REPEATER_PORT": str(repeater),
                    "EPICS_CAS_INTF_ADDR_LIST": "127.0.0.1",
                    "EPICS_CAS_BEACON_ADDR_LIST": "127.0.0.1",
                    "EPICS_CAS_AUTO_BEACON_ADDR_LIST": "NO",
                    "EPICS_CA_ADDR_LIST": "127.0.0.1", "EPICS_CA_AUTO_ADDR_LIST": "NO"}
        self.start()

    def start(self):
        self.process = subprocess.Popen(
            [sys.executable, "-c", IOC, self.folder / "lab.db"], env=self.env, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def put(self, name, value):
        self.process.stdin.write(f"dbpf {name} {value}\n")
        self.process.stdin.flush()

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()


@pytest.fixture
def ioc(tmp_path):
    ioc = Ioc(tmp_path)
    yield ioc
    ioc.kill()


@pytest.fixture
def bridge(ioc):
    """The bridge in a process, and the run's socket."""
    run = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    run.bind(("127.0.0.1", 0))
    run.settimeout(PATIENCE_S)
    names = ["ca://HV:VOLTAGE", "ca://HV:STATE", "ca://HV:TEXT", "ca://HV:UNDEFINED",
             "ca://HV:VOLTAGE.DESC$"]
    process = subprocess.Popen(
        [sys.executable, "-m", "fluxline.epics_values", *names, "--every", "0.1",
         "--to", f"127.0.0.1:{run.getsockname()[1]}"], env=ioc.env, stdout=subprocess.PIPE,
        text=True)
    process.run = run
    yield process
    process.kill()
    process.communicate()
    run.close()


def heard(run, wanted):
    """Return the first line with a text, and the others before it."""
    others = []
    for _ in range(10_000):
        line = run.recv(65535).decode()
        if wanted in line:
            return line, others
        others.append(line)
    raise AssertionError(others[-10:])


def test_channel_access_has_units_times_and_texts_of_choices(ioc, bridge):
    line, _ = heard(bridge.run, "HV:VOLTAGE,unit=V value=1500.5 ")
    assert abs(int(line.rsplit(" ", 1)[1]) * 1e-9 - time.time()) < 600
    heard(bridge.run, "HV:VOLTAGE,unit=V value=1500.5\n")
    heard(bridge.run, 'HV:STATE value="on"')
    heard(bridge.run, 'HV:TEXT value="a b"')
    heard(bridge.run, 'HV:VOLTAGE.DESC$ value="of the long detector"')
    ioc.put("HV:VOLTAGE", 12)
    heard(bridge.run, "HV:VOLTAGE,unit=V value=12.0 ")
    bridge.send_signal(signal.SIGTERM)
    said, _ = bridge.communicate(timeout=PATIENCE_S)
    assert bridge.returncode == 0
    assert "HV:UNDEFINED: its alarm severity is INVALID; it is sent again when it is back" in said


def test_an_ioc_that_is_killed_is_silent_and_is_followed_again(ioc, bridge):
    heard(bridge.run, "HV:VOLTAGE,unit=V value=1500.5")
    ioc.put("HV:VOLTAGE", 12)
    heard(bridge.run, "HV:VOLTAGE,unit=V value=12.0")
    ioc.kill()
    away = set()
    while len(away) < 5:
        name, says = bridge.stdout.readline().split(": ")
        if says.startswith("its server is away"):
            away.add(name)
    bridge.run.settimeout(1.0)
    with pytest.raises(TimeoutError):
        heard(bridge.run, "nothing is sent while the server is away")
    bridge.run.settimeout(PATIENCE_S)
    ioc.start()
    _, others = heard(bridge.run, "HV:VOLTAGE,unit=V value=1500.5 ")
    assert not any("VOLTAGE" in one for one in others)


def test_values_without_a_line_and_wrong_addresses_are_refused():
    for value in (float("nan"), [1.0], None, 10**400):
        assert Reading("a", value).line() is None
    assert Reading("a,b=\n", True).line() == "a\\,b\\=? value=1.0\n"
    assert Reading("a\\", 1, "V").line() == "a?,unit=V value=1.0\n"
    assert address("[::1]:8094") == ("::1", 8094)
    for wrong in ("8094", "host:", "host:0", "host:65536", ":1"):
        with pytest.raises(argparse.ArgumentTypeError, match="HOST:PORT"):
            address(wrong)
    assert variable("ca://A:B") == ("ca", "A:B") and variable("A:B") == ("pva", "A:B")
    for wrong in ("http://A", "ca://", ""):
        with pytest.raises(argparse.ArgumentTypeError, match="ca://NAME"):
            variable(wrong)

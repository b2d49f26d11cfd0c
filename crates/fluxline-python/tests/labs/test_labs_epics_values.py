"""The bridge from EPICS to slow control values, with p4p's server on loopback."""

import argparse
import socket
import time

import pytest
from needs import package

package("p4p")

from p4p.client.thread import Context  # noqa: E402
from p4p.nt import NTEnum, NTScalar  # noqa: E402
from p4p.server import Server, StaticProvider  # noqa: E402
from p4p.server.thread import SharedPV  # noqa: E402

from fluxline.epics_values import Values, address, follow, line_of  # noqa: E402

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
        self.values = Values(self.run.getsockname())
        self.followed = follow(list(self.pvs), self.values, self.context)

    def lines(self, count):
        return sorted(self.run.recv(65535).decode() for _ in range(count))

    def close(self):
        for one in self.followed:
            one.close()
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


def test_values_without_a_line_and_wrong_addresses_are_refused():
    assert line_of("a", float("nan")) is None and line_of("a", [1.0]) is None
    assert line_of("a,b=\n", True) == "a\\,b\\=? value=1.0\n"
    assert address("[::1]:8094") == ("::1", 8094)
    for wrong in ("8094", "host:", "host:0", "host:65536", ":1"):
        with pytest.raises(argparse.ArgumentTypeError, match="HOST:PORT"):
            address(wrong)

"""A bridge from EPICS process variables to the slow control values of a run.

    python3 -m fluxline.epics_values HV:VOLTAGE GAS:FLOW --to 127.0.0.1:8094

follows variables by PVAccess, and sends their changes as lines of InfluxDB's line protocol. A value
that stays is sent again every 10 s, so that a run that begins later has it too. A variable whose
server is away is not sent: the run's `stale-s` alarms see that.
"""

from __future__ import annotations

import argparse
import signal
import socket
import threading
import time
from typing import Any

try:
    from p4p.client.thread import Context
except ImportError as error:
    raise ImportError("p4p is missing; install it by: pip install 'fluxline[epics]'") from error

EVERY_S = 10.0
STAMP_AGE_S_MAX = 23 * 3600.0
"""The run does not believe times that are a day away; older ones are left out."""


def line_of(name: str, value: Any, now_s: float | None = None) -> str | None:
    """Return the line of a variable's value; None for arrays, tables and other structures.

    With `now_s`, its time stamp is in the line where it is less than a day from that.
    """
    raw = getattr(value, "raw", None)
    choices = _get(raw, "value.choices")
    if isinstance(value, bool | int | float) and choices is None:
        field = repr(float(value))
        if field in ("nan", "inf", "-inf"):
            return None
    elif isinstance(value, str):
        field = _quoted(value)
    elif choices is not None:
        at = int(_get(raw, "value.index"))
        field = _quoted(str(choices[at])) if 0 <= at < len(choices) else f"{at}i"
    else:
        return None
    unit = _get(raw, "display.units") or ""
    head = _escaped(name) + (f",unit={_escaped(unit)}" if unit else "")
    second = _get(raw, "timeStamp.secondsPastEpoch") or 0
    stamp = ""
    if now_s is not None and abs(now_s - second) < STAMP_AGE_S_MAX:
        stamp = f" {second * 1_000_000_000 + int(_get(raw, 'timeStamp.nanoseconds') or 0)}"
    return f"{head} value={field}{stamp}\n"


def _get(raw: Any, path: str) -> Any:
    """Return a member of a structure, or None where it has none of that name."""
    for part in path.split("."):
        raw = getattr(raw, part, None)
    return raw


def _escaped(name: str) -> str:
    plain = "".join(one if one.isprintable() else "?" for one in name)
    return "".join(f"\\{one}" if one in ",= " else one for one in plain)


def _quoted(text: str) -> str:
    plain = "".join(one if one.isprintable() else " " for one in text[:250])
    return '"' + plain.replace("\\", "\\\\").replace('"', '\\"') + '"'


class Values:
    """The newest values of the variables, and the socket to the run."""

    def __init__(self, to: tuple[str, int]):
        self.to = to
        self._socket = socket.socket(socket.AF_INET6 if ":" in to[0] else socket.AF_INET,
                                     socket.SOCK_DGRAM)
        self._lock = threading.Lock()
        self._again: dict[str, str] = {}
        self._said: set[str] = set()

    def changed(self, name: str, value: Any) -> None:
        """Take a change of a variable, or the exception of its disconnection."""
        line = None if isinstance(value, Exception) else line_of(name, value, time.time())
        again = None if line is None else line_of(name, value)
        with self._lock:
            if line is None or again is None:
                self._again.pop(name, None)
                self._say(f"{name}: {_reason(value)}")
                return
            self._again[name] = again
            self._send(line)

    def repeat(self) -> None:
        """Send all values of connected variables once more, without their times."""
        with self._lock:
            for line in self._again.values():
                self._send(line)

    def _send(self, line: str) -> None:
        try:
            self._socket.sendto(line.encode(), self.to)
        except OSError as error:
            self._say(f"{self.to[0]}:{self.to[1]}: {error}")

    def _say(self, text: str) -> None:
        if text not in self._said and len(self._said) < 1000:
            self._said.add(text)
            print(text, flush=True)


def _reason(value: Any) -> str:
    if isinstance(value, Exception):
        return f"{type(value).__name__}; it is sent again when it is back"
    return f"{type(value).__name__} is not a finite number, a text or a choice; it is not sent"


def follow(names: list[str], values: Values, context: Context) -> list[Any]:
    """Follow variables until the returned subscriptions are closed."""
    def of(name: str) -> Any:
        return context.monitor(name, lambda value: values.changed(name, value),
                               notify_disconnect=True)
    return [of(name) for name in names]


def address(text: str) -> tuple[str, int]:
    """Return the host and the port of `HOST:PORT`."""
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise argparse.ArgumentTypeError(f"{text!r} is not HOST:PORT, such as 127.0.0.1:8094")
    return host.strip("[]"), int(port)


def main(arguments: list[str] | None = None) -> None:
    """Run the bridge until Ctrl-C or SIGTERM."""
    parser = argparse.ArgumentParser(prog="python3 -m fluxline.epics_values", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="+", metavar="PV", help="names of process variables")
    parser.add_argument("--to", type=address, default=("127.0.0.1", 8094), metavar="HOST:PORT",
                        help="`udp` of [slow-control] (127.0.0.1:8094)")
    parser.add_argument("--every", type=float, default=EVERY_S, metavar="S",
                        help="time after which values are sent again [s] (10)")
    options = parser.parse_args(arguments)
    if not 0.1 <= options.every <= 86_400:
        parser.error(f"--every {options.every}: write 0.1 to 86400")
    stop = threading.Event()
    for one in (signal.SIGINT, signal.SIGTERM):
        signal.signal(one, lambda *_: stop.set())
    values = Values(options.to)
    with Context("pva") as context:
        followed = follow(options.names, values, context)
        while not stop.wait(options.every):
            values.repeat()
        for one in followed:
            one.close()


if __name__ == "__main__":
    main()

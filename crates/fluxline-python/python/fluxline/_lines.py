"""Lines of InfluxDB's line protocol for the slow control socket of a run, as all bridges send them.

A bridge makes a `Reading` of each change. The `Sender` sends it, and sends it again now and then if
asked, so that a run that begins later has it too.
"""

from __future__ import annotations

import argparse
import importlib
import math
import signal
import socket
import threading
import time
from dataclasses import dataclass
from typing import Any

EVERY_S = 10.0
STAMP_AGE_S_MAX = 23 * 3600.0
"""The run does not believe times that are a day away; older ones are left out."""
TEXT_LENGTH_MAX = 250
"""Longer texts are cut: the run takes 1024 bytes."""
SAID_MAX = 1_000
AGAIN_MAX = 10_000


@dataclass(frozen=True)
class Reading:
    """A value of a name: a number, true or false, or a text."""

    name: str
    value: object
    unit: str = ""
    time_ns: int | None = None
    """The sender's time [ns since 1970]."""
    member: str = "value"

    def line(self, now_s: float | None = None) -> str | None:
        """Return the line; None if the value has none, such as a list or NaN.

        With `now_s`, its time is in the line where it is less than a day from that.
        """
        field = _field(self.value)
        if field is None or not self.name or not self.member:
            return None
        unit = f",unit={_escaped(self.unit)}" if self.unit else ""
        stamp = ""
        if now_s is not None and self.time_ns is not None:
            is_near = abs(now_s - self.time_ns * 1e-9) < STAMP_AGE_S_MAX
            stamp = f" {self.time_ns}" if is_near else ""
        return f"{_escaped(self.name)}{unit} {_escaped(self.member)}={field}{stamp}\n"


def _field(value: object) -> str | None:
    if isinstance(value, str):
        plain = "".join(one if one.isprintable() else " " for one in value[:TEXT_LENGTH_MAX])
        return '"' + plain.replace("\\", "\\\\").replace('"', '\\"') + '"'
    try:
        number = float(value) if isinstance(value, bool | int | float) else math.nan
    except OverflowError:
        return None
    return repr(number) if math.isfinite(number) else None


def _escaped(name: str) -> str:
    plain = "".join(one if one.isprintable() else "?" for one in name)
    if plain.endswith("\\"):  # it would escape the separator behind the name
        plain = plain[:-1] + "?"
    return "".join(f"\\{one}" if one in ",= " else one for one in plain)


class Sender:
    """Sends readings to a run, and keeps the newest of each name to send it again."""

    def __init__(self, to: tuple[str, int], keeps: bool = True):
        self.to = to
        self.sent = 0
        """Readings that were sent, without those that were sent again."""
        self._keeps = keeps
        self._socket = socket.socket(socket.AF_INET6 if ":" in to[0] else socket.AF_INET,
                                     socket.SOCK_DGRAM)
        self._lock = threading.Lock()
        self._again: dict[tuple[str, str], str] = {}
        self._said: set[str] = set()

    def changed(self, reading: Reading) -> bool:
        """Send a change; False if it is no number, truth value or text."""
        line, again = reading.line(time.time()), reading.line()
        key = (reading.name, reading.member)
        with self._lock:
            if line is None or again is None:
                self._again.pop(key, None)
                return False
            if self._keeps and (key in self._again or len(self._again) < AGAIN_MAX):
                self._again[key] = again
            self._send(line)
            self.sent += 1
        return True

    def gone(self, name: str | None = None) -> None:
        """Send the values of a name, or of all names, no more until they change."""
        with self._lock:
            kept = {} if name is None else {
                key: line for key, line in self._again.items() if key[0] != name}
            self._again = kept

    def repeat(self) -> None:
        """Send the newest values once more, without their times."""
        with self._lock:
            for line in self._again.values():
                self._send(line)

    def say(self, text: str, key: str | None = None) -> None:
        """Print a sentence, once; with `key`, the first sentence of that key."""
        if (key or text) not in self._said and len(self._said) < SAID_MAX:
            self._said.add(key or text)
            print(text, flush=True)

    def _send(self, line: str) -> None:
        try:
            self._socket.sendto(line.encode(), self.to)
        except OSError as error:
            self.say(f"{self.to[0]}:{self.to[1]}: {error}")


def address(text: str) -> tuple[str, int]:
    """Return the host and the port of `HOST:PORT`."""
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise argparse.ArgumentTypeError(f"{text!r} is not HOST:PORT, such as 127.0.0.1:8094")
    return host.strip("[]"), int(port)


def add_options(parser: argparse.ArgumentParser, every_s: float, every: str) -> None:
    """Add the options that all bridges have; `every` is the help of `--every`."""
    parser.add_argument("--to", type=address, default=("127.0.0.1", 8094), metavar="HOST:PORT",
                        help="`udp` of [slow-control] (127.0.0.1:8094)")
    parser.add_argument("--every", type=_period, default=every_s, metavar="S", help=every)


def _period(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if seconds != 0 and not 0.1 <= seconds <= 86_400:
        raise argparse.ArgumentTypeError(f"{text}: write 0.1 to 86400 [s], or 0 for never")
    return seconds


def library(module: str, extra: str) -> Any:
    """Return a library of an optional extra of this package."""
    try:
        return importlib.import_module(module)
    except ImportError:
        name = module.partition(".")[0]
        raise SystemExit(f"{name} is missing; install it by: pip install 'fluxline[{extra}]'"
                         ) from None


def stop_signal() -> threading.Event:
    """Return an event that Ctrl-C or SIGTERM sets."""
    stop = threading.Event()
    for one in (signal.SIGINT, signal.SIGTERM):
        signal.signal(one, lambda *_: stop.set())
    return stop


def serve(sender: Sender, every_s: float, stop: threading.Event) -> None:
    """Send all values again every `every_s` seconds until the stop; 0: only changes are sent."""
    while not stop.wait(every_s or None):
        sender.repeat()

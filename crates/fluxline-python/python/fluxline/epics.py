"""A bridge from a running acquisition to EPICS PVAccess.

    python3 -m fluxline.epics http://127.0.0.1:8040/#TOKEN --prefix DAQ

serves the newest snapshot of the run as process variables: `DAQ:STATE`, `DAQ:RATE:PACKETS`,
`DAQ:SOURCE:0:LOST`, and all sources at once in the table `DAQ:SOURCES`. A variable costs time only
while a client is connected to it, and is posted only when its value changes.
"""

from __future__ import annotations

import argparse
import gc
import operator
import signal
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

from ._state import Away, Refused, StateClient

try:
    from p4p import Value
    from p4p.nt import NTScalar, NTTable
    from p4p.server import Server, StaticProvider
    from p4p.server.thread import SharedPV
except ImportError as error:
    raise ImportError("p4p is missing; install it by: pip install 'fluxline[epics]'") from error

NO_ALARM, MINOR, MAJOR, INVALID = 0, 1, 2, 3
RETRY_S = 0.5
CODES: dict[type, str] = {bool: "?", int: "l", float: "d", str: "s"}
SOURCE_COLUMNS = ("packets", "bytes", "rate", "lost", "restarts", "reordered", "duplicate",
                  "recorded", "silent_ms")
"""Numbers of each source, as in the snapshot."""
SOURCE_TEXTS = ("label", "state")
SOURCE_UNITS = {"rate": "packets/s", "bytes": "byte", "silent_ms": "ms"}
COMMANDS = ("start", "pause", "resume", "stop")
SEVERITY_OF_HEALTH = {"warning": MINOR, "alarm": MAJOR}
SEVERITY_OF_STATE = {"dead": MAJOR, "idle": MINOR}


class Reading(NamedTuple):
    """The value of a variable in a snapshot."""

    value: Any
    unit: str = ""
    severity: int = NO_ALARM
    message: str = ""


class SourceKey(NamedTuple):
    """The place of a variable among the sources of a snapshot."""

    number: int
    column: str


def readings(snapshot: dict[str, Any]) -> Iterator[tuple[str, Reading]]:
    """Yields the variables of a snapshot, except those of sources."""
    yield "STATE", Reading(str(snapshot.get("state", "")))
    yield from _health(snapshot.get("health") or {})
    yield "RUN", Reading(str(snapshot.get("run", "")))
    yield "FOLDER", Reading(str(snapshot.get("folder", "")))
    yield "SHOT", Reading(int(snapshot.get("shot") or 0))
    yield "SECONDS", Reading(float(snapshot.get("seconds", 0.0)), "s")
    yield "RING", Reading(float(snapshot.get("ring_percent") or 0.0), "%")
    yield "DISK:FREE", Reading(int(snapshot.get("free_bytes") or 0), "byte")
    yield "RECORDED", Reading(int(snapshot.get("recorded_bytes") or 0), "byte")
    for name, rate in snapshot.get("rates", {}).items():
        value = float(rate["value"])
        alarm = (MINOR, "packets are lost") if name == "lost" and value > 0 else (NO_ALARM, "")
        yield f"RATE:{_pv_name(name)}", Reading(value, rate["unit"], *alarm)
    for name, value in _numbers(snapshot.get("events")):
        yield f"EVENTS:{_pv_name(name)}", Reading(int(value))
    for name, value in _numbers(snapshot.get("delays")):
        unit = "ns" if name.endswith("_ns") else ""
        yield f"DELAY:{_pv_name(name.removesuffix('_ns'))}", Reading(int(value), unit)
    for number, one in enumerate(snapshot.get("inputs", ())):
        for name, value in _numbers(one):
            path = f"INPUT:{number}:{_pv_name(name)}"
            yield path, Reading(float(value) if name == "rate" else int(value),
                                SOURCE_UNITS.get(name, ""))
    flow = snapshot.get("flow", {})
    for name in ("expected", "received", "lost", "in_flight", "to_builder"):
        yield f"FLOW:{_pv_name(name)}", Reading(int(flow.get(name) or 0))
    for end in flow.get("ends", ()):
        yield f"FLOW:END:{_pv_name(end['name'])}", Reading(int(end["count"]), end.get("unit", ""))


def _health(health: dict[str, Any]) -> Iterator[tuple[str, Reading]]:
    """Yields the verdict on the run, with the severity that EPICS has for it."""
    state, sentence = str(health.get("state", "")), str(health.get("sentence", ""))
    severity = SEVERITY_OF_HEALTH.get(state, NO_ALARM)
    message = sentence if severity else ""
    yield "HEALTH", Reading(state, "", severity, message)
    yield "HEALTH:SENTENCE", Reading(sentence, "", severity, message)
    yield "HEALTH:ADVICE", Reading(str(health.get("advice", "")))


def _numbers(values: dict[str, Any] | None) -> Iterator[tuple[str, float]]:
    """Yields the numbers of a part of a snapshot; what else is there has no variable."""
    return ((name, one) for name, one in (values or {}).items() if isinstance(one, (int, float)))


def _pv_name(words: str) -> str:
    return "".join(one if one.isalnum() else "_" for one in words.upper())


class Newest:
    """The newest snapshot, or the reason why it is missing."""

    def __init__(self) -> None:
        self.sources: list[dict[str, Any]] = []
        self.at_s = 0.0
        self.away = "no snapshot yet"
        self._plain: dict[str, Reading] = {"COMMAND": Reading(""), "NOTE": Reading("")}
        self._snapshot: dict[str, Any] | None = None

    def take(self, snapshot: dict[str, Any]) -> None:
        """Takes the values of a snapshot."""
        self._snapshot = snapshot
        self.sources = snapshot.get("sources", [])
        self.at_s, self.away = snapshot.get("at_ns", 0) * 1e-9, ""

    def lose(self, sentence: str) -> None:
        """Keeps the values, with an alarm."""
        self.at_s, self.away = time.time(), sentence

    def plain(self) -> dict[str, Reading]:
        """Returns all values except those of sources; read when they are wanted."""
        snapshot, self._snapshot = self._snapshot, None
        if snapshot is not None:
            self._plain |= readings(snapshot)
        return self._plain

    def reading(self, key: str | SourceKey) -> Reading:
        """Returns the value of a variable with its alarm."""
        if key == "CONNECTED":
            found: Reading | None = Reading(not self.away)
        elif key == "MESSAGE":
            found = Reading(self.away)
        else:
            found = self._of_source(key) if isinstance(key, SourceKey) else self.plain().get(key)
        if self.away:
            return Reading(found.value if found else None, found.unit if found else "", INVALID,
                           self.away)
        return found or Reading(None, "", INVALID, "this run has no such value")

    def _of_source(self, key: SourceKey) -> Reading | None:
        if key.number >= len(self.sources):
            return None
        value = self.sources[key.number].get(key.column, 0)
        if key.column == "state" and value in SEVERITY_OF_STATE:
            return Reading(value, "", SEVERITY_OF_STATE[value], f"the source is {value}")
        return Reading(value, SOURCE_UNITS.get(key.column, ""))


class Variable:
    """A process variable that is open while a client is connected."""

    def __init__(self, key: str | SourceKey, code: str, bridge: Bridge):
        self.key, self.bridge = key, bridge
        self.posted: Reading | None = None
        self._type = NTScalar.buildType(code, display=True)
        self.pv = SharedPV(handler=self)

    def post(self, newest: Newest) -> None:
        """Posts the newest value if it or its alarm changed."""
        reading = newest.reading(self.key)
        if reading != self.posted:
            self.pv.post(self._changes(reading, newest.at_s))

    def open(self, newest: Newest) -> None:
        """Opens the variable for a client."""
        self.posted = None
        reading = newest.reading(self.key)
        first = self._changes(reading, newest.at_s)
        first["display.units"] = reading.unit
        self.pv.open(first)

    def _changes(self, reading: Reading, at_s: float) -> Value:
        before, self.posted = self.posted, reading
        fields: dict[str, Any] = {"timeStamp": _stamp(at_s)}
        if reading.value is not None:
            fields["value"] = reading.value
        if before is None or before[2:] != reading[2:]:
            fields["alarm"] = _alarm(reading.severity, reading.message)
        return Value(self._type, fields)

    def onFirstConnect(self, pv: SharedPV) -> None:  # noqa: N802, ARG002 (the name is p4p's)
        """Opens the variable with its newest value."""
        self.bridge.watch(self)

    def onLastDisconnect(self, pv: SharedPV) -> None:  # noqa: N802, ARG002
        """Closes the variable, so that it costs nothing."""
        self.bridge.forget(self)

    def put(self, pv: SharedPV, operation: Any) -> None:  # noqa: ARG002
        """Runs a command in a thread of its own, since the server may be slow."""
        value = operation.value()["value"]
        send = threading.Thread(target=self._put, args=(operation, value), daemon=True)
        send.start()

    def _put(self, operation: Any, value: Any) -> None:
        try:
            self.bridge.put(str(self.key), value)
        except (Refused, ValueError) as error:
            operation.done(error=str(error))
        else:
            operation.done()


class SourceTable:
    """The numbers of all sources as one NTTable, open while a client is connected."""

    def __init__(self, bridge: Bridge):
        self.bridge = bridge
        columns = [("number", "l"), ("label", "s"), ("state", "s")]
        columns += [(one, "d" if one == "rate" else "l") for one in SOURCE_COLUMNS]
        self._names = [one for one, _ in columns]
        self._type = NTTable.buildType([(one, "a" + code) for one, code in columns])
        self._values = operator.itemgetter(*self._names)
        self._columns: dict[str, list[Any]] = {}
        self._away = ""
        self.pv = SharedPV(handler=self)

    def post(self, newest: Newest) -> None:
        """Posts the columns that changed, and the alarm if it changed."""
        columns = self._columns_of(newest)
        changed = {name: one for name, one in columns.items() if one != self._columns[name]}
        if changed or newest.away != self._away:
            self.pv.post(self._table(changed, newest))
            self._columns = columns

    def open(self, newest: Newest) -> None:
        """Opens the table for a client."""
        self._columns = self._columns_of(newest)
        first = self._table(self._columns, newest)
        first["labels"], first["alarm"] = self._names, _alarm_of(newest)
        self.pv.open(first)

    def _columns_of(self, newest: Newest) -> dict[str, list[Any]]:
        rows = newest.sources
        try:
            columns = list(zip(*map(self._values, rows), strict=True))
        except KeyError:
            columns = []
        if not columns:
            return {name: [row.get(name, 0) for row in rows] for name in self._names}
        return dict(zip(self._names, map(list, columns), strict=True))

    def _table(self, columns: dict[str, list[Any]], newest: Newest) -> Value:
        fields: dict[str, Any] = {"value": columns, "timeStamp": _stamp(newest.at_s)}
        if newest.away != self._away:
            fields["alarm"] = _alarm_of(newest)
        self._away = newest.away
        return Value(self._type, fields)

    def onFirstConnect(self, pv: SharedPV) -> None:  # noqa: N802, ARG002
        """Opens the table with its newest rows."""
        self.bridge.watch(self)

    def onLastDisconnect(self, pv: SharedPV) -> None:  # noqa: N802, ARG002
        """Closes the table, so that it costs nothing."""
        self.bridge.forget(self)


def _shape(snapshot: dict[str, Any]) -> tuple[int, ...]:
    """Returns numbers that change when a snapshot gets other variables."""
    flow = snapshot.get("flow", {})
    parts = (snapshot.get("rates", {}), snapshot.get("events", {}), snapshot.get("delays", {}),
             snapshot.get("inputs", ()), flow.get("ends", ()))
    return tuple(map(len, parts))


def _stamp(at_s: float) -> dict[str, int]:
    second = int(at_s)
    return {"secondsPastEpoch": second, "nanoseconds": int((at_s - second) * 1e9)}


def _alarm_of(newest: Newest) -> dict[str, Any]:
    return _alarm(INVALID if newest.away else NO_ALARM, newest.away)


def _alarm(severity: int, message: str) -> dict[str, Any]:
    return {"severity": severity, "status": 2 if severity else 0, "message": message}


class Bridge:
    """Process variables of a run, kept up to date by its snapshots."""

    def __init__(self, client: StateClient, prefix: str, control: bool = False):
        self.client, self.prefix, self.control = client, prefix, control
        self.provider = StaticProvider("fluxline")
        self.newest = Newest()
        self.variables: dict[str | SourceKey, Variable] = {}
        self._watched: set[Variable | SourceTable] = set()
        self._lock = threading.RLock()
        self._stop = threading.Event()
        self._printed = ""
        self._sources = 0
        self._shape: tuple[int, ...] = ()
        self.provider.add(f"{prefix}:SOURCES", SourceTable(self).pv)
        for name, code in [("CONNECTED", "?"), ("MESSAGE", "s"), ("COMMAND", "s"), ("NOTE", "s"),
                           ("SHOT", "l")]:
            self._add(name, name, code)

    def _add(self, name: str, key: str | SourceKey, code: str) -> None:
        self.variables[key] = variable = Variable(key, code, self)
        self.provider.add(f"{self.prefix}:{name}", variable.pv)

    def watch(self, one: Variable | SourceTable) -> None:
        """Opens a variable, and posts its changes from now on."""
        with self._lock:
            one.open(self.newest)
            self._watched.add(one)

    def forget(self, one: Variable | SourceTable) -> None:
        """Closes a variable without clients."""
        with self._lock:
            self._watched.discard(one)
            one.pv.close()

    def put(self, name: str, value: Any) -> None:
        """Runs a command of a client."""
        if name not in ("COMMAND", "NOTE", "SHOT"):
            raise Refused(f"{self.prefix}:{name} is read-only.")
        if not self.control:
            raise Refused("this bridge is read-only; start it with --control.")
        if name == "COMMAND" and value not in COMMANDS:
            raise ValueError(f"`{value}` is not a command; write {', '.join(COMMANDS)}.")
        request = {"COMMAND": "command", "NOTE": "remark", "SHOT": "shot"}[name]
        self.client.command({request: value})

    def update(self, snapshot: dict[str, Any]) -> None:
        """Takes a snapshot, and posts what changed to the clients."""
        with self._lock:
            self.newest.take(snapshot)
            shape = _shape(snapshot)
            if shape != self._shape:
                self._add_plain()
                self._shape = shape
            for number in range(self._sources, len(self.newest.sources)):
                self._add_source(number)
            self._post()
        self._printed = ""

    def _add_plain(self) -> None:
        for name, reading in self.newest.plain().items():
            if name not in self.variables:
                self._add(name, name, CODES[type(reading.value)])

    def _add_source(self, number: int) -> None:
        self._sources = number + 1
        for column in SOURCE_TEXTS + SOURCE_COLUMNS:
            code = "s" if column in SOURCE_TEXTS else "d" if column == "rate" else "l"
            self._add(f"SOURCE:{number}:{column.upper()}", SourceKey(number, column), code)

    def _post(self) -> None:
        for one in self._watched:
            one.post(self.newest)

    def lose(self, sentence: str) -> None:
        """Marks all values as invalid, with the reason."""
        with self._lock:
            self.newest.lose(sentence)
            self._post()
        if sentence != self._printed:
            print(f"fluxline.epics: {sentence}", file=sys.stderr, flush=True)
            self._printed = sentence

    def run(self) -> None:
        """Follows the run, and the next one after a loss, until `stop`."""
        while not self._stop.is_set():
            try:
                for snapshot in self.client.snapshots(lambda: bool(self._watched)):
                    self.update(snapshot)
                    if self._stop.is_set():
                        return
            except Away as error:
                self.lose(str(error))
                self._stop.wait(RETRY_S)
            except (KeyError, TypeError, AttributeError) as error:
                self.lose(f"the snapshot is not understood ({error!r}); use the bridge of the "
                          "version of fluxline that runs.")
                self._stop.wait(RETRY_S)

    def stop(self) -> None:
        """Ends `run` after the next snapshot."""
        self._stop.set()


def server_settings(interface: str, port: int | None = None) -> dict[str, str]:
    """Returns the settings of a server on one interface, which sends no beacons elsewhere."""
    settings = {
        "EPICS_PVAS_INTF_ADDR_LIST": interface,
        "EPICS_PVAS_AUTO_BEACON_ADDR_LIST": "NO",
        "EPICS_PVAS_BEACON_ADDR_LIST": interface if interface.startswith("127.") else "",
    }
    if port is not None:
        settings["EPICS_PVAS_SERVER_PORT"] = str(port)
    return settings


def main(arguments: list[str] | None = None) -> int:
    """Runs the bridge until a signal."""
    parser = argparse.ArgumentParser(
        prog="python3 -m fluxline.epics",
        description="Serves a running acquisition as EPICS process variables (PVAccess).")
    parser.add_argument("place", metavar="URL", help="the address that `fluxline run --serve` "
                        "prints, or the folder of runs, whose newest served run is followed")
    parser.add_argument("--prefix", default="FLUXLINE", help="begins all names [FLUXLINE]")
    parser.add_argument("--control", action="store_true", help="accept puts to COMMAND, NOTE and "
                        "SHOT: everybody who reaches this server may then control the run")
    parser.add_argument("--interface", default="127.0.0.1",
                        help="the address to listen on [127.0.0.1]; 0.0.0.0 for all")
    parser.add_argument("--port", type=int, help="the port for PVAccess [5075]")
    given = parser.parse_args(arguments)
    try:
        bridge = Bridge(StateClient(given.place), given.prefix, given.control)
        server = Server([bridge.provider], conf=server_settings(given.interface, given.port))
    except (ValueError, RuntimeError) as error:
        print(f"fluxline.epics: {error}", file=sys.stderr)
        return 3
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: bridge.stop())
    # Snapshots have no circles; collecting them seldom halves the processor time.
    gc.set_threshold(100_000)
    with server:
        print(f"serving {given.prefix}:* on {given.interface}", flush=True)
        bridge.run()
    return 0


if __name__ == "__main__":
    sys.exit(main())

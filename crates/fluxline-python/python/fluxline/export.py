"""Exports of runs to the formats of laboratories.

    python3 -m fluxline.export runs/0042 --to nexus run.nxs

`fluxline.to_hdf5`, `to_nexus`, `to_npz`, `to_root`, `to_mdsplus` and `to_imas` do the same from Python.
Each needs its own optional packages, for example `pip install 'fluxline[nexus]'`.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

from ._fluxline import parse_time
from .errors import Error
from .formats import MODULES, module_of

PROGRESS_S = 0.5
STATUS_FAILED, STATUS_INPUT, STATUS_DAMAGED = 1, 3, 8


def parser() -> argparse.ArgumentParser:
    """Returns the arguments of the command."""
    made = argparse.ArgumentParser(prog="python3 -m fluxline.export",
                                   description="Exports a run to the format of a laboratory.")
    made.add_argument("run", help="the run folder")
    made.add_argument("--to", required=True, choices=sorted(MODULES), help="the format")
    made.add_argument("out", nargs="?", help="the file; for mdsplus: SERVER/TREE/SHOT")
    made.add_argument("-o", "--into", metavar="OUT", help="the same, as in `fluxline export`")
    made.add_argument("--tables", type=_names, metavar="A,B",
                      help="tables [all but whole packets and rows of records]")
    made.add_argument("--columns", type=_names, metavar="A,B", help="columns [all]")
    made.add_argument("--sources", type=_names, metavar="A,B", help="sources, by name or number")
    made.add_argument("--events", type=_events, metavar="A..B", help="events from A to before B")
    made.add_argument("--since", type=_time, metavar="TIME",
                      help="events from this time on: UTC, as 2026-11-23T12:00:00Z, or seconds "
                           "since 1970")
    made.add_argument("--until", type=_time, metavar="TIME", help="events before this time")
    made.add_argument("--compression", choices=("none", "lzf", "gzip"),
                      help="of waveforms in hdf5 and nexus; gzip in root [none]")
    made.add_argument("--overwrite", action="store_true", help="replace an existing file")
    made.add_argument("--json", action="store_true", help="print the result as one JSON document")
    made.add_argument("--event-id", metavar="COLUMN", help="nexus: the pixel or channel")
    made.add_argument("--event-time", metavar="COLUMN", help="nexus: the time within the pulse")
    made.add_argument("--pulse-height", metavar="COLUMN", help="nexus: the amplitude")
    made.add_argument("--ids", metavar="IDS/ARRAY/FIELD",
                      help="imas: the place of the waveforms, as magnetics/flux_loop/voltage")
    made.add_argument("--signal", metavar="COLUMN", help="imas: the waveform")
    made.add_argument("--sample-seconds", type=float, metavar="S",
                      help="imas and mdsplus: the time from sample to sample")
    made.add_argument("--tcl", action="store_true",
                      help="mdsplus: print the commands that create the nodes, and write nothing")
    return made


def _names(text: str) -> list[str]:
    return [one for one in text.split(",") if one]


def _time(text: str) -> str:
    """Checks a time; the syntax is that of `fluxline export`."""
    try:
        parse_time(text)
    except Error as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return text


def _events(text: str) -> tuple[int, int]:
    first, dots, end = text.partition("..")
    try:
        found = int(first), int(end)
    except ValueError:
        dots = ""
    if not dots or found[1] <= found[0]:
        raise argparse.ArgumentTypeError(f"`{text}` is not a range; write for example 0..1000")
    return found


FILE_OPTIONS = ("tables", "columns", "sources", "events", "since", "until")
OPTIONS = {
    "hdf5": (*FILE_OPTIONS, "compression", "overwrite"),
    "nexus": (*FILE_OPTIONS, "compression", "overwrite", "event_id", "event_time", "pulse_height"),
    "npz": (*FILE_OPTIONS, "overwrite"),
    "root": (*FILE_OPTIONS, "compression", "overwrite"),
    "mdsplus": (*FILE_OPTIONS, "sample_seconds", "tcl"),
    "imas": (*FILE_OPTIONS, "overwrite", "ids", "signal", "sample_seconds"),
}
"""The arguments that each format takes."""
CONTINUED = ("hdf5", "nexus")
"""The formats whose export goes on after an interruption; the others begin anew."""
ROLES = ("event_id", "event_time", "pulse_height")


def options_of(given: argparse.Namespace) -> dict[str, Any]:
    """Returns the keywords of an export; refuses arguments that its format does not have."""
    named = {key: value for key, value in vars(given).items()
             if key not in ("run", "to", "out", "into", "json")
             and value is not None and value is not False}  # the time 0 is a value
    strange = [key for key in named if key not in OPTIONS[given.to]]
    if strange:
        raise Error(f"--{strange[0].replace('_', '-')} has no meaning for --to {given.to}.")
    roles = {key: named.pop(key) for key in ROLES if key in named}
    if roles:
        named["roles"] = module_of("nexus").Roles(**roles)
    return named


class StopSignal:
    """Stops an export between two batches after the first signal, at once after the second."""

    def __init__(self) -> None:
        self.asked = False
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._ask)

    def _ask(self, *_: object) -> None:
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True

    def __call__(self) -> bool:
        return self.asked


def progress_to(stream: Any) -> Callable[[Any], None]:
    """Returns a function that shows the progress twice a second."""
    began = last = time.monotonic()

    def show(progress: Any) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= PROGRESS_S:
            last = now
            rate = progress.payload_bytes / 1e6 / (now - began)
            stream.write(f"\r{progress.table}: {progress.rows} rows, {rate:.0f} MB/s \x1b[K")
            stream.flush()

    return show


def main(arguments: list[str] | None = None) -> int:
    """Exports a run; returns the exit status."""
    made = parser()
    given = made.parse_intermixed_args(arguments)
    if (given.out is None) == (given.into is None):
        made.error("name the file once: OUT or --into OUT")
    given.out = given.out or given.into
    try:
        options = options_of(given)
        if "stop" in _keywords(given.to):
            options["stop"] = StopSignal()
            if sys.stderr.isatty():
                options["progress"] = progress_to(sys.stderr)
        report = getattr(module_of(given.to), f"to_{given.to}")(given.run, given.out, **options)
    except Error as error:
        print(f"fluxline.export: {error}", file=sys.stderr)
        stopped = type(error).__name__ == "Stopped"
        return STATUS_FAILED if stopped else STATUS_INPUT
    except KeyboardInterrupt:
        print(f"fluxline.export: {_stopped_sentence(given)}", file=sys.stderr)
        return STATUS_FAILED
    damage = getattr(report, "damage", "")
    status = STATUS_DAMAGED if damage else 0
    if given.json:
        print(json.dumps(_document(report, status)))
    else:
        _print(report)
    if damage:
        print(f"fluxline.export: {damage}", file=sys.stderr)
    return status


def _stopped_sentence(given: argparse.Namespace) -> str:
    if given.to in CONTINUED:
        return f"stopped; {given.out} is not complete. Repeat the export."
    return f"stopped; {given.out} is not complete. Repeat the export: it begins anew."


def _keywords(name: str) -> tuple[str, ...]:
    return ("stop", "progress") if name in CONTINUED else ()


def _document(report: Any, status: int) -> dict[str, Any]:
    """Returns the result for programs."""
    if isinstance(report, str):
        return {"status": status, "sentence": None, "text": report}
    tables = [{"name": name, "rows": rows} for name, rows in report.rows.items()]
    return {"status": status, "sentence": report.damage or None, "file": str(report.path),
            "bytes": report.file_bytes, "tables": tables, "notes": report.notes}


def _print(report: Any) -> None:
    if isinstance(report, str):
        print(report)
        return
    for note in report.notes:
        print(f"note: {note}")
    for table, rows in report.rows.items():
        print(f"{rows:>12} rows  {table}")
    if report.file_bytes:
        share = report.file_bytes / max(report.payload_bytes, 1)
        rate = report.payload_bytes / 1e6 / max(report.seconds, 1e-9)
        print(f"{report.path}: {report.file_bytes / 1e6:.3g} MB, {share:.2f} of the values, "
              f"{rate:.0f} MB/s")


if __name__ == "__main__":
    sys.exit(main())

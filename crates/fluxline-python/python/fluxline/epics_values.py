"""A bridge from EPICS process variables to the slow control values of a run.

    python3 -m fluxline.epics_values ca://HV:VOLTAGE pva://GAS:FLOW --to 127.0.0.1:8094

follows variables by Channel Access (ca://) or PVAccess (pva://, or no prefix), and sends their
changes as lines of InfluxDB's line protocol. A value that stays is sent again every 10 s, so that a
run that begins later has it too. A variable whose server is away, or whose alarm severity is
INVALID, is not sent: the run's `stale-s` alarms see that. The variables EPICS_CA_ADDR_LIST and
EPICS_PVA_ADDR_LIST of the environment say where servers are, as for all clients.
"""

from __future__ import annotations

import argparse
import asyncio
import threading
from collections.abc import Callable
from typing import Any

from ._lines import EVERY_S, Reading, Sender, add_options, library, serve, stop_signal

INVALID = 3
"""The alarm severity of a value that its server does not vouch for, and the smallest such one."""
FOUND_WITHIN_S = 10.0
"""A variable that has no server for this time is named."""


def pva_reading(name: str, value: Any) -> Reading:
    """Return the reading of a variable of PVAccess."""
    raw = getattr(value, "raw", None)
    choices = _get(raw, "value.choices")
    if choices is not None:
        at = int(_get(raw, "value.index"))
        value = str(choices[at]) if 0 <= at < len(choices) else at
    second = _get(raw, "timeStamp.secondsPastEpoch") or 0
    stamp = second * 1_000_000_000 + int(_get(raw, "timeStamp.nanoseconds") or 0)
    return Reading(name, value, _get(raw, "display.units") or "", stamp)


def _get(raw: Any, path: str) -> Any:
    """Return a member of a structure, or None where it has none of that name."""
    for part in path.split("."):
        raw = getattr(raw, part, None)
    return raw


def take(sender: Sender, reading: Reading, severity: int) -> None:
    """Send a reading, unless its server says that it is invalid."""
    if severity >= INVALID:
        _away(sender, reading.name, "its alarm severity is INVALID")
    elif not sender.changed(reading):
        sender.say(f"{reading.name}: {type(reading.value).__name__} is not a finite number, a text "
                   "or a choice; it is not sent")


def _away(sender: Sender, name: str, why: str) -> None:
    sender.gone(name)
    sender.say(f"{name}: {why}; it is sent again when it is back")


def follow_pva(names: list[str], sender: Sender, context: Any) -> Callable[[], None]:
    """Follow variables of PVAccess until the returned function is called."""
    def of(name: str) -> Any:
        def changed(value: Any) -> None:
            if isinstance(value, Exception):
                _away(sender, name, type(value).__name__)
            else:
                severity = _get(getattr(value, "raw", None), "alarm.severity") or 0
                take(sender, pva_reading(name, value), severity)

        return context.monitor(name, changed, notify_disconnect=True)

    followed = [of(name) for name in names]

    def close() -> None:
        for one in followed:
            one.close()

    return close


class Channel:
    """A variable of Channel Access: values with times, and the unit, come by two subscriptions."""

    def __init__(self, aioca: Any, name: str, sender: Sender):
        self.name, self.sender = name, sender
        self._unit: str | None = None
        self._newest: Any = None
        # With `$` behind its name, EPICS gives a long string as an array of characters.
        kind = aioca.DBR_CHAR_STR if name.endswith("$") else aioca.DBR_ENUM_STR
        aioca.camonitor(name, self._take, format=aioca.FORMAT_TIME, datatype=kind,
                        notify_disconnect=True, connect_timeout=FOUND_WITHIN_S)
        aioca.camonitor(name, self._describe, format=aioca.FORMAT_CTRL, events=aioca.DBE_PROPERTY,
                        count=1)

    def _describe(self, value: Any) -> None:
        self._unit = getattr(value, "units", "")
        self._send()

    def _take(self, value: Any) -> None:
        self._newest = value if value.ok else None
        if value.ok:
            self._send()
        elif self._unit is None:
            self.sender.say(f"{self.name}: no server has it yet; it is sent when one is there")
        else:
            _away(self.sender, self.name, "its server is away")

    def _send(self) -> None:
        """Send the newest value, once the unit is known, too."""
        value = self._newest
        if value is not None and self._unit is not None:
            second, nanosecond = value.raw_stamp
            stamp = second * 1_000_000_000 + nanosecond
            take(self.sender, Reading(self.name, value, self._unit, stamp), value.severity)


def follow_ca(names: list[str], sender: Sender) -> Callable[[], None]:
    """Follow variables of Channel Access, in a thread, until the returned function is called."""
    aioca = library("aioca", "epics")
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    async def begin() -> list[Channel]:
        return [Channel(aioca, name, sender) for name in names]

    async def end() -> None:
        aioca.purge_channel_caches()

    asyncio.run_coroutine_threadsafe(begin(), loop).result()

    def close() -> None:
        asyncio.run_coroutine_threadsafe(end(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()

    return close


def variable(text: str) -> tuple[str, str]:
    """Return the protocol and the name of a variable."""
    protocol, slashes, name = text.partition("://")
    if not slashes:
        protocol, name = "pva", text
    if protocol not in ("ca", "pva") or not name:
        raise argparse.ArgumentTypeError(f"{text!r} is not ca://NAME, pva://NAME or NAME")
    return protocol, name


def main(arguments: list[str] | None = None) -> None:
    """Run the bridge until Ctrl-C or SIGTERM."""
    parser = argparse.ArgumentParser(prog="python3 -m fluxline.epics_values", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="+", type=variable, metavar="PV",
                        help="names of process variables: ca://NAME, pva://NAME or NAME (PVAccess)")
    add_options(parser, EVERY_S, "time after which values are sent again [s] (10); 0: never")
    options = parser.parse_args(arguments)
    names = {kind: [name for protocol, name in options.names if protocol == kind]
             for kind in ("ca", "pva")}
    sender, stop = Sender(options.to), stop_signal()
    closes = []
    if names["pva"]:
        context = library("p4p.client.thread", "epics").Context("pva")
        closes += [follow_pva(names["pva"], sender, context), context.close]
    if names["ca"]:
        closes.append(follow_ca(names["ca"], sender))
    serve(sender, options.every, stop)
    for close in closes:
        close()


if __name__ == "__main__":
    main()

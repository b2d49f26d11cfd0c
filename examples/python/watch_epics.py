#!/usr/bin/env python3
"""Watches a run through EPICS: prints changes of its state, its losses and its worst sources.

    fluxline run experiment.toml --serve
    python3 -m fluxline.epics runs --prefix DAQ
    python3 examples/python/watch_epics.py DAQ [SECONDS]

needs: pip install 'fluxline[epics]'
"""

import sys
import time

from p4p.client.thread import Context, Disconnected
from p4p.nt import NTTable, defaultNT

SEVERITIES = ("", "minor", "major", "INVALID")


def printer(name):
    """Returns a function that prints a value with its alarm."""

    def show(value):
        if isinstance(value, Disconnected):
            print(f"{name}: the bridge is away", flush=True)
        else:
            alarm = value.raw.alarm
            print(f"{name} = {value.raw.value} {SEVERITIES[alarm.severity]} {alarm.message}",
                  flush=True)

    return show


def main():
    prefix = sys.argv[1]
    seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 10.0
    context = Context("pva", nt={**defaultNT(), "epics:nt/NTTable:1.0": NTTable})
    watched = [context.monitor(f"{prefix}:{name}", printer(name), notify_disconnect=True)
               for name in ("STATE", "RATE:LOST")]
    time.sleep(seconds)
    rows = list(context.get(f"{prefix}:SOURCES"))
    for row in sorted(rows, key=lambda row: -row["lost"])[:3]:
        print(f"{row['label']}: {row['lost']} of {row['packets'] + row['lost']} packets lost")
    for one in watched:
        one.close()
    context.close()


if __name__ == "__main__":
    main()

"""Measures the processor time of the EPICS bridge: 1,000 counters at ten snapshots a second.

    python3 crates/fluxline-python/tests/labs/bench_epics.py [SECONDS]
"""

import os
import subprocess
import sys
import threading
import time

from p4p.client.thread import Context
from p4p.nt import NTTable, defaultNT
from state_server import NUMBERS, StateServer

SOURCES = 112
SECONDS = float(sys.argv[1]) if len(sys.argv) > 1 else 10.0


def processor_seconds(process):
    fields = open(f"/proc/{process.pid}/stat").read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(name, changing, watched):
    server = StateServer(sources=SOURCES, changing=changing)
    settings = {**os.environ, "EPICS_PVAS_BROADCAST_PORT": "15076"}
    bridge = subprocess.Popen([sys.executable, "-m", "fluxline.epics", server.url, "--prefix", "B",
                               "--port", "15075"], env=settings, stdout=subprocess.PIPE)
    bridge.stdout.readline()
    client = Context("pva", conf={"EPICS_PVA_NAME_SERVERS": "127.0.0.1:15075",
                                  "EPICS_PVA_AUTO_ADDR_LIST": "NO"}, useenv=False,
                     nt={**defaultNT(), "epics:nt/NTTable:1.0": NTTable})
    updates, count = threading.Lock(), [0]

    def seen(_):
        with updates:
            count[0] += 1

    monitors = [client.monitor(f"B:{one}", seen) for one in watched]
    time.sleep(3.0)
    before, first, began = processor_seconds(bridge), count[0], time.monotonic()
    time.sleep(SECONDS)
    span = time.monotonic() - began
    used = (processor_seconds(bridge) - before) / span
    rate = (count[0] - first) / span
    print(f"{name:<46} {100 * used:6.2f} % of a core, {rate:8.0f} updates/s", flush=True)
    for one in monitors:
        one.close()
    client.close()
    bridge.terminate()
    bridge.wait()
    server.stop()


def main():
    single = [f"SOURCE:{number}:{one.upper()}" for number in range(SOURCES) for one in NUMBERS]
    measure("no client", 1.0, [])
    measure("table of 1,008 counters, all change", 1.0, ["SOURCES"])
    measure("1,008 variables, 5 % change", 0.05, single)
    measure("1,008 variables, all change", 1.0, single)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Other programs beside Fluxline: the same quantities on the same two cores, in turns.

    tools/peers/peers.py --list                    # what is installed, and what brings the others
    tools/peers/peers.py                           # all of them and ours, 5 rounds
    tools/peers/peers.py --only ucx,iperf3 --rounds 7 --json

Each row of CONTENDERS measures one quantity by running installed programs; `fluxline` is found on
the path or named by --fluxline. A round measures every row once, so that a disturbance of the
machine affects one sample of many rows. The table has medians, the spread (half the interquartile
range), and the ratio to the first row of Fluxline. From four rounds on, two rows whose samples do
not overlap differ; with fewer rounds nothing can be said.
"""

import argparse
import json
import os
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
TRIP, STREAM, FLOOD = "half round trip, us", "stream, Gb/s", "datagrams that arrive, Gb/s"
SIZES = {TRIP: [64, 1024], STREAM: [64 << 10], FLOOD: [1472, 8972]}
QUICK_SIZES = {TRIP: [64], STREAM: [64 << 10], FLOOD: [1472]}
# A receive buffer that any program of this host is given when it asks.
BUFFER_BYTES = 212992


class Failed(Exception):
    """A peer has no number in this round."""


class Run:
    """The choices of one call."""

    def __init__(self, arguments):
        self.near, self.far = arguments.cores
        self.fluxline, self.quick = arguments.fluxline, arguments.quick
        self.limit = 60 if arguments.quick else 600
        self.scratch = tempfile.mkdtemp(prefix="fluxline-peers-")
        self.built = {}

    def count(self, size):
        if self.quick:
            return 200 if size <= 64 << 10 else 50
        return 10000 if size <= 64 << 10 else 1000

    def output(self, core, words, **more):
        """Runs a program to its end on a core, and returns what it printed."""
        pinned = words if core is None else ["taskset", "-c", str(core), *words]
        try:
            done = subprocess.run(pinned, capture_output=True, text=True, timeout=self.limit,
                                  stdin=subprocess.DEVNULL, **more)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise Failed(f"{words[0]}: {error}") from error
        if done.returncode != 0:
            last = (done.stderr + done.stdout).strip().splitlines() or ["it printed nothing"]
            raise Failed(f"{words[0]}: {last[-1]}")
        return done.stdout

    def pair(self, server, client, port, udp=False, **more):
        """Starts a server, waits until it listens, runs the client; returns what both printed."""
        there = subprocess.Popen(["taskset", "-c", str(self.far), *server], text=True,
                                 stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                 stderr=subprocess.STDOUT, **more)
        try:
            until = time.monotonic() + self.limit
            while not listens(port, udp):
                if there.poll() is not None or time.monotonic() > until:
                    raise Failed(f"{server[0]}: it does not listen")
                time.sleep(0.01)
            here = self.output(self.near, client, **more)
            there.send_signal(signal.SIGINT)
            return here, there.communicate(timeout=self.limit)[0]
        except subprocess.TimeoutExpired as error:
            raise Failed(f"{server[0]}: it does not end") from error
        finally:
            there.kill()
            there.wait()

    def build(self, name, words):
        """Builds a program of this folder once; a failure is not tried again."""
        if name not in self.built:
            try:
                self.output(None, words)
                self.built[name] = None
            except Failed as error:
                self.built[name] = error
        if self.built[name]:
            raise self.built[name]


def listens(port, udp):
    rows = []
    for name in ("udp", "udp6") if udp else ("tcp", "tcp6"):
        with open(f"/proc/net/{name}", encoding="ascii") as table:
            rows += [line.split() for line in table.readlines()[1:]]
    state = "07" if udp else "0A"
    return any(row[1].endswith(f":{port:04X}") and row[3] == state for row in rows)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def gigabits(messages_per_second, size):
    return messages_per_second * size * 8e-9


def last_number(pattern, text):
    """The number of a pattern's last match. Whatever else a program printed is no number."""
    found = re.findall(pattern, text)
    if not found or float(found[-1]) <= 0.0:
        raise Failed("it printed no number: " + (text.strip().splitlines() or ["nothing"])[-1])
    return float(found[-1])


def ours(link, experiment, label, unit):
    def measure(run, quantity, size):
        words = [run.fluxline, "bench", link, "--only", experiment, "--sizes", f"{size}..{size}",
                 "--cores", f"{run.near},{run.far}", "--rounds", "1", "--json"]
        report = json.loads(run.output(None, words + (["--quick"] if run.quick else [])))
        for series in report["experiments"][0]["series"]:
            if series["label"] == label and series["y_unit"] == unit:
                for point in series["points"]:
                    if point["x"] == size:
                        value = statistics.median(point["samples"])
                        return gigabits(1e6 / value, size) if quantity == STREAM else value
        raise Failed(f"no series {label} at {size} B")
    return measure


def iperf3(run, quantity, size):
    port = free_port()
    client = ["iperf3", "-c", "127.0.0.1", "-p", str(port), "-l", str(size), "-t", "1", "-J"]
    if quantity == FLOOD:
        client += ["-u", "-b", "0", "-w", str(BUFFER_BYTES)]
    here, _ = run.pair(["iperf3", "-s", "-1", "-p", str(port)], client, port)
    end = json.loads(here).get("end", {}).get("sum_received", {})
    if not end.get("bytes"):
        raise Failed("iperf3: its document has no received bytes")
    return end["bytes"] * 8e-9 / end["seconds"]


def sockperf(run, quantity, size):
    port, udp = free_port(), quantity == FLOOD or run.path == "udp"
    way = ["-i", "127.0.0.1", "-p", str(port)] + ([] if udp else ["--tcp"])
    what = ["pp"] if quantity == TRIP else ["tp", "--dontwarmup", "--mps=max"]
    client = ["sockperf", *what, *way, "-t", "1", "-m", str(size)]
    here, there = run.pair(["sockperf", "sr", *way], client, port, udp)
    if quantity == TRIP:
        return last_number(r"percentile 50\.000 =\s*([\d.]+)", here)
    seconds = last_number(r"messages sent in ([\d.]+)", here)
    return gigabits(last_number(r"Total (\d+) messages received", there) / seconds, size)


def netpipe(run, quantity, size):
    port, program = free_port(), shutil.which("NPtcp") or "NPtcp.netpipe"
    way = [program, "-l", str(size), "-u", str(size), "-p", "0", "-n", str(run.count(size)),
           "-P", str(port), "-o", "/dev/null"] + (["-s"] if quantity == STREAM else [])
    # It prints on standard error; a shell joins the two.
    client = ["sh", "-c", 'exec "$@" 2>&1', "-", *way, "-h", "127.0.0.1"]
    here, _ = run.pair(way, client, port)
    us = last_number(rf"\b{size} bytes +\d+ times --> +[\d.]+ Mbps in +([\d.]+) usec", here)
    return gigabits(1e6 / us, size) if quantity == STREAM else us


def ucx(transports, tests):
    def measure(run, quantity, size):
        port, count = free_port(), run.count(size)
        server = ["ucx_perftest", "-p", str(port)]
        client = [*server, "127.0.0.1", "-t", tests[quantity == STREAM], "-f", "-v", "-s",
                  str(size), "-n", str(count), "-w", str(count // 10)]
        here, _ = run.pair(server, client, port, env={**os.environ, "UCX_TLS": transports})
        # Iterations, median, mean and overall time, two bandwidths, two rates.
        column = 7 if quantity == STREAM else 1
        last = (here.strip().splitlines() or [""])[-1]
        fields = last.split(",")
        if len(fields) != 8:
            raise Failed(f"it printed no line of 8 numbers: {last}")
        value = float(fields[column])
        return gigabits(value, size) if quantity == STREAM else value
    return measure


def libfabric(provider, endpoint, message):
    def measure(run, _quantity, size):
        port = str(free_port())
        way = ["fi_pingpong", "-p", provider, "-e", endpoint, "-m", message]
        more = ["-I", str(run.count(size)), "-S", str(size)]
        client = [*way, "-P", port, *more, "127.0.0.1"]
        here, _ = run.pair([*way, "-B", port, *more], client, int(port))
        # The last two columns: us a transfer, millions a second.
        return last_number(r"([\d.]+)\s+[\d.]+\s*$", here)
    return measure


def built(name):
    """A program of this folder: `trip|rate BYTES COUNT CORE CORE` prints ns or messages/s."""
    def measure(run, quantity, size):
        program = os.path.join(run.scratch, name)
        more = ["trip" if quantity == TRIP else "rate", str(size), str(run.count(size))]
        cores = [str(run.near), str(run.far)]
        if name == "iceoryx2":
            target = os.path.join(HERE, "../../target/peers")
            run.build(name, ["cargo", "build", "--release", "--quiet", "--target-dir", target,
                             "--manifest-path", f"{HERE}/iceoryx2/Cargo.toml"])
            out = run.output(run.near, [f"{target}/release/peer-iceoryx2", *more, cores[1]])
        elif name == "mpi":
            run.build(name, ["mpicc", "-O2", "-o", program, f"{HERE}/mpi.c"])
            start = ["mpirun", "--allow-run-as-root", "--bind-to", "none", "--oversubscribe",
                     "--mca", "pml", "ob1", "--mca", "btl", "self,vader", "-np", "2"]
            out = run.output(None, [*start, program, *more, *cores])
        else:
            run.build(name, ["cc", "-O2", "-o", program, f"{HERE}/{name}.c", "-lzmq"])
            out = run.output(None, [program, *more, *cores, f"{run.scratch}/socket"])
        value = last_number(r"^([\d.]+)", out)
        return value / 1e3 if quantity == TRIP else gigabits(value, size)
    return measure


UCX_TAG, UCX_PUT = ["tag_lat", "tag_bw"], ["ucp_put_lat", "ucp_put_bw"]
BEST = "mean of the best trial"
# Peer, row, program that must be there, package, path, quantities, measurement, difference in the
# work. The first row of a path and quantity is the one that the others are compared with.
CONTENDERS = [
    ("fluxline", "fluxline put", None, "", "shm", [TRIP], ours("shm://", "pingpong", "p50", "us"),
     "p50; put in place, with a notification"),
    ("fluxline", "fluxline put", None, "", "shm", [STREAM], ours("shm://", "stream", BEST, "us"),
     "put in place, with a notification"),
    ("fluxline", "fluxline put", None, "", "udp", [TRIP],
     ours("udp://127.0.0.1", "pingpong", "p50", "us"), "p50; RoCEv2: acknowledged and repeated"),
    ("fluxline", "fluxline datagrams", None, "", "udp", [FLOOD],
     ours("udp://127.0.0.1", "datagrams", "single to napping", "Gb/s"), "single datagrams"),
    ("fluxline", "plain TCP", None, "", "tcp", [TRIP],
     ours("tcp://127.0.0.1", "pingpong", "p50", "us"), "p50; no link of Fluxline's"),
    ("fluxline", "plain TCP", None, "", "tcp", [STREAM],
     ours("tcp://127.0.0.1", "stream", BEST, "us"), "no link of Fluxline's"),
    ("iperf3", "iperf3", "iperf3", "iperf3", "udp", [FLOOD], iperf3, "a system call a datagram"),
    ("iperf3", "iperf3", "iperf3", "iperf3", "tcp", [STREAM], iperf3, "no wait for messages"),
    ("sockperf", "sockperf", "sockperf", "sockperf", "udp", [TRIP, FLOOD], sockperf,
     "p50; nothing is acknowledged"),
    ("sockperf", "sockperf", "sockperf", "sockperf", "tcp", [TRIP], sockperf, "p50"),
    ("netpipe", "NPtcp", "NPtcp", "netpipe-tcp", "tcp", [TRIP, STREAM], netpipe, "its best mean"),
    ("ucx", "UCX tag, posix", "ucx_perftest", "ucx-utils", "shm", [TRIP, STREAM],
     ucx("posix,self", UCX_TAG), "p50; copied into the receiver's buffer"),
    ("ucx", "UCX put, posix", "ucx_perftest", "ucx-utils", "shm", [TRIP, STREAM],
     ucx("posix,self", UCX_PUT), "no notification: not equal work"),
    ("ucx", "UCX tag, tcp", "ucx_perftest", "ucx-utils", "tcp", [TRIP, STREAM],
     ucx("tcp,self", UCX_TAG), "p50; messages with tags"),
    ("libfabric", "libfabric shm", "fi_pingpong", "libfabric-bin", "shm", [TRIP],
     libfabric("shm", "rdm", "tagged"), "mean; copied"),
    ("libfabric", "libfabric udp", "fi_pingpong", "libfabric-bin", "udp", [TRIP],
     libfabric("udp", "dgram", "msg"), "mean; nothing is acknowledged"),
    ("libfabric", "libfabric tcp", "fi_pingpong", "libfabric-bin", "tcp", [TRIP],
     libfabric("tcp", "msg", "msg"), "mean"),
    ("openmpi", "OpenMPI", "mpicc", "libopenmpi-dev", "shm", [TRIP, STREAM], built("mpi"),
     "p50; copied"),
    ("zeromq", "ZeroMQ ipc", "cc", "gcc libzmq3-dev", "shm", [TRIP, STREAM], built("zeromq"),
     "p50; through a socket, sleeping"),
    ("iceoryx2", "iceoryx2", "cargo", "cargo", "shm", [TRIP, STREAM], built("iceoryx2"),
     "p50; read in place"),
]


def is_here(program):
    return program is None or any(map(shutil.which, [program, f"{program}.netpipe"]))


def rows_of(arguments):
    """The rows to measure: [contender, quantity, size, samples, why there is none]."""
    sizes = QUICK_SIZES if arguments.quick else SIZES
    rows = [[one, quantity, size, [], ""]
            for quantity in sizes for size in sizes[quantity] for one in CONTENDERS
            if quantity in one[5] and is_here(one[2])
            and (one[0] == "fluxline" or not arguments.only or one[0] in arguments.only)]
    cells = {cell_of(row) for row in rows if row[0][0] != "fluxline"}
    return [row for row in rows if cell_of(row) in cells]


def cell_of(row):
    return row[0][4], row[1], row[2]


def measure(arguments, rows):
    run = Run(arguments)
    try:
        for number in range(arguments.rounds):
            for row in rows:
                contender, quantity, size, samples, _ = row
                print(f"round {number + 1}: {contender[1]}, {size} B", file=sys.stderr)
                run.path = contender[4]
                try:
                    samples.append(contender[6](run, quantity, size))
                except (Failed, ValueError, KeyError, TypeError) as error:
                    row[4] = str(error)
    finally:
        shutil.rmtree(run.scratch)


def results(rows):
    first = {}
    for row in rows:
        (_, name, _, _, path, _, _, note), quantity, size, samples, why = row
        median = statistics.median(samples) if samples else None
        reference = first.setdefault(cell_of(row), samples)
        of_first = statistics.median(reference) if reference else None
        apart = min(len(samples), len(reference)) >= 4 and (
            max(samples) < min(reference) or min(samples) > max(reference))
        spread = None
        if len(samples) > 1:
            low, _, high = statistics.quantiles(samples, n=4, method="inclusive")
            spread = (high - low) / 2
        yield {"quantity": quantity, "path": path, "bytes": size, "program": name,
               "median": median, "spread": spread, "samples": samples,
               "ratio": median / of_first if median and of_first else None,
               "differs": apart, "note": note, "failed": why}


def table(found):
    def shown(value):
        return "-" if value is None else f"{value:.3g}"
    print("| quantity | path | bytes | program | median | spread | ratio | differs | note |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for row in found:
        words = [row["quantity"], row["path"], row["bytes"], row["program"], shown(row["median"]),
                 shown(row["spread"]), shown(row["ratio"]), "yes" if row["differs"] else "",
                 f"{row['note']} {row['failed']}".strip()]
        print("| " + " | ".join(map(str, words)) + " |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--list", action="store_true", help="list the peers and their packages")
    parser.add_argument("--only", type=lambda text: text.split(","), help="these peers and ours")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--cores", type=lambda text: [int(one) for one in text.split(",")],
                        help="the core that measures, and the other's; the first two by default")
    parser.add_argument("--quick", action="store_true", help="fewer sizes and repetitions")
    parser.add_argument("--fluxline", default="fluxline", help="the program to measure")
    parser.add_argument("--json", action="store_true", help="all samples as JSON")
    arguments = parser.parse_args()
    peers = {one[0]: one for one in CONTENDERS if one[0] != "fluxline"}
    if arguments.list:
        for name, one in peers.items():
            print(f"{name:<10} {'installed' if is_here(one[2]) else 'apt-get install ' + one[3]}")
        return
    unknown = [name for name in arguments.only or [] if name not in peers]
    if unknown:
        parser.error(f"unknown peer {unknown[0]}; known are {', '.join(peers)}")
    arguments.cores = arguments.cores or sorted(os.sched_getaffinity(0))[:2]
    if len(arguments.cores) != 2:
        parser.error("two cores are needed (--cores NEAR,FAR)")
    rows = rows_of(arguments)
    if not rows:
        sys.exit("no peer that is installed measures this; see --list")
    measure(arguments, rows)
    found = list(results(rows))
    if arguments.json:
        print(json.dumps({"cores": arguments.cores, "rounds": arguments.rounds, "rows": found}))
    else:
        table(found)
    if not any(row["samples"] for row in found):
        sys.exit("nothing was measured")


if __name__ == "__main__":
    main()

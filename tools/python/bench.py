#!/usr/bin/env python3
"""Measures the Python package beside the Rust rate, and prints rows of docs/python.md.

    tools/python/bench.sh            builds the release wheel and the Rust example, then runs this

A number is the median of `--rounds` rounds, Rust and Python in turns.
"""

import argparse
import pathlib
import statistics
import subprocess
import sys
import threading
import time

import numpy as np

import fluxline as fl


def timed(call):
    """Return the seconds of a call."""
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def row(name, value, unit, note=""):
    print(f"| {name} | {value:.3g} {unit} | {note} |", flush=True)


def run_rates(example, folder, rounds):
    """Compare reading all batches of a run in Rust and in Python."""
    payload = sum(file.stat().st_size for file in folder.glob("events-*.arrows"))
    opening = statistics.median(timed(lambda: fl.Run(folder)) for _ in range(rounds * 3))
    row("open a run", opening * 1e3, "ms", f"{payload / 1e9:.2f} GB of events")
    run = fl.Run(folder)
    decoded = [name for name in run.tables if name not in ("events", "packets")]
    table = min(decoded, key=len)
    for name, column in (("events", "key"), (table, run.table(table).columns[-1])):
        rust, python = [], []
        for _ in range(rounds):
            done = subprocess.run(
                [example, folder, name], check=True, capture_output=True, text=True
            )
            rust.append(float(done.stdout.split()[0]))

            def read(name=name, column=column):
                batches = run.table(name)
                for batch in batches:
                    fl.tables.batch_numpy(batch, column)

            python.append(timed(read))
        speed, ours = payload / statistics.median(rust), payload / statistics.median(python)
        ratio = statistics.median(r / p for r, p in zip(rust, python, strict=True))
        note = f"Rust: {speed / 1e6:.0f} MB/s; ratio {ratio:.2f}"
        row(f"batches of `{name}` as arrays", ours / 1e6, "MB/s", note)


def ring_rates(rounds):
    """Measure push rings between two threads and calls of a link."""
    with fl.open("shm://py-bench/owner") as owner, fl.open("shm://py-bench/writer") as writer:
        receiver = owner.receiver("records", 1, slots=8192, slot_bytes=1024, batch=4096)
        opening = writer.begin_sender("owner", "records", 1)
        while not opening.step():
            owner.wait(0.001)
        sender = opening.result()
        rows = np.zeros((20_000, 1024), np.uint8)

        def cross():
            thread = threading.Thread(target=lambda: sender.push_rows(rows, timeout=60))
            thread.start()
            got = 0
            while got < len(rows):
                got += len(receiver.read(timeout=60))
            thread.join()

        seconds = statistics.median(timed(cross) for _ in range(rounds))
        row("records of 1 KiB through a push ring", len(rows) / seconds / 1e6, "M/s",
            f"{rows.nbytes / seconds / 1e6:.0f} MB/s, both ends in one process")
        region = owner.register(1 << 20)
        region.export("samples", 1, get=True, atomic=True)
        task = writer.begin_connect("owner")
        while not task.step():
            owner.wait(0.001)
        task = task.result().begin_import_region("samples", 1)
        while not task.step():
            owner.wait(0.001)
        remote = task.result()
        for size in (8, 4096, 1 << 20):
            data = np.zeros(size, np.uint8)
            count = 20_000 if size < 1 << 20 else 200

            def puts(data=data, count=count):
                for _ in range(count):
                    remote.put(data)

            seconds = statistics.median(timed(puts) for _ in range(rounds)) / count
            row(f"put of {size} bytes", seconds * 1e6, "us", f"{size / seconds / 1e6:.0f} MB/s")
        array = region.array
        seconds = statistics.median(timed(lambda: [array() for _ in range(10_000)])
                                    for _ in range(rounds)) / 10_000
        row("a region as an array", seconds * 1e6, "us", "without a copy, any size")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--example", type=pathlib.Path, help="the Rust example read_batches")
    parser.add_argument("--run", type=pathlib.Path, help="a run folder")
    parser.add_argument("--rounds", type=int, default=5)
    asked = parser.parse_args()
    print(f"fluxline {fl.__version__}, Python {sys.version.split()[0]}, NumPy {np.__version__}")
    print("| what | measured | beside it |\n| --- | --- | --- |")
    if asked.run:
        run_rates(asked.example, asked.run, asked.rounds)
    ring_rates(asked.rounds)


if __name__ == "__main__":
    main()

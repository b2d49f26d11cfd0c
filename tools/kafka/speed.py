#!/usr/bin/env python3
"""Measures the sink, the log of distributed building and its latency, beside Kafka's own tools.

    tools/kafka/speed.py                       everything, 5 rounds
    tools/kafka/speed.py --only sink           the sink beside kafka-producer-perf-test
    tools/kafka/speed.py --only log            the log beside both perf tests
    tools/kafka/speed.py --only latency        from a packet to its committed event

One broker on this machine serves all of them, in turns. The broker competes with the client for
processors, so each row also has the client's processor time for each GB; for Kafka's tools, the
time of a run with one record is subtracted.
"""

import argparse
import os
import pathlib
import re
import resource
import statistics
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BROKER = ROOT / "tools/kafka/broker.sh"
RECORD_BYTES = 65536
# Kafka's own scripts start its programs with this collector.
JAVA = "-Xmx1g -XX:+UseG1GC"
EXAMPLES = ROOT / "target/release/examples"


def run(*arguments):
    """Runs a program; returns its output, and its processor time [s] with its children's."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([str(it) for it in arguments], capture_output=True, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise SystemExit(f"{arguments[0]} failed: {done.stderr[-2000:]}{done.stdout[-2000:]}")
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return done.stdout, cpu


class Broker:
    """A broker of our own, and its tools."""

    def __init__(self, folder):
        self.folder = folder / "broker"
        self.address = run(BROKER, "start", self.folder)[0].strip()
        self.payloads = folder / "payloads"
        letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
        line = letters * (RECORD_BYTES // len(letters) + 2)
        self.payloads.write_text("\n".join(line[at : at + RECORD_BYTES] for at in range(16)))

    def stop(self):
        run(BROKER, "stop", self.folder)

    def cpu(self):
        """Returns the processor time of the broker [s]."""
        pid = (self.folder / "pid").read_text().strip()
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / 100

    def tool(self, *arguments):
        return run(BROKER, "tool", *arguments)

    def create(self, topic, partitions=1):
        # Only the newest data stays, so that the disk does not fill.
        self.tool("topics", "--bootstrap-server", self.address, "--create", "--topic", topic,
                  "--partitions", partitions, "--config", "retention.bytes=3000000000",
                  "--config", "segment.bytes=250000000")

    def produce(self, topic, records):
        """Runs Kafka's producer test with payloads that are ready; returns MB/s and CPU time."""
        said, cpu = self.tool(
            "producer-perf-test", "--topic", topic, "--payload-file", self.payloads,
            "--num-records", records, "--throughput", "-1", "--producer-props",
            f"bootstrap.servers={self.address}", "acks=all", "batch.size=1000000", "linger.ms=5",
            "buffer.memory=67108864")
        rates = re.findall(r"([\d.]+) records/sec", said)
        return float(rates[-1]) * RECORD_BYTES / 1e6, cpu

    def consume(self, topic, records):
        said, cpu = self.tool(
            "consumer-perf-test", "--bootstrap-server", self.address, "--topic", topic,
            "--messages", records, "--timeout", "20000", "--fetch-size", "1048576")
        fields = [it.strip() for it in said.strip().splitlines()[-1].split(",")]
        # The rate without the time to join the group.
        return float(fields[8]) * 1.048576, cpu


class Table:
    """Rates and costs by row, and medians of them."""

    def __init__(self):
        self.rows = {}

    def add(self, name, rate, client, broker):
        self.rows.setdefault(name, []).append((rate, client, broker))
        print(f"{name:36} {rate:7.0f} MB/s  client {client:5.2f}  broker {broker:5.2f} CPU-s/GB",
              flush=True)

    def print(self):
        print("\nmedians (lowest to highest):")
        first = None
        for name, values in self.rows.items():
            rates, clients, brokers = zip(*values)
            rate, client = statistics.median(rates), statistics.median(clients)
            first = first or (rate, client)
            print(f"{name:36} {rate:7.0f} MB/s ({min(rates):.0f} to {max(rates):.0f}), "
                  f"{rate / first[0]:.2f} of the first; client {client:.2f}, broker "
                  f"{statistics.median(brokers):.2f} CPU-s/GB, MB per client CPU-s "
                  f"{1000 / client:.0f} ({first[1] / client:.2f})")


def example(name, *arguments):
    said, _ = run(EXAMPLES / name, *arguments)
    rate, cost = re.search(r"([\d.]+) MB/s, ([\d.]+) CPU-s/GB", said).groups()
    return float(rate), float(cost)


def measured(broker, megabytes, work):
    before = broker.cpu()
    rate, client = work()
    return rate, client, (broker.cpu() - before) / megabytes * 1000


def per_gb(broker, work, records, start):
    rate, cpu = work(records)
    return rate, max(cpu - start, 0) / (records * RECORD_BYTES) * 1e9


def sink(broker, megabytes, rounds):
    records = megabytes * 1_000_000 // RECORD_BYTES
    for topic in ["speed.theirs", "speed.ours"]:
        broker.create(topic)
    theirs = lambda count: broker.produce("speed.theirs", count)  # noqa: E731
    start = theirs(1)[1]
    table = Table()
    for _ in range(rounds):
        table.add("kafka-producer-perf-test", *measured(
            broker, megabytes, lambda: per_gb(broker, theirs, records, start)))
        for packet in [1000, 8000]:
            table.add(f"sink, packets of {packet} B", *measured(broker, megabytes, lambda: example(
                "sink_speed", broker.address, "speed.ours", megabytes, packet, RECORD_BYTES)))
    table.print()


def log(broker, megabytes, rounds):
    records = megabytes * 1_000_000 // RECORD_BYTES
    produce, consume, table = Table(), Table(), None
    for turn in range(rounds):
        name = f"speed{turn}"
        for part in ("theirs", "fragments", "commits", "checkpoints"):
            broker.create(f"{name}.{part}")
        write = lambda count: broker.produce(f"{name}.theirs", count)  # noqa: E731
        read = lambda count: broker.consume(f"{name}.theirs", count)  # noqa: E731
        start = write(1)[1]
        produce.add("kafka-producer-perf-test", *measured(
            broker, megabytes, lambda: per_gb(broker, write, records, start)))
        produce.add("readout node's log", *measured(broker, megabytes, lambda: example(
            "log_speed", "write", broker.address, name, megabytes, RECORD_BYTES)))
        start = read(1)[1]
        consume.add("kafka-consumer-perf-test", *measured(
            broker, megabytes, lambda: per_gb(broker, read, records, start)))
        consume.add("builder's log", *measured(broker, megabytes, lambda: example(
            "log_speed", "read", broker.address, name, megabytes, RECORD_BYTES)))
        for topic in [f"{name}.theirs", f"{name}.fragments"]:
            broker.tool("topics", "--bootstrap-server", broker.address, "--delete",
                        "--topic", topic)
    for table in [produce, consume]:
        table.print()


def latency(broker, seconds):
    settings = [("default", 20_000, 5, 500_000), ("fast", 1_000, 0, 1_000)]
    for topic in ["latency.fragments", "latency.commits", "latency.checkpoints"]:
        broker.create(topic, 2)
    for name, record_age, linger, batch_age in settings:
        for rate in [100, 1000]:
            print(f"{name}: {rate} events/s of 4 packets of 1 KB; record-age {record_age} us, "
                  f"linger {linger} ms, batch-age {batch_age} us")
            print(run(EXAMPLES / "building_latency", broker.address, "latency", record_age, linger,
                      batch_age, rate, seconds)[0], flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=["sink", "log", "latency"])
    parser.add_argument("--megabytes", type=int, default=2000, help="for each turn")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=10, help="for each row of the latency")
    parser.add_argument("--no-build", action="store_true")
    options = parser.parse_args()
    if not options.no_build:
        subprocess.run(["cargo", "build", "--release", "--locked", "-q", "-p", "fluxline-kafka",
                        "--features", "client", "--examples"], cwd=ROOT, check=True)
    os.environ["FLUXLINE_KAFKA_JAVA"] = JAVA
    with tempfile.TemporaryDirectory() as folder:
        broker = Broker(pathlib.Path(folder))
        try:
            if options.only in (None, "sink"):
                sink(broker, options.megabytes, options.rounds)
            if options.only in (None, "log"):
                log(broker, options.megabytes, options.rounds)
            if options.only in (None, "latency"):
                latency(broker, options.seconds)
        finally:
            broker.stop()


if __name__ == "__main__":
    main()

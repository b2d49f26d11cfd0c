#!/usr/bin/env python3
"""Predicts what this machine can take, then measures it: how far a plan can be trusted.

    sudo tools/validate_plan.py [--rounds N] [--seconds S] [--bin target/release] [--out FOLDER]

1. One sender to one receiver, between two network namespaces joined by a veth pair: the highest
   rate without loss, the CPU time of a packet at both ends, the latency at half of that rate. And
   one readout with one builder: their highest rate and CPU time of a packet.
2. `fluxline plan` predicts 1, 2 and 4 senders from these, with the bounds of link and core; the two
   cores of the machine, which all nodes share, are one more bound. Written to prediction.json.
3. The same is measured, in interleaved rounds, and compared: predicted, measured, error.

Needs root and iproute2. Takes about 2 minutes; at most one other busy program makes the numbers
useless. The namespaces are its own, and are taken away again, at Ctrl-C too.
"""
import argparse
import csv
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAYLOAD = 1440  # with the 32 bytes of its header: 1472, the largest datagram of MTU 1500
PACKET = PAYLOAD + 32
PORT = 16006
RECEIVER = "10.95.0.2"
VETH_RATE = 10e9 / 8 / PACKET  # what the kernel states for a veth pair: 10 Gb/s
BUSY = 0.9  # share of a core from which on it was the limit
STEPS = 5
SENDERS = (1, 2, 4)


class Lab:
    """Two namespaces, and the processes in them."""

    def __init__(self, programs, folder):
        self.near, self.far = f"flxplan{os.getpid()}a", f"flxplan{os.getpid()}b"
        self.programs, self.folder, self.runs = programs, folder, 0
        self.processes = []

    def __enter__(self):
        for name in (self.near, self.far):
            ip("netns", "add", name)
        ip("link", "add", "plA", "netns", self.near, "type", "veth",
           "peer", "name", "plB", "netns", self.far)
        for name, end, number in ((self.near, "plA", 1), (self.far, "plB", 2)):
            ip("-n", name, "link", "set", end, "mtu", "1500", "txqueuelen", "10000", "up")
            ip("-n", name, "link", "set", "lo", "up")
            ip("-n", name, "addr", "add", f"10.95.0.{number}/24", "dev", end)
        return self

    def __exit__(self, *_):
        for process in self.processes:
            if process.poll() is None:
                process.kill()
                process.wait()
        for name in (self.near, self.far):
            subprocess.run(["ip", "netns", "del", name], check=False, stderr=subprocess.DEVNULL)

    def start(self, namespace, program, *arguments):
        command = ["ip", "netns", "exec", namespace, str(self.programs / program), *arguments]
        self.runs += 1
        out = open(self.folder / f"{self.runs}.out", "w+")
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT)
        process.out = out
        self.processes.append(process)
        return process

    def end(self, process, seconds=60):
        """Waits for a process; returns its output and its CPU time [s]."""
        limit = time.monotonic() + seconds
        while True:
            pid, status, usage = os.wait4(process.pid, os.WNOHANG)
            if pid:
                break
            if time.monotonic() > limit:
                process.kill()
                limit = float("inf")
            time.sleep(0.01)
        process.returncode = os.waitstatus_to_exitcode(status)
        self.processes.remove(process)
        process.out.seek(0)
        text = process.out.read()
        process.out.close()
        return text, usage.ru_utime + usage.ru_stime


def ip(*arguments):
    subprocess.run(["ip", *arguments], check=True)


def document(text):
    """Returns the JSON document in the output of a program."""
    start = text.find("{\n")
    if start < 0:
        sys.exit(f"validate_plan: a program gave no document: {text[-400:]}")
    return json.JSONDecoder().raw_decode(text[start:])[0]


def write(folder, name, text):
    path = folder / name
    path.write_text(text)
    return str(path)


def formats(folder):
    """Writes a packet description for each sender: their boards have numbers of their own."""
    counter = (ROOT / "formats/counter.toml").read_text()
    own = 'fields = { source_id = "source" }'
    assert own in counter, "formats/counter.toml has changed"
    return [
        write(folder, f"board-{number}.toml",
              counter.replace(own, f'fields = {{ source_id = "source + {number}" }}'))
        for number in range(max(SENDERS))
    ]


def trial(lab, senders, rate, seconds, run=None):
    """Sends at `rate` from each sender; returns packets sent and received, and CPU times [s]."""
    file = write(lab.folder, "receiver.toml", f"""name = "receiver"
[[source]]
name = "boards"
format = "counter"
[source.udp]
listen = ["{RECEIVER}:{PORT}"]
[events]
build = "packet"
""")
    recording = ["--folder", str(run)] if run else ["--no-record"]
    receiver = lab.start(lab.far, "fluxline", "run", file, "--json", *recording)
    listens(lab, receiver)
    began = time.monotonic()
    packets = str(max(int(rate * seconds), 1)) if rate else "0"
    boards = [
        lab.start(lab.near, "fluxline", "emulate", form, "--to", f"udp://{RECEIVER}:{PORT}",
                  "--rate", str(rate), "--packets", packets, "--seconds", str(seconds),
                  "--payload-bytes", str(PAYLOAD), "--json")
        for form in lab.formats[:senders]
    ]
    ends = [lab.end(board) for board in boards]
    took = time.monotonic() - began
    time.sleep(0.2)
    receiver.send_signal(signal.SIGINT)
    text, receiver_cpu = lab.end(receiver)
    received = document(text)["totals"]["datagrams"]
    sent = sum(document(end[0])["sent"] for end in ends)
    wanted = senders * rate * seconds
    return {
        "sent": sent, "received": received, "took": took,
        "kept": not rate or sent >= 0.99 * wanted,
        "sender_cpu": sum(end[1] for end in ends), "receiver_cpu": receiver_cpu,
    }


def listens(lab, process):
    """Waits until the receiver's port is open."""
    for _ in range(600):
        sockets = subprocess.run(["ip", "netns", "exec", lab.far, "ss", "-lun"],
                                 capture_output=True, text=True, check=True).stdout
        if f":{PORT}" in sockets:
            return
        if process.poll() is not None:
            sys.exit("validate_plan: the receiver ended before it listened")
        time.sleep(0.05)
    sys.exit("validate_plan: the receiver does not listen after 30 s")


def loss_free(lab, senders, seconds):
    """Searches the highest rate of all senders without a loss; a loss counts if it comes twice."""
    unpaced = trial(lab, senders, 0, seconds)
    high, low, best = unpaced["sent"] / seconds, 0.0, None
    for _ in range(STEPS):
        rate = (low + high) / 2
        for _ in range(2):
            found = trial(lab, senders, int(rate / senders), seconds)
            good = found["kept"] and found["received"] == found["sent"]
            if good:
                break
        if good:
            low, best = rate, found
        else:
            high = rate
    return low, best


def latency(lab, senders, rate, seconds):
    """Returns p50 and p99 of the time from the board's clock to the receiver's [us]."""
    with tempfile.TemporaryDirectory(dir=lab.folder) as at:
        run = Path(at) / "run"
        trial(lab, senders, max(int(rate / senders), 1), seconds, run)
        export = [str(lab.programs / "fluxline"), "export", str(run), "--to", "csv", "-o",
                  str(Path(at) / "csv"), "--columns", "time,sensor_time_ns"]
        subprocess.run(export, check=True, capture_output=True)
        with open(Path(at) / "csv" / "packets.csv", newline="") as file:
            rows = [(row["time"], int(row["sensor_time_ns"])) for row in csv.DictReader(file)]
    delays = sorted((nanoseconds(arrived) - sampled) / 1e3 for arrived, sampled in rows)
    return {f"p{of}": delays[min(int(len(delays) * of / 100), len(delays) - 1)] for of in (50, 99)}


def nanoseconds(text):
    """Reads 2026-11-29T18:47:42.267279756Z."""
    whole, _, part = text.rstrip("Z").partition(".")
    seconds = int(time.mktime(time.strptime(whole, "%Y-%m-%dT%H:%M:%S"))) - time.timezone
    return seconds * 10**9 + int(part.ljust(9, "0")[:9])


def builders(lab, nodes, seconds, link):
    """Returns the packets a second that `nodes` readouts and builders take, and CPU time [ns]."""
    sources = "".join(f"""[[source]]
name = "board-{number}"
format = "counter"
[source.emulator]
link = "direct"
rate = 0
payload-bytes = {PAYLOAD}
""" for number in range(nodes))
    addresses = "".join(
        f'readout-{n} = "10.95.0.1:{14800 + n}"\nbuilder-{n} = "10.95.0.2:{14900 + n}"\n'
        for n in range(nodes)) if link == "veth" else ""
    file = write(lab.folder, f"{link}-{nodes}.toml", f"""name = "builders"
seconds = {seconds}
{sources}[events]
build = "key"
[record]
enabled = false
[nodes.readout]
count = {nodes}
[nodes.builder]
count = {nodes}
[link]
url = "udp:10.95.0.1"
[link.addresses]
{addresses}""")
    url = ["--link", "shm:flxplan%d" % os.getpid()] if link == "shm" else []
    names = [(f"builder-{n}", lab.far) for n in range(nodes)]
    names += [(f"readout-{n}", lab.near) for n in range(nodes)]
    if link == "shm":
        names = [(name, lab.far) for name, _ in names]
    began = time.monotonic()
    parts = [(name, lab.start(where, "fluxline", "run", file, *url, "--node", name, "--json"))
             for name, where in names]
    packets = cpu = 0
    for name, process in parts:
        text, used = lab.end(process)
        cpu += used
        if name.startswith("readout"):
            packets += document(text)["totals"]["datagrams"]
    if not packets:
        sys.exit(f"validate_plan: nothing was built over {link}; {time.monotonic() - began:.1f} s")
    return packets / seconds, cpu * 1e9 / packets


def bound_of_plan(lab, senders, rate, core_ns):
    """Returns the rate of all senders at which the plan's bound is met [1/s]."""
    file = write(lab.folder, f"plan-{senders}.toml", f"""name = "validation"
[[source]]
name = "board"
format = "counter"
copies = {senders}
[source.emulator]
[events]
build = "packet"
[requirements]
rate-hz = 100
packet-bytes = {PACKET}
""")
    link_mb_s = rate * PACKET / 1e6
    candidates = write(lab.folder, "candidates.toml", f"""[[candidate]]
name = "veth"
link = "report"
link-mb-s = {link_mb_s}
link-source = "one sender, measured here"
[candidate.host]
packet-ns = {core_ns}
source = "one sender, measured here"
""")
    plan = [str(lab.programs / "fluxline-sim"), "--json", "plan", file, "--candidates", candidates]
    answer = json.loads(subprocess.run(plan, capture_output=True, text=True, check=False).stdout)
    part = answer["candidates"][0]["configurations"][0]["years"][0]["bottleneck"]
    return senders * 100 * part["capacity"] / part["load"], part["name"]


def queue_us(senders, load, service_us):
    """Returns p50 and p99 of the wait of periodic senders with random phases at one server [us]."""
    draw = random.Random(1)
    period = senders * service_us / load
    waits = []
    for _ in range(400):
        phases = sorted(draw.uniform(0, period) for _ in range(senders))
        free = 0.0
        for turn in range(3):
            for phase in phases:
                at = turn * period + phase
                waits.append(max(free - at, 0.0))
                free = max(free, at) + service_us
    waits.sort()
    return {f"p{of}": waits[int(len(waits) * of / 100)] for of in (50, 99)}


def predict(lab, point, cores):
    """Returns the predictions from one sender, and from one readout with one builder."""
    rate, sender_ns, receiver_ns = point["rate"], point["sender_ns"], point["receiver_ns"]
    found = {}
    for senders in SENDERS:
        # One sender whose core was busy says nothing about the link.
        is_busy = rate * sender_ns >= BUSY * 1e9
        planned, part = bound_of_plan(lab, senders, VETH_RATE if is_busy else rate, receiver_ns)
        limits = {part: planned, "cores of the machine": cores * 1e9 / (sender_ns + receiver_ns)}
        if is_busy:
            limits["cores of the senders"] = senders * rate
        limit = min(limits, key=limits.get)
        most = limits[limit]
        wait = queue_us(senders, 0.5, 1e6 / most)
        found[f"{senders} to 1, loss-free [1/s]"] = most
        found[f"{senders} to 1, limit"] = limit
        for of in ("p50", "p99"):
            found[f"{senders} to 1, {of} at half of it [us]"] = point[of] + wait[of]
    for link in ("shm", "veth"):
        one, cpu_ns = point[link]
        found[f"2 readouts + 2 builders, {link} [1/s]"] = min(2 * one, cores * 1e9 / cpu_ns)
    return found


def measure_point(lab, seconds):
    rate, best = loss_free(lab, 1, seconds)
    if best is None:
        sys.exit("validate_plan: no rate is without loss: the machine is too busy; try later")
    per = 1e9 / best["sent"]
    of = {"rate": rate, "sender_ns": best["sender_cpu"] * per,
          "receiver_ns": best["receiver_cpu"] * per, **latency(lab, 1, rate / 2, seconds)}
    for link in ("shm", "veth"):
        of[link] = builders(lab, 1, seconds, link)
    return of


def measure(lab, prediction, seconds):
    found = {}
    for senders in SENDERS:
        found[f"{senders} to 1, loss-free [1/s]"] = loss_free(lab, senders, seconds)[0]
        half = prediction[f"{senders} to 1, loss-free [1/s]"] / 2
        for of, value in latency(lab, senders, half, seconds).items():
            found[f"{senders} to 1, {of} at half of it [us]"] = value
    for link in ("shm", "veth"):
        found[f"2 readouts + 2 builders, {link} [1/s]"] = builders(lab, 2, seconds, link)[0]
    return found


def median(of):
    if isinstance(of[0], tuple):
        return tuple(statistics.median(column) for column in zip(*of))
    return statistics.median(of)


def table(prediction, rounds):
    print("| what | predicted | measured, median | least to most | error |")
    print("| --- | --- | --- | --- | --- |")
    for name in rounds[0]:
        values, predicted = [found[name] for found in rounds], prediction[name]
        middle = statistics.median(values)
        error = f"{(predicted / middle - 1) * 100:+.0f} %" if middle else "nothing measured"
        print(f"| {name} | {predicted:,.0f} | {middle:,.0f} | {min(values):,.0f} to "
              f"{max(values):,.0f} | {error} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=0.5)
    parser.add_argument("--bin", type=Path, default=ROOT / "target/release")
    parser.add_argument("--out", type=Path, default=Path("plan-validation"))
    options = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("validate_plan: network namespaces need root: run it with sudo")
    for program in ("fluxline", "fluxline-sim"):
        if not (options.bin / program).is_file():
            sys.exit(f"validate_plan: no {options.bin / program}: cargo build --release --workspace")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    options.out.mkdir(parents=True, exist_ok=True)
    cores = len(os.sched_getaffinity(0))
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as at, Lab(options.bin.resolve(), Path(at)) as lab:
        lab.formats = formats(lab.folder)
        points = [measure_point(lab, options.seconds) for _ in range(options.rounds)]
        point = {key: median([of[key] for of in points]) for key in points[0]}
        prediction = predict(lab, point, cores)
        made = {"cores": cores, "load": os.getloadavg()[0], "point": point,
                "prediction": prediction}
        (options.out / "prediction.json").write_text(json.dumps(made, indent=1))
        print(f"prediction written after {time.monotonic() - began:.0f} s; now it is measured",
              file=sys.stderr)
        rounds = [measure(lab, prediction, options.seconds) for _ in range(options.rounds)]
    (options.out / "measured.json").write_text(json.dumps(rounds, indent=1))
    print(f"{cores} cores, load {made['load']:.1f} at the prediction, {os.getloadavg()[0]:.1f} at "
          f"the end; {options.rounds} rounds, {time.monotonic() - began:.0f} s\n")
    table(prediction, rounds)


if __name__ == "__main__":
    main()

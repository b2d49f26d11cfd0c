#!/usr/bin/env python3
"""Sets a simulated board to write into the memory of rdma_rxe, and compares what arrived with what
went over the wire. Started by rxe.sh."""
import json
import os
import socket
import subprocess
import sys
import time
import zlib
from pathlib import Path

BOARD, MACHINE, BLOCKS, SLOT, SLOTS = "10.23.0.2", "10.77.0.2", 300, 1024, 64
FIRST_PSN = 0xFFFFF0


def fnv(data):
    value = 0xCBF29CE484222325
    for byte in data:
        value = (value ^ byte) * 0x100000001B3 & (1 << 64) - 1
    return value


def is_whole(frame):
    """Returns true when the ICRC is right."""
    covered = bytearray(b"\xff" * 8 + frame[14:-4])
    for at in (9, 16, 18, 19, 34, 35, 40):
        covered[at] = 0xFF
    return zlib.crc32(covered) == int.from_bytes(frame[-4:], "little")


class Peer:
    """The program of tools/rxe/peer.c in the virtual machine."""

    def __init__(self):
        self.lines = socket.create_connection((MACHINE, 7471), 60).makefile("rw")

    def ask(self, request):
        self.lines.write(request + "\n")
        self.lines.flush()
        word, *rest = self.lines.readline().split()
        assert word == "ok", f"{request}: {word} {' '.join(rest)}"
        return [int(number) for number in rest]


def write(register, value):
    subprocess.run([os.environ["FLUXLINE"], "fpga", "write", BOARD, register, str(value)],
                   check=True, timeout=60)


def main():
    folder, board = Path(sys.argv[1]), int(sys.argv[2])
    wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
    wire.bind(("tap1", 0))
    wire.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 24)
    # The shell of the machine: the board is in another network.
    with socket.create_connection((MACHINE, 2323), 60) as shell:
        shell.sendall(b"ip route add 10.23.0.0/24 dev eth0; echo done\n")
        assert b"done" in shell.recv(4096)
    peer = Peer()
    base, key = peer.ask(f"region {SLOT * SLOTS}")
    pair, = peer.ask("pair uc 0")
    peer.ask(f"connect 77 {FIRST_PSN} {BOARD} 1024")
    for _ in range(BLOCKS):
        peer.ask("receive 0 8")
    neighbour = subprocess.run(["ip", "-j", "neigh", "show", MACHINE], capture_output=True,
                               check=True).stdout
    mac = int(json.loads(neighbour)[0]["lladdr"].replace(":", ""), 16)
    for register, value in (
            ("PEER_MAC_HIGH", mac >> 32), ("PEER_MAC_LOW", mac & 0xFFFFFFFF),
            ("PEER_IP", MACHINE), ("DEST_QP", pair), ("RKEY", key),
            ("RING_BASE_HIGH", base >> 32), ("RING_BASE_LOW", base & 0xFFFFFFFF),
            ("FIRST_PSN", FIRST_PSN), ("RING_BYTES", SLOT * SLOTS)):
        write(register, value)
    (folder / "from").touch()
    # Each frame that went out, as the wire had it.
    frames = []
    wire.settimeout(5)
    try:
        while True:
            frame = wire.recv(4096)
            if frame[12:14] == b"\x08\0" and frame[23] == 17 and frame[36:38] == b"\x12\xb7":
                frames.append(frame)
    except TimeoutError:
        pass
    (folder / "until").touch()
    while Path(f"/proc/{board}/fd").exists() and not (folder / "sim.json").read_text():
        time.sleep(0.1)
    sim = json.loads((folder / "sim.json").read_text())["wire"]
    whole = sum(is_whole(frame) for frame in frames)
    print(f"on the wire {len(frames)} frames, of these {sim['flipped']} with a flipped bit; "
          f"{sim['lost']} were withheld")
    assert len(frames) == sim["written"] and sim["flipped"] > 0 and sim["lost"] > 0
    assert whole == len(frames) - sim["flipped"]
    memory = bytearray(SLOT * SLOTS)
    for _ in range(whole):
        size, immediate = peer.ask("completion")
        frame = next(frame for frame in frames if frame[70:74] == immediate.to_bytes(4, "big"))
        assert is_whole(frame), "a frame with a flipped bit was written"
        at = int.from_bytes(frame[54:62], "big") - base
        assert size == 1024 == int.from_bytes(frame[66:70], "big")
        memory[at:at + size] = frame[74:74 + size]
    (arrived,) = peer.ask(f"hash 0 {SLOT * SLOTS}")
    assert arrived == fnv(memory), "the memory is not what the whole frames say"
    print(f"rdma_rxe completed {whole} writes; its memory is what they say")


main()

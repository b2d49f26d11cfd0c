"""Boards as an outsider would build them: a plan in JSON becomes packets with their truth.

A plan is {"seed": S, "boards": [BOARD...]}; a board is {"board": number, "parts": [PART...],
"faults": FAULTS}. A part is a row of triggers at one period:

    at_us       when its first packet is sent, from the beginning
    count       packets
    period_us   time between two packets
    key         first trigger number (default 0), raised by key_step (default 1)
    spill       which spill the triggers are of (default 0); only the truth knows it
    counter     packet counter of the first packet; default: goes on
    bytes       size of a packet (default 64)
    kind        "data", "long" (does not fit into a slot) or "foreign" (no board's packet);
                with "roce" also "restart" (PSN and slot from 0) and "forged" (a wrong key)

With "roce": {"from": port, "pair": number, "key": R_Key, "slots": count, "slot_bytes": size} in the
plan, packets are written into the memory of the run (roce.py) instead of sent to its socket.

Faults are probabilities per packet: drop, duplicate, reorder (by 1 to `distance` packets).
Only the standard library is used.
"""

import hashlib
import json
import random
import struct
from dataclasses import dataclass

HEADER = struct.Struct(">IHHIIQ")
MAGIC = 0xB0A4D001
HEADER_FIELDS = ("magic", "board", "length", "counter", "key", "time")


@dataclass
class Packet:
    """One packet of a plan."""

    at_ns: int
    kind: str  # data, copy, dropped, long, foreign, restart, forged
    board: int
    spill: int
    counter: int
    key: int
    data: bytes

    def row(self):
        """Its line of the log, without times."""
        return (f"{self.kind} {self.board} {self.spill} {self.counter} {self.key} "
                f"{len(self.data)} {digest(self.data)}")


def digest(data):
    """Names a packet by its bytes."""
    return hashlib.blake2b(data, digest_size=12).hexdigest()


def load(path):
    """Reads a plan."""
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def packets(plan):
    """All packets of a plan, in the order of sending."""
    noise = random.Random(plan.get("seed", 1))
    boards = [_board(board, noise) for board in plan["boards"]]
    return sorted((packet for board in boards for packet in board), key=lambda of: of.at_ns)


def _board(board, noise):
    counter = 0
    rows = []
    for part in board["parts"]:
        counter = part.get("counter", counter)
        kind = part.get("kind", "data")
        for index in range(part["count"]):
            at_ns = 1000 * (part["at_us"] + index * part["period_us"])
            key = part.get("key", 0) + index * part.get("key_step", 1)
            size = part.get("bytes", 64)
            data = _data(kind, board["board"], counter, key, at_ns, size, noise)
            rows.append(Packet(at_ns, kind, board["board"], part.get("spill", 0), counter, key, data))
            counter += kind != "foreign"
    return _faults(rows, board.get("faults", {}), noise)


def _data(kind, board, counter, key, at_ns, size, noise):
    if kind == "foreign":
        return b"\0\0\0\0" + noise.randbytes(size - 4)
    header = HEADER.pack(MAGIC, board, size, counter, key, at_ns)
    return header + noise.randbytes(size - len(header))


def _faults(rows, faults, noise):
    out = []
    for packet in rows:
        if noise.random() < faults.get("drop", 0):
            packet.kind = "dropped"
        if noise.random() < faults.get("reorder", 0):
            # Behind the next ones; half a microsecond breaks the tie.
            step = rows[1].at_ns - rows[0].at_ns
            packet.at_ns += noise.randint(1, faults["distance"]) * step + 500
        out.append(packet)
        if packet.kind == "data" and noise.random() < faults.get("duplicate", 0):
            copy = Packet(**{**vars(packet), "kind": "copy"})
            copy.at_ns += 50_000
            out.append(copy)
    return out

"""Sends the packets of a plan over UDP, each board from a socket of its own, and keeps a log.

    python3 send.py PLAN.json PORT LOG

A line of the log: kind, board, spill, counter, key, size, digest, time before and after sending
[ns, CLOCK_MONOTONIC]. The part before sending is on the file before the packet leaves, so that a
line without its second time is the one packet of a killed sender that nobody knows about.

With `awaits_go` in the plan, it sends nothing before standard input has a line.
"""

import os
import socket
import sys
import time

import board
import roce


class Plain:
    """A socket that is not connected: a run that has ended does not stop the boards."""

    def __init__(self, port):
        self.target = ("127.0.0.1", port)
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)

    def send(self, packet):
        """Sends one packet."""
        self.socket.sendto(packet.data, self.target)


def sender(plan, port):
    """The transport of the boards of a plan: datagrams, or writes into memory."""
    return roce.Writer(plan["roce"], port) if "roce" in plan else Plain(port)


def main():
    plan, port, log = board.load(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    rows = board.packets(plan)
    lines = [packet.row().encode() for packet in rows]
    senders = {}
    for packet in rows:
        if packet.board not in senders:
            senders[packet.board] = sender(plan, port)
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    print("sending", flush=True)
    if plan.get("awaits_go"):
        sys.stdin.readline()
    began = time.monotonic_ns()
    for packet, line in zip(rows, lines):
        wait = began + packet.at_ns - time.monotonic_ns()
        if wait > 200_000:
            time.sleep(wait / 1e9)
        os.write(file, b"%s %d" % (line, time.monotonic_ns()))
        if packet.kind != "dropped":
            senders[packet.board].send(packet)
        os.write(file, b" %d\n" % time.monotonic_ns())
    os.close(file)


if __name__ == "__main__":
    main()

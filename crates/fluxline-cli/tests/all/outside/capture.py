"""Writes the packets of a plan as a pcap file, and keeps the log of a sender.

    python3 capture.py PLAN.json CAPTURE.pcap LOG [BEGIN_NS]

Ethernet, IPv4, UDP with check sum; nanosecond time stamps, the first at BEGIN_NS since 1970.
"""

import struct
import sys

import board

BEGIN_NS = 1_750_000_000_000_000_000
PORT = 6006


def main():
    plan = board.load(sys.argv[1])
    begin_ns = int(sys.argv[4]) if len(sys.argv) > 4 else BEGIN_NS
    with open(sys.argv[2], "wb") as capture, open(sys.argv[3], "w", encoding="ascii") as log:
        capture.write(struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 65535, 1))
        for packet in board.packets(plan):
            if packet.kind != "dropped":
                at_ns = begin_ns + packet.at_ns
                frame = _frame(packet.board, packet.data)
                head = (at_ns // 10**9, at_ns % 10**9, len(frame), len(frame))
                capture.write(struct.pack("<IIII", *head) + frame)
            log.write(f"{packet.row()} {packet.at_ns} {packet.at_ns}\n")


def _frame(number, data):
    source, target = bytes([10, 0, 1, number]), bytes([10, 0, 0, 1])
    length = 8 + len(data)
    udp = struct.pack(">HHHH", 40_000 + number, PORT, length, 0)
    pseudo = source + target + struct.pack(">HH", 17, length)
    total = _sum(pseudo + udp + data) or 0xFFFF
    udp = udp[:6] + struct.pack(">H", total)
    ip = struct.pack(">BBHHHBBH", 0x45, 0, 20 + length, 0, 0, 64, 17, 0) + source + target
    ip = ip[:10] + struct.pack(">H", _sum(ip)) + ip[12:]
    return b"\2\0\0\0\0\1" + b"\2\0\0\0\0\2" + b"\x08\x00" + ip + udp + data


def _sum(data):
    data += b"\0" * (len(data) % 2)
    total = sum(struct.unpack(f">{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


if __name__ == "__main__":
    main()

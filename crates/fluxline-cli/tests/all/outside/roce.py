"""RoCEv2 frames as an FPGA makes them: RDMA WRITE ONLY with immediate, unreliable connection.

Layout: InfiniBand Architecture Specification, volume 1, chapter 9, and annex A17 for the carriage
over UDP. Only the standard library is used.
"""

import socket
import struct
import zlib

OPCODE = 0x2B  # unreliable connection, RDMA WRITE ONLY with immediate
IP_MTU_DISCOVER, IP_PMTUDISC_DO = 10, 2  # Linux, include/uapi/linux/in.h


class Writer:
    """An FPGA: writes slot after slot, and again from the first."""

    def __init__(self, plan, port):
        self.plan, self.target = plan, ("127.0.0.1", port)
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        # Without fragments; Linux then writes identification 0, which the ICRC covers.
        self.socket.setsockopt(socket.IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO)
        self.socket.bind(("127.0.0.1", plan["from"]))
        self.psn, self.slot = plan.get("psn", 0), 0

    def send(self, packet):
        """Sends one packet; a forged one has a wrong key and a PSN far ahead."""
        psn, key = self.psn, self.plan["key"]
        if packet.kind == "restart":
            psn = self.psn = self.slot = 0
        if packet.kind == "forged":
            psn, key = (self.psn + 5000) & 0xFFFFFF, key + 1
        address = self.slot * self.plan["slot_bytes"]
        self.socket.sendto(self.frame(psn, key, address, packet.data), self.target)
        if packet.kind != "forged":
            self.psn = (self.psn + 1) & 0xFFFFFF
            self.slot = (self.slot + 1) % self.plan["slots"]

    def frame(self, psn, key, address, data):
        """A frame with its invariant CRC."""
        padding = -len(data) % 4
        base = struct.pack(">BBHII", OPCODE, padding << 4, 0xFFFF, self.plan["pair"], psn)
        reth = struct.pack(">QII", address, key, len(data))
        payload = base + reth + struct.pack(">I", 1) + data + b"\0" * padding
        return payload + struct.pack("<I", self.icrc(payload))

    def icrc(self, payload):
        """CRC-32 over headers whose changing fields are all ones. Annex A17.3.3."""
        ours, theirs = self.socket.getsockname(), self.target
        length = 8 + len(payload) + 4
        ip = struct.pack(">BBHHHBBH", 0x45, 0xFF, 20 + length, 0, 0x4000, 0xFF, 17, 0xFFFF)
        ip += socket.inet_aton("127.0.0.1") + socket.inet_aton(theirs[0])
        udp = struct.pack(">HHHH", ours[1], theirs[1], length, 0xFFFF)
        masked = payload[:4] + b"\xff" + payload[5:]
        return zlib.crc32(b"\xff" * 8 + ip + udp + masked)

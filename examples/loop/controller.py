#!/usr/bin/env python3
"""A controller for `[loop] program`: reads events, answers with the demand for the actuator."""

import struct
import sys

TARGET, GAIN = 32768.0, 0.01


def exactly(size):
    data = sys.stdin.buffer.read(size)
    if len(data) < size:
        sys.exit(0)               # the run has ended
    return data


demand = 0.0
while True:
    (size,) = struct.unpack("<I", exactly(4))
    event = exactly(size)
    key, sampled_ns, status, packets = struct.unpack_from("<QQII", event)
    at, levels = 24, []
    for _ in range(packets):
        source, length = struct.unpack_from("<II", event, at)
        (sample,) = struct.unpack_from("<H", event, at + 8 + 32)   # behind the header of 32 bytes
        levels.append(sample)
        at += 8 + length
    if status == 0:               # an incomplete event gives no demand
        demand += GAIN * (TARGET - sum(levels) / len(levels))
        answer = struct.pack("<d", demand)
    else:
        answer = b""
    sys.stdout.buffer.write(struct.pack("<I", len(answer)) + answer)
    sys.stdout.buffer.flush()

"""A small server of the mdsip protocol, for tests: opens trees and takes segments.

It knows the messages that an export sends, not the language TDI: a header of 48 bytes (length of
the message, status, length of an item, number of arguments, index, identifier, type, client,
dimensions), then the bytes of the value.
"""

import socketserver
import struct
import threading

import numpy as np

HEADER = struct.Struct("<iihBBBBbB8i")
TYPES = {2: "u1", 3: "<u2", 4: "<u4", 5: "<u8", 6: "i1", 7: "<i2", 8: "<i4", 9: "<i8",
         52: "<f4", 53: "<f8"}
TEXT = 14
SUCCESS, NODE_NOT_FOUND, NOT_OPEN = 1, 265388128, 265388258


class Handler(socketserver.BaseRequestHandler):
    def handle(self):
        owner = self.server.owner
        try:
            self.message()
            self.request.sendall(HEADER.pack(48, SUCCESS, 0, 0, 0, 0, 0, 2, 1, 3, *[0] * 7))
            while True:
                identifier, expression, count = self.message()
                arguments = [self.message()[1] for _ in range(count - 1)]
                status = owner.evaluate(str(expression), arguments)
                answer = struct.pack("<i", status)
                self.request.sendall(HEADER.pack(48 + len(answer), SUCCESS, 4, 1, 0, identifier,
                                                 8, 2, 0, *[0] * 8) + answer)
        except ConnectionError:
            pass

    def exactly(self, count):
        parts = []
        while count:
            part = self.request.recv(count)
            if not part:
                raise ConnectionError
            parts.append(part)
            count -= len(part)
        return b"".join(parts)

    def message(self):
        fields = HEADER.unpack(self.exactly(48))
        body = self.exactly(fields[0] - 48)
        kind, dimensions, shape = fields[6], fields[8], fields[9:]
        if kind == TEXT:
            value = body.decode()
        else:
            value = np.frombuffer(body, TYPES[kind])
            value = value.reshape(shape[:dimensions][::-1]) if dimensions else value[0]
        return fields[5], value, fields[3]


class MdsipServer:
    """Keeps the segments of each node."""

    def __init__(self, nodes=None):
        self.nodes, self.segments, self.calls = nodes, {}, []

        class Server(socketserver.ThreadingTCPServer):
            daemon_threads = True
            allow_reuse_address = True

        self.server = Server(("127.0.0.1", 0), Handler)
        self.server.owner = self
        self.address = f"127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    def evaluate(self, expression, arguments):
        name = expression.partition("(")[0]
        if name in ("TreeOpen", "TreeClose"):
            self.calls.append((name, str(arguments[0]), int(arguments[1])))
            return SUCCESS
        assert name == "MakeSegment", expression
        node = expression[len("MakeSegment("):].partition(",")[0]
        if self.nodes is not None and node not in self.nodes:
            return NODE_NOT_FOUND
        first, last, times, values, rows = arguments
        assert first == times[0] and last == times[-1] and rows == len(values) == len(times)
        self.segments.setdefault(node, []).append((times, values))
        return SUCCESS

    def stop(self):
        self.server.shutdown()
        self.server.server_close()

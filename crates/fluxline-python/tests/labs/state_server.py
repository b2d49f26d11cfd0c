"""A stand-in for `fluxline run --serve`: snapshots and commands over HTTP."""

from __future__ import annotations

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

TOKEN = "0123456789abcdef0123456789abcdef"
NUMBERS = ("packets", "bytes", "rate", "lost", "restarts", "reordered", "duplicate", "recorded",
           "silent_ms")


def snapshot(tick, sources=2, changing=1.0):
    """Returns a snapshot in which a share of the sources changes from tick to tick."""
    def counted(number):
        return tick if number < changing * sources else 7

    rows = [{"number": number, "label": f"board={number}", "state": "live",
             **{one: counted(number) * 10 + number for one in NUMBERS}}
            for number in range(sources)]
    return {
        "run": "bench", "folder": "runs/0042", "at_ns": time.time_ns(), "seconds": tick / 10,
        "tick": tick, "state": "running", "shot": None, "rates": {
            "packets": {"value": 1000.5, "unit": "packets/s"},
            "lost": {"value": 0.0, "unit": "packets/s"}},
        "ring_percent": 3, "free_bytes": 1 << 40, "recorded_bytes": tick,
        "events": {"built": tick, "incomplete": 0, "delay_counts": [{"up_to_ns": 1, "events": 2}]},
        "delays": {"events": 1, "p99_ns": 5000, "max_ns": None},
        "inputs": [{"name": "boards", "listens": [], "rate": 0, "datagrams": 5}],
        "flow": {"expected": tick, "received": tick, "lost": 0, "in_flight": 0, "to_builder": tick,
                 "ends": [{"name": "counted only", "count": 1, "unit": "datagrams"}]},
        "sources": rows, "remarks": [], "notes": [],
    }


class StateServer:
    """Serves snapshots at ten a second until it is stopped."""

    def __init__(self, port=0, sources=2, changing=1.0, token=TOKEN):
        self.sources, self.changing, self.token = sources, changing, token
        self.commands, self.change = [], {}
        self.stopping = threading.Event()
        owner = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                self.send_response(200)
                self.send_header("content-type", "text/event-stream")
                self.send_header("connection", "close")
                self.end_headers()
                tick = 0
                while not owner.stopping.is_set():
                    tick += 1
                    made = {**snapshot(tick, owner.sources, owner.changing), **owner.change}
                    try:
                        self.wfile.write(b"data: " + json.dumps(made).encode() + b"\n\n")
                    except OSError:
                        break
                    owner.stopping.wait(0.1)
                self.close_connection = True

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                allowed = self.headers.get("authorization") == f"Bearer {owner.token}"
                if allowed:
                    owner.commands.append(body)
                text = json.dumps({"state": "running"} if allowed else
                                  {"error": "the token is missing or of another run."}).encode()
                self.send_response(200 if allowed else 401)
                self.send_header("content-length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, *_):
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            allow_reuse_address = True

        self.server = Server(("127.0.0.1", port), Handler)
        self.port = self.server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}/#{token}"
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True)
        self.thread.start()

    def stop(self):
        self.stopping.set()
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()

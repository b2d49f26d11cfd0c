"""A client of a running acquisition: its snapshots and commands over HTTP."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

PATIENCE_S = 3.0
"""The longest silence of a server that counts as alive; it sends ten snapshots a second."""


class Away(Exception):
    """A server that does not answer, in one sentence."""


class Refused(Exception):
    """A command that the server refused, with the server's sentence."""


class StateClient:
    """Reads the snapshots of `fluxline run --serve`, and sends commands with its token.

    `place` is the printed address (`http://127.0.0.1:8040/#TOKEN`), a run folder, or a folder of
    runs, whose newest served run counts. Folders are read again after each loss of the connection,
    so that the next run is found with its own token.
    """

    def __init__(self, place: str, patience_s: float = PATIENCE_S):
        self.place, self.patience_s = place, patience_s
        self.url(must_answer=False)

    def url(self, must_answer: bool = True) -> str:
        """Returns the address with its token."""
        if self.place.startswith("http://"):
            return self.place
        if "://" in self.place or not Path(self.place).is_dir():
            raise ValueError(
                f"`{self.place}` is neither the address of a run nor a folder; write for example "
                "http://127.0.0.1:8040/#TOKEN or runs."
            )
        folder = Path(self.place)
        files = [folder / "serve.url", *folder.glob("*/serve.url")]
        plain = (one for one in files if one.is_file() and not one.is_symlink())
        served = sorted(plain, key=_modified)
        if served:
            return served[-1].read_text(encoding="utf-8").strip()
        if must_answer:
            raise Away(f"no run in {self.place} is served; start one with --serve.")
        return ""

    def snapshots(self, wanted: Callable[[], bool] = lambda: True) -> Iterator[dict[str, Any]]:
        """Yields snapshots as they come, until the server is away (`Away`).

        While `wanted` returns False, one a second: reading them costs most of the time.
        """
        last = 0.0
        connection, address = self._connect()
        try:
            connection.request("GET", "/api/events", headers={"Accept": "text/event-stream"})
            response = connection.getresponse()
            if response.status != 200:
                raise Away(_sentence(response.read(1 << 16), address))
            while line := response.readline():
                now = time.monotonic()
                if line.startswith(b"data:") and (wanted() or now - last >= 1.0):
                    last = now
                    yield json.loads(line[5:])
            raise Away(f"{address} closed the connection; the run may have ended.")
        except (OSError, http.client.HTTPException) as error:
            raise Away(f"no answer from {address} ({error}); the run may have ended.") from error
        except ValueError as error:
            raise Away(f"{address} is not a run of fluxline.") from error
        finally:
            connection.close()

    def command(self, request: dict[str, Any]) -> None:
        """Sends a request of run control, such as `{"command": "pause"}`."""
        try:
            connection, address = self._connect()
            token = self.url().partition("#")[2]
            headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
            connection.request("POST", "/api/command", json.dumps(request), headers)
            response = connection.getresponse()
            body = response.read(1 << 16)
        except Away as error:
            raise Refused(str(error)) from error
        except (OSError, http.client.HTTPException) as error:
            raise Refused(f"no answer from {self.place} ({error}).") from error
        connection.close()
        if response.status != 200:
            raise Refused(_sentence(body, address))

    def _connect(self) -> tuple[http.client.HTTPConnection, str]:
        parts = urlsplit(self.url())
        if parts.hostname is None:
            raise Away(f"`{parts.netloc}` is not the address of a run.")
        connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=self.patience_s)
        return connection, f"http://{parts.netloc}"


def _modified(file: Path) -> float:
    try:
        return file.stat().st_mtime
    except OSError:
        return 0.0


def _sentence(body: bytes, address: str) -> str:
    try:
        return str(json.loads(body)["error"])
    except (ValueError, KeyError, TypeError):
        return f"{address} is not a run of fluxline."

"""A run of another process: looked at and controlled over the HTTP of its live page."""

from __future__ import annotations

import json
import os
import re
import urllib.error
import urllib.request
from http.client import HTTPException
from typing import Any, cast

from fluxline.errors import Error, InputError, LinkError

# The longest wait for an answer [s], and the longest answer [byte].
_PATIENCE_S = 10.0
_ANSWER_BYTES_MAX = 64 << 20
# The file of a run folder with the address of its page and the token, for its owner alone.
_ADDRESS_FILE = "serve.url"


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """An answer decides nothing about where a request, with its token, goes."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


class Connection:
    """A run of another process. Each call is one request; threads may share a connection."""

    def __init__(self, address: str | os.PathLike[str], token: str | None = None) -> None:
        """Name a run by the address of its page, or by its folder; no request is made yet."""
        text = _of_folder(address) if os.path.isdir(address) else os.fspath(address)
        text, _, shown = text.strip().partition("#")
        text = text.rstrip("/")
        text = text if "://" in text else f"http://{text}"
        if not re.fullmatch(r"http://[^\s/?@]+", text):
            raise InputError(f"{text!r} is not the address of a run; write for example "
                             "'127.0.0.1:8040', or the one that the program printed")
        self._token = token or shown
        if not re.fullmatch(r"[0-9a-zA-Z]*", self._token):
            raise InputError("the token is what stands behind `#` in the address that the program "
                             "printed")
        self.address = text
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), _NoRedirect())

    def status(self) -> dict[str, Any]:
        """Return the newest snapshot of the run: state, commands, health, rates, sources, notes."""
        return self._ask("/api/state")

    def health(self) -> dict[str, Any]:
        """Return the verdict of the run with its reasons, and the alarms."""
        return cast("dict[str, Any]", self.status()["health"])

    def stats(self) -> dict[str, Any]:
        """Return the counts of the run, and the rates of the last second."""
        status = self.status()
        of = ("seconds", "recorded_bytes", "free_bytes", "ring_percent")
        counts = {name: status[name] for name in of}
        events = status["events"]
        counts["events"] = events["built"]
        counts |= {name: events[name] for name in ("incomplete", "paused")}
        counts["rates"] = {name: rate["value"] for name, rate in status["rates"].items()}
        return counts

    def start(self) -> str:
        """Begin to record; of an armed run. Return the state."""
        return self._command(command="start")

    def pause(self) -> str:
        """Interrupt recording; events are still built and counted. Return the state."""
        return self._command(command="pause")

    def resume(self) -> str:
        """Go on recording. Return the state."""
        return self._command(command="resume")

    def stop(self) -> str:
        """Ask the run to end; packets received so far are recorded. Return the state."""
        return self._command(command="stop")

    def note(self, text: str) -> str:
        """Keep a note of the operator, for run.json. Return the state."""
        return self._command(remark=text)

    def shot(self, number: int) -> str:
        """Set the shot number, for run.json. Return the state."""
        return self._command(shot=number)

    def acknowledge(self, alarm: str) -> str:
        """Say that somebody knows of an alarm. Return the state."""
        return self._command(acknowledge=alarm)

    def shelve(self, alarm: str, minutes: int) -> str:
        """Leave an alarm out of the verdict for a time. Return the state."""
        return self._command(shelve=alarm, minutes=minutes)

    def unshelve(self, alarm: str) -> str:
        """Let an alarm count again. Return the state."""
        return self._command(unshelve=alarm)

    def _command(self, **request: str | int) -> str:
        return cast("str", self._ask("/api/command", json.dumps(request).encode())["state"])

    def _ask(self, path: str, body: bytes | None = None) -> dict[str, Any]:
        request = urllib.request.Request(self.address + path, data=body)
        if body is not None:
            request.add_header("Content-Type", "application/json")
            request.add_unredirected_header("Authorization", f"Bearer {self._token}")
        try:
            with self._opener.open(request, timeout=_PATIENCE_S) as answer:
                return self._read(answer.read(_ANSWER_BYTES_MAX))
        except urllib.error.HTTPError as refused:
            with refused:
                return self._read(refused.read(_ANSWER_BYTES_MAX))
        except (OSError, HTTPException) as reason:
            raise self._silent(reason) from reason

    def _read(self, text: bytes) -> dict[str, Any]:
        try:
            document = json.loads(text)
        except ValueError as reason:
            raise self._silent("the answer is not from a run of fluxline") from reason
        if not isinstance(document, dict):
            raise self._silent("the answer is not from a run of fluxline")
        if isinstance(document.get("error"), str):
            raise Error(document["error"])
        return document

    def _silent(self, reason: object) -> LinkError:
        return LinkError(f"no answer from {self.address}: {reason}; the run may have ended")

    def __repr__(self) -> str:
        return f"Connection({self.address!r})"


def _of_folder(folder: str | os.PathLike[str]) -> str:
    """Return the address of a run that goes on, by its folder."""
    path = os.path.join(folder, _ADDRESS_FILE)
    try:
        with open(path, encoding="utf-8") as file:
            return file.readline()
    except OSError as error:
        raise InputError(f"{path} cannot be read: the run has ended, has no page (--serve), or is "
                         "another user's") from error


def connect(address: str | os.PathLike[str], token: str | None = None) -> Connection:
    """Return a connection to a run of another process: its page's address, or its folder.

    Everybody may look; commands need the token, which is behind `#` in the address that the
    program printed, and in the run folder.
    """
    return Connection(address, token)

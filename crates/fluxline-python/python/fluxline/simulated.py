"""Simulations of networks: scenarios in, tables out."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from fluxline import _fluxline
from fluxline.errors import InputError
from fluxline.tables import Table


class Simulation:
    """The results of a scenario: tables, and the document of `fluxline sim run --json`."""

    def __init__(self, native: _fluxline.Simulated) -> None:
        self.document: dict[str, Any] = json.loads(native.document)
        self._tables: dict[str, Table] = {}
        for name, batch in native.tables.items():
            self._tables[name] = Table(name, batch.schema, batch.batches)

    @property
    def tables(self) -> list[str]:
        """The names of the tables: points, nodes, links, latency."""
        return sorted(self._tables)

    def __getitem__(self, name: str) -> Table:
        if name not in self._tables:
            raise InputError(f"the simulation has no table {name!r}; it has {self.tables}")
        return self._tables[name]

    @property
    def points(self) -> dict[str, Any]:
        """The columns of the table `points`, one array each: a row per load."""
        return {name: self["points"].numpy(name) for name in self["points"].columns}

    @property
    def fingerprint(self) -> str | None:
        """The fingerprint of all that happened; equal scenarios have equal ones. None: a sweep."""
        return self.document.get("fingerprint")

    def __repr__(self) -> str:
        title = self.document.get("scenario", {}).get("title", "")
        return f"Simulation({title!r}: {', '.join(self.tables)})"


def simulate(
    scenario: str | os.PathLike[str] | Mapping[str, Any],
    *,
    quick: bool = False,
    seed: int | None = None,
) -> Simulation:
    """Simulate a scenario: its path, its text, or a dict with the keys of the file.

    A text has at least one line end; everything else is a path. Ctrl-C ends it.
    """
    text: str | None = None
    path: str | None = None
    if isinstance(scenario, Mapping):
        text = toml(scenario)
    elif isinstance(scenario, str) and "\n" in scenario:
        text = scenario
    else:
        path = os.fspath(scenario)
    return Simulation(_fluxline.simulate(text, path, is_quick=quick, seed=seed))


def toml(document: Mapping[str, Any]) -> str:
    """Return a dict as the text of a TOML file. Keys of tables are written as they are."""
    lines: list[str] = []
    _table(document, "", lines)
    return "\n".join(lines) + "\n"


def _table(table: Mapping[str, Any], path: str, lines: list[str]) -> None:
    inner = {key: value for key, value in table.items() if isinstance(value, Mapping)}
    for key, value in table.items():
        if key not in inner and value is not None:
            lines.append(f"{_key(key)} = {_value(key, value)}")
    for key, value in inner.items():
        name = f"{path}{_key(key)}"
        lines.append(f"[{name}]")
        _table(value, f"{name}.", lines)


def _key(key: object) -> str:
    if not isinstance(key, str):
        raise InputError(f"the key {key!r} is not a text")
    is_bare = key != "" and all(one.isascii() and (one.isalnum() or one in "-_") for one in key)
    return key if is_bare else json.dumps(key)


def _value(key: str, value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(value).replace("\x7f", "\\u007f")
    if isinstance(value, (np.ndarray, np.generic)):
        value = value.tolist()
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, Mapping):
        inner = ", ".join(f"{_key(name)} = {_value(key, of)}" for name, of in value.items())
        return f"{{ {inner} }}"
    if isinstance(value, (list, tuple, range)):
        return f"[{', '.join(_value(key, one) for one in value)}]"
    raise InputError(f"the value of {key!r} is {type(value).__name__}, which TOML does not have")

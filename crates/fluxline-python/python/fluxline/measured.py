"""Benchmarks of links: curves as arrays."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from fluxline import _fluxline
from fluxline.errors import InputError


class Report:
    """The results of a benchmark, as `report.json` has them."""

    def __init__(self, document: dict[str, Any]) -> None:
        self.document = document

    @property
    def experiments(self) -> list[str]:
        """The names of the experiments."""
        return [one["name"] for one in self.document["experiments"]]

    def __getitem__(self, name: str) -> dict[str, Any]:
        for one in self.document["experiments"]:
            if one["name"] == name:
                return dict(one)
        raise InputError(f"the report has no experiment {name!r}; it has {self.experiments}")

    def series(self) -> dict[str, np.ndarray]:
        """Return all samples as columns of one length, ready for pandas.DataFrame and a plot.

        Columns: experiment, series, x, x_unit, y, y_unit, round. A row is one sample.
        """
        columns: dict[str, list[Any]] = {
            name: [] for name in ("experiment", "series", "x", "x_unit", "y", "y_unit", "round")
        }
        for experiment in self.document["experiments"]:
            for series in experiment["series"]:
                for point in series["points"]:
                    for round_, sample in enumerate(point["samples"]):
                        row = (experiment["name"], series["label"], point["x"], series["x_unit"])
                        for column, value in zip(
                            columns.values(), (*row, sample, series["y_unit"], round_), strict=True
                        ):
                            column.append(value)
        return {name: np.asarray(values) for name, values in columns.items()}

    def facts(self) -> dict[str, np.ndarray]:
        """Return the single numbers as columns: experiment, name, value (the median), unit."""
        rows = [
            (one["name"], fact["label"], float(np.median(fact["samples"])), fact["unit"])
            for one in self.document["experiments"]
            for fact in one["facts"]
        ]
        columns = zip(*rows, strict=True) if rows else ([], [], [], [])
        names = ("experiment", "name", "value", "unit")
        return {name: np.asarray(values) for name, values in zip(names, columns, strict=True)}

    def curve(self, experiment: str, series: str | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Return x and the median of y of a curve; without a name, of the experiment's first."""
        all_series = self[experiment]["series"]
        found = [one for one in all_series if series in (None, one["label"])]
        if not found:
            labels = [one["label"] for one in all_series]
            raise InputError(f"{experiment} has no series {series!r}; it has {labels}")
        points = found[0]["points"]
        x = np.array([point["x"] for point in points])
        return x, np.array([np.median(point["samples"]) for point in points])

    def __repr__(self) -> str:
        return f"Report({self.document['link']!r}: {', '.join(self.experiments)})"


def bench(
    url: str,
    *,
    only: Iterable[str] = (),
    quick: bool = True,
    rounds: int | None = None,
    sizes: Sequence[int] | None = None,
    seed: int = 1,
    peer: str | None = None,
    key: str | None = None,
) -> Report:
    """Measure a link: shm://, udp://ADDRESS, tcp://ADDRESS or sim:NETWORK?nodes=N.

    The far side is a process of this interpreter, unless `peer` is the address of a
    `fluxline bench --serve` with its `key`. Ctrl-C ends it.
    """
    if isinstance(only, str):
        only = [only]
    document = _fluxline.bench(
        url,
        only=list(only),
        is_quick=quick,
        rounds=rounds,
        sizes=None if sizes is None else list(sizes),
        seed=seed,
        peer=peer,
        key=key,
        program=sys.executable,
    )
    return Report(json.loads(document))

"""The plots over a whole run, from plots.json of its folder."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True)
class Plot:
    """A plot: `counts[i]` is of the numbers from `edges[i]` to below `edges[i + 1]`.

    The edges of traces and rates are numpy.datetime64. The counts of an image have two axes, x and
    y. `sums` are those of y in each bin of a profile, and of x in each bin of a trace.
    """

    name: str
    kind: str
    counts: npt.NDArray[np.uint64]
    edges: npt.NDArray[Any]
    y_edges: npt.NDArray[np.float64] | None
    sums: npt.NDArray[np.float64] | None
    squares: npt.NDArray[np.float64] | None
    mean: float | None
    sd: float | None
    packets: dict[str, int]
    values: dict[str, int]
    table: dict[str, Any]

    @property
    def means(self) -> npt.NDArray[np.float64]:
        """The mean in each bin of a profile or trace; NaN in empty bins."""
        if self.sums is None:
            raise TypeError(f"{self.name!r} is of the kind {self.kind}, which has no means")
        counts = self.counts.astype(np.float64)
        return np.divide(self.sums, counts, out=np.full_like(self.sums, np.nan), where=counts > 0)

    @property
    def filled(self) -> float:
        """The share of the packets that were not left out, 1 where the machine kept up."""
        seen = self.packets["seen"]
        return 1 - self.packets["skipped"] / seen if seen else 1.0


def read(path: str) -> dict[str, Plot]:
    """Read plots.json; a run without it has no plots."""
    try:
        with open(path, encoding="utf-8") as file:
            document = json.load(file)
    except FileNotFoundError:
        return {}
    return {table["name"]: plot(table) for table in document["plots"]}


def plot(table: dict[str, Any]) -> Plot:
    """Return one plot of the document."""
    data = table["data"]
    counts = np.array(data["counts"], dtype=np.uint64)

    def floats(key: str) -> npt.NDArray[np.float64] | None:
        return np.array(data[key], dtype=np.float64) if key in data else None

    edges, y_edges = floats("edges"), floats("y_edges")
    if edges is None:
        at = np.arange(len(counts) + 1, dtype=np.int64) * data["width_ns"]
        edges = (at + data.get("origin_ns", 0)).astype("datetime64[ns]")
    if y_edges is not None:
        counts = counts.reshape(len(edges) - 1, len(y_edges) - 1)
    keys = ("name", "kind", "mean", "sd", "packets", "values")
    return Plot(**{key: table[key] for key in keys}, counts=counts, edges=edges, y_edges=y_edges,
                sums=floats("sums"), squares=floats("squares"),
                table={key: table[key] for key in table if key != "data"})

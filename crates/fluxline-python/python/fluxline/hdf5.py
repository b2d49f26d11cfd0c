"""Runs as HDF5 files: a group for each table, a dataset for each column."""

from __future__ import annotations

import json
import os
from typing import Any, Unpack

import h5py
import pyarrow as pa

from ._columns import metadata
from ._h5 import LAYOUT_VERSION, Keywords, Options, write
from ._h5_table import TableWriter
from ._selection import Report, Tables, iso_time, opened, run_name, times_of


class Hdf5Layout:
    """The groups of a plain HDF5 file."""

    name = "hdf5"

    def __init__(self, compression: str):
        self.compression = compression

    def begin(self, file: h5py.File, run: Tables) -> None:
        """Writes the facts about the run."""
        file.attrs["creator"] = "fluxline"
        file.attrs["layout_version"] = LAYOUT_VERSION
        for name, value in facts_of(run).items():
            file.attrs[name] = value
        group = file.create_group("run")
        group["run.json"] = json.dumps(run.info, indent=1)
        for name, text in descriptions_of(run).items():
            group[f"formats/{name}"] = text

    def table(self, file: h5py.File, name: str, schema: pa.Schema) -> TableWriter:
        """Returns the writer of a table."""
        group = file.require_group(f"tables/{name}")
        facts = metadata(schema)
        for key in ("help", "about", "reference"):
            if facts.get(f"fluxline.{key}"):
                group.attrs[key] = facts[f"fluxline.{key}"]
        return TableWriter(group, self.compression, facts.get("fluxline.record", ""))

    def finish(self, file: h5py.File) -> None:
        """Completes the file."""


def facts_of(run: Tables) -> dict[str, str | int]:
    """Returns the facts of `run.json` that readers look for first."""
    info = run.info
    began, ended = times_of(info)
    control = info.get("control") or {}
    facts = {
        "title": run_name(run),
        "run": os.path.basename(str(info.get("folder", ""))),
        "shot": control.get("shot"),
        "start_time": iso_time(began),
        "end_time": iso_time(ended),
        "state": info.get("state"),
        "headline": info.get("headline"),
        "program_version": info.get("fluxline"),
    }
    return {name: value for name, value in facts.items() if value not in (None, "")}


def descriptions_of(run: Tables) -> dict[str, str]:
    """Returns the packet descriptions in the run folder, by file name."""
    texts: dict[str, str] = getattr(run, "descriptions", {})
    return texts


def to_hdf5(run: Any, into: str | os.PathLike[str],
            **options: Unpack[Keywords]) -> Report:
    """Writes a run, or the run in a folder, into an HDF5 file."""
    chosen = Options.of(options)
    return write(opened(run), into, Hdf5Layout(chosen.compression), chosen)

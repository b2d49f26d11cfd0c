"""Runs as ROOT files: a TTree for each table, written by uproot."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from typing import Any

import awkward as ak
import numpy as np
import pyarrow as pa
import uproot

from ._columns import Leaf, leaves, metadata
from ._partial import PartialFile
from ._selection import (
    ExportError,
    Names,
    Report,
    Selection,
    check_whole,
    opened,
    schema_of,
    tables_of,
)

BASKET_BYTES = 32 << 20
"""Rows are collected to about this size: a basket of each branch."""


def to_root(run: Any, into: str | os.PathLike[str], overwrite: bool = False,
            compression: str | None = None, **selection: Any) -> Report:
    """Writes a run, or the run in a folder, into a ROOT file.

    The tree `TABLE` has a branch for each column: a number, a text, an array of one length, or an
    array of any length, whose length is the branch `COLUMN_count`. `COLUMN_valid` is false where a
    value that may be absent is. Units and meanings are in the text `TABLE_columns`, and run.json
    is the text `run_json`. Lists within lists have no place in a branch: they are left out, and
    the report names them. `compression` is None or "gzip". An interrupted export begins anew.
    """
    if compression not in (None, "none", "gzip"):
        raise ExportError(f"ROOT files have no compression `{compression}`; write none or gzip.")
    tables, chosen = opened(run), Selection.of(**selection)
    target = PartialFile(into, overwrite)
    report, began = Report(target.path, notes=list(tables.notes)), time.monotonic()
    squeeze = uproot.ZLIB(1) if compression == "gzip" else None
    try:
        with target.create() as made, uproot.recreate(made, compression=squeeze) as file:
            file["run_json"] = json.dumps(tables.info)
            for name in tables_of(tables, chosen):
                schema = schema_of(tables, name, chosen)
                columns = schema.names if chosen.columns is not None else None
                tree = _Tree(file, name, schema, report)
                for batch in _gathered(tables.batches(name, **chosen.keywords(columns))):
                    target.require(2 * batch.nbytes)
                    tree.extend(batch)
                    report.payload_bytes += batch.nbytes
                report.rows[name] = tree.rows
        check_whole(tables, chosen, report)
    except BaseException:
        target.remove()
        raise
    report.file_bytes, report.seconds = target.finish(), time.monotonic() - began
    return report


def _gathered(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Joins small batches, so that a tree has few large baskets."""
    waiting: list[pa.RecordBatch] = []
    for batch in batches:
        waiting.append(batch)
        if sum(one.nbytes for one in waiting) >= BASKET_BYTES:
            yield _joined(waiting)
            waiting = []
    if waiting:
        yield _joined(waiting)


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    if len(batches) == 1:
        return batches[0]
    table = pa.Table.from_batches(batches)
    if table.num_rows == 0:
        return batches[0]
    if any(pa.types.is_dictionary(one.type) for one in table.schema):
        table = table.unify_dictionaries()
    return table.combine_chunks().to_batches()[0]


class _Tree:
    """A tree that grows; made with its first rows, or empty at the end."""

    def __init__(self, file: Any, name: str, schema: pa.Schema, report: Report):
        self.file, self.name, self.schema, self.report = file, name, schema, report
        self.rows = 0
        self.left_out: set[str] = set()
        empty = pa.RecordBatch.from_pylist([], schema=schema)
        self.kinds = {branch: kind for branch, kind, _ in self._branches(empty)}
        file.mktree(name, self.kinds, counter_name=lambda counted: f"{counted}_count")
        about = {one.name: metadata(one) for one in schema}
        file[f"{name}_columns"] = json.dumps({key: one for key, one in about.items() if one})

    def extend(self, batch: pa.RecordBatch) -> None:
        self.file[self.name].extend({branch: values for branch, _, values in self._branches(batch)})
        self.rows += batch.num_rows

    def _branches(self, batch: pa.RecordBatch) -> Iterator[tuple[str, Any, Any]]:
        """Yields the name, the type and the values of each branch."""
        names = Names()
        for leaf in leaves(batch):
            if len(leaf.lengths) > 1:
                self._leave_out(leaf)
                continue
            names.claim(leaf.name, leaf.name)
            yield leaf.name, *_values(leaf, self._width(leaf.name))
            if self._width(leaf.name) is None and leaf.lengths:
                names.claim(f"{leaf.name}_count", "the lengths of lists")
        for one in self.schema:
            if one.nullable and not pa.types.is_struct(one.type):
                valid = batch.column(one.name).is_valid().to_numpy(zero_copy_only=False)
                names.claim(f"{one.name}_valid", f"the gaps of `{one.name}`")
                yield f"{one.name}_valid", np.dtype(np.bool_), valid

    def _width(self, column: str) -> int | None:
        """Returns the length that all lists of a column have by its type."""
        at = self.schema.get_field_index(column)
        kind = self.schema.field(at).type if at >= 0 else None
        is_fixed = kind is not None and pa.types.is_fixed_size_list(kind)
        return int(kind.list_size) if is_fixed else None

    def _leave_out(self, leaf: Leaf) -> None:
        if leaf.name not in self.left_out:
            self.left_out.add(leaf.name)
            self.report.notes.append(f"{self.name}: `{leaf.name}` is a list of lists, which a "
                                     "branch cannot have; it is left out.")


def _values(leaf: Leaf, width: int | None) -> tuple[Any, Any]:
    """Returns the type and the values of a leaf's branch."""
    values = leaf.values
    if leaf.words is not None:
        words = np.array(leaf.words or ("",), object)
        values = words[values] if len(values) else np.empty(0, object)
    if values.dtype == object and leaf.lengths:
        raise ExportError(f"the column `{leaf.name}` has lists of texts, which a branch cannot "
                          "have; leave it out by --columns.")
    if values.dtype == object:
        return "string", ak.from_iter([str(one) for one in values]) if len(values) else \
            ak.Array([""])[:0]
    if not leaf.lengths:
        return values.dtype, values
    if width is not None:
        rows = np.zeros((len(leaf.lengths[0]), width), values.dtype)
        rows[leaf.lengths[0] > 0] = values.reshape(-1, width)  # absent rows stay 0
        return np.dtype((values.dtype, (width,))), rows
    jagged = ak.unflatten(values, leaf.lengths[0].astype(np.int64))
    return f"var * {values.dtype.name}", jagged

"""Tables as groups of an HDF5 file: a growing dataset for each column."""

from __future__ import annotations

from typing import Any

import h5py
import numpy as np
import pyarrow as pa

from ._columns import Leaf, leaves, offsets
from ._selection import Names

VALUE_CHUNK_BYTES = 1 << 20
COLUMN_CHUNK_BYTES = 1 << 17
SMALL_COLUMN_FILTERS = {"compression": "gzip", "compression_opts": 1, "shuffle": True}
FILTERS: dict[str, dict[str, Any]] = {
    "none": {},
    "lzf": {"compression": "lzf", "shuffle": True},
    "gzip": {"compression": "gzip", "compression_opts": 1, "shuffle": True},
}
BOUNDS_HELP = "Where each list begins in the values; it ends where the next one begins."
CODED = ("status",)
"""Text columns with few different words, which are stored as codes."""


class TableWriter:
    """Appends batches to a group: a dataset for each column.

    Columns of numbers become one-dimensional. Lists become two-dimensional while all have the same
    length; otherwise their values are one after the other, and `NAME_offsets` has the bounds. The
    fields of the records of a packet share the bounds of `records`.
    """

    def __init__(self, group: h5py.Group, compression: str = "none", records: str = ""):
        self.group, self.records = group, records
        self.filters = FILTERS[compression]
        self._open: dict[str, h5py.Dataset] = {}
        self._codes: dict[str, dict[str, int]] = {}
        self._bounded: set[str] = set()
        self._names = Names()

    def append(self, batch: pa.RecordBatch) -> None:
        """Appends the rows of a batch."""
        self.begin_batch()
        for leaf in leaves(coded(batch)):
            self.append_leaf(leaf)

    def begin_batch(self) -> None:
        """Begins a batch, whose leaves follow one by one."""
        self._bounded.clear()

    def finish(self) -> None:
        """Closes the datasets."""
        self._open.clear()

    def append_leaf(self, leaf: Leaf) -> None:
        """Appends the values of one column."""
        self._names.claim(leaf.name, leaf.name)
        self._append_validity(leaf)
        values = self._with_codes(leaf) if leaf.words is not None else leaf.values
        if not leaf.lengths:
            self._append(leaf.name, values, leaf.attributes)
            return
        width = leaf.equal_length
        before = self._find(leaf.name)
        if width is not None and (before is None or before.shape[1:] == (width,)):
            self._append(leaf.name, values.reshape(-1, width), leaf.attributes)
            return
        if before is not None and before.ndim == 2:
            self._flatten(leaf, before)
        self._append(leaf.name, values, leaf.attributes, flat_lists=True)
        for level, lengths in enumerate(leaf.lengths):
            self._append_bounds(self._bounds_name(leaf, level), lengths)

    def _bounds_name(self, leaf: Leaf, level: int) -> str:
        if level > 0:
            return f"{leaf.name}_item_offsets"
        is_record = self.records and leaf.attributes.get("part") == "record"
        return f"{self.records if is_record else leaf.name}_offsets"

    def _append_bounds(self, name: str, lengths: np.ndarray) -> None:
        self._names.claim(name, "the bounds of lists")
        if name in self._bounded:
            return
        last = self._find(name)
        bounds = offsets(lengths, 0 if last is None else int(last[-1]))
        if last is None:
            bounds = np.concatenate([np.zeros(1, np.uint64), bounds])
        self._append(name, bounds, {"help": BOUNDS_HELP})
        self._bounded.add(name)

    def _find(self, name: str) -> h5py.Dataset | None:
        if name not in self._open and name in self.group:
            self._open[name] = self.group[name]
        return self._open.get(name)

    def _append(self, name: str, values: np.ndarray, attributes: dict[str, str],
                flat_lists: bool = False) -> None:
        dataset = self._find(name)
        if dataset is None:
            is_list = flat_lists or values.ndim == 2
            dataset = self._create(name, values, is_list)
            _describe(dataset, attributes)
        if len(values):
            first = dataset.shape[0]
            dataset.resize(first + len(values), axis=0)
            dataset[first:] = values

    def _create(self, name: str, values: np.ndarray, is_list: bool) -> h5py.Dataset:
        is_text = values.dtype == object
        kind = h5py.string_dtype() if is_text else values.dtype
        row_bytes = max(1, int(np.prod(values.shape[1:])) * (16 if is_text else kind.itemsize))
        wanted = (VALUE_CHUNK_BYTES if is_list else COLUMN_CHUNK_BYTES) // row_bytes
        rows = max(1, min(wanted, max(len(values), 64)))
        filters = self.filters if is_list else SMALL_COLUMN_FILTERS
        dataset = self.group.create_dataset(
            name, (0, *values.shape[1:]), kind, maxshape=(None, *values.shape[1:]),
            chunks=(rows, *values.shape[1:]), rdcc_nbytes=4 * rows * row_bytes, **filters,
        )
        self._open[name] = dataset
        return dataset

    def _flatten(self, leaf: Leaf, before: h5py.Dataset) -> None:
        """Turns a two-dimensional dataset into flat values, chunk by chunk."""
        rows, width = before.shape
        wide = f"{leaf.name}_being_flattened"
        self.group.move(leaf.name, wide)
        del self._open[leaf.name]
        step = before.chunks[0] * 8
        for first in range(0, rows, step):
            values = before[first : first + step].reshape(-1)
            self._append(leaf.name, values, leaf.attributes, flat_lists=True)
        del self.group[wide]
        name = self._bounds_name(leaf, 0)
        if self._find(name) is None:
            bounds = np.arange(rows + 1, dtype=np.uint64) * np.uint64(width)
            self._append(name, bounds, {"help": BOUNDS_HELP})

    def _append_validity(self, leaf: Leaf) -> None:
        name = f"{leaf.name}_valid"
        dataset = self._find(name)
        if dataset is None and leaf.valid is None:
            return
        self._names.claim(name, f"the gaps of `{leaf.name}`")
        rows = len(leaf.lengths[0]) if leaf.lengths else len(leaf.values)
        valid = np.ones(rows, np.uint8) if leaf.valid is None else leaf.valid.astype(np.uint8)
        if dataset is None:
            self._append(name, np.ones(self._rows_before(leaf), np.uint8),
                         {"help": f"0 where {leaf.name} is absent"})
        self._append(name, valid, {})

    def _rows_before(self, leaf: Leaf) -> int:
        before = self._find(leaf.name)
        if before is None:
            return 0
        if leaf.lengths and before.ndim == 1:
            bounds = self._find(self._bounds_name(leaf, 0))
            return 0 if bounds is None else int(bounds.shape[0]) - 1
        return int(before.shape[0])

    def _with_codes(self, leaf: Leaf) -> np.ndarray:
        """Returns codes of the whole table instead of codes of one batch."""
        name = f"{leaf.name}_words"
        self._names.claim(name, f"the words of `{leaf.name}`")
        if leaf.name not in self._codes:
            known = self._find(name)
            words = [] if known is None else [word.decode() for word in known[:]]
            self._codes[leaf.name] = {word: code for code, word in enumerate(words)}
        codes = self._codes[leaf.name]
        given = leaf.words or ("",)
        added = [word for word in dict.fromkeys(given) if word not in codes]
        codes |= {word: number for number, word in enumerate(added, len(codes))}
        self._append(name, np.array(added, object), {"help": f"the word of each {leaf.name}"})
        renumbered = np.array([codes[word] for word in given], np.uint16)
        return np.asarray(renumbered[leaf.values])


def coded(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Encodes text columns with few different words as dictionaries."""
    for number, one in enumerate(batch.schema):
        if one.name in CODED and pa.types.is_string(one.type):
            column = batch.column(number).dictionary_encode()
            batch = batch.set_column(number, pa.field(one.name, column.type, metadata=one.metadata),
                                     column)
    return batch


def _describe(dataset: h5py.Dataset, attributes: dict[str, str]) -> None:
    names = {"unit": "units", "help": "long_name"}
    for key, value in attributes.items():
        if value and key not in ("part", "common"):
            dataset.attrs[names.get(key, key)] = value

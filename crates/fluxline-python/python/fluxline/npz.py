"""Runs as one file of NumPy arrays (`numpy.load`)."""

from __future__ import annotations

import os
import shutil
import time
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from ._columns import Leaf, leaves, offsets
from ._partial import PartialFile
from ._selection import Names, Report, Selection, check_whole, opened, schema_of, tables_of


def to_npz(run: Any, into: str | os.PathLike[str], overwrite: bool = False,
           **selection: Any) -> Report:
    """Writes a run, or the run in a folder, into an uncompressed .npz file.

    The array `TABLE/COLUMN` has the values of a column; lists of different lengths are one after
    the other, and `TABLE/COLUMN_offsets` has their bounds. Text is codes, and
    `TABLE/COLUMN_words` has the word of each code. The arrays are collected in a temporary
    folder beside the file, so the disk needs twice the size for a while. An interrupted export
    begins anew.
    """
    tables, chosen = opened(run), Selection.of(**selection)
    target = PartialFile(into, overwrite)
    report, began = Report(target.path, notes=list(tables.notes)), time.monotonic()
    if target.part.exists():
        report.notes.append(f"{target.part} was of an interrupted export; npz begins anew.")
    try:
        with (_Scratch(target) as folder,
              target.create() as made,
              zipfile.ZipFile(made, "w", zipfile.ZIP_STORED, allowZip64=True) as archive):
            for name in tables_of(tables, chosen):
                table = _Table(folder, target)
                schema = schema_of(tables, name, chosen)
                columns = schema.names if chosen.columns is not None else None
                for batch in tables.batches(name, **chosen.keywords(columns)):
                    table.append(batch)
                    report.payload_bytes += batch.nbytes
                table.move_into(archive, name)
                report.rows[name] = table.rows
        check_whole(tables, chosen, report)
    except BaseException:
        target.remove()
        raise
    report.file_bytes, report.seconds = target.finish(), time.monotonic() - began
    return report


class _Scratch:
    """The folder of arrays that grow. One of a killed export is emptied first."""

    def __init__(self, target: PartialFile):
        self.path = target.path.with_name(target.path.name + ".columns")

    def __enter__(self) -> Path:
        if self.path.is_symlink():
            self.path.unlink()
        shutil.rmtree(self.path, ignore_errors=True)
        self.path.mkdir()
        return self.path

    def __exit__(self, *_exception: object) -> None:
        shutil.rmtree(self.path, ignore_errors=True)


class _Array:
    """A growing array in a file."""

    def __init__(self, file: Path, kind: np.dtype[Any], width: int | None):
        self.path, self.kind, self.width, self.items = file, kind, width, 0
        self.end = 0
        self.file = open(file, "wb")

    def append(self, values: np.ndarray) -> None:
        values.astype(self.kind, copy=False).tofile(self.file)
        self.items += values.size

    def shape(self) -> tuple[int, ...]:
        return (self.items,) if self.width is None else (self.items // self.width, self.width)


class _Table:
    def __init__(self, folder: Path, target: PartialFile):
        self.folder, self.target = folder, target
        self.arrays: dict[str, _Array] = {}
        self.words: dict[str, dict[str, int]] = {}
        self.names = Names()
        self.rows = 0

    def append(self, batch: pa.RecordBatch) -> None:
        self.target.require(2 * batch.nbytes)
        for leaf in leaves(batch):
            self._append_leaf(leaf)
        self.rows += batch.num_rows

    def _append_leaf(self, leaf: Leaf) -> None:
        self.names.claim(leaf.name, leaf.name)
        values = self._codes(leaf)
        width = leaf.equal_length
        known = self.arrays.get(leaf.name)
        if known is None:
            known = self._add(leaf.name, values.dtype, width)
        elif known.width is not None and known.width != width and leaf.lengths[0].size:
            bounds = self._add(f"{leaf.name}_offsets", np.dtype(np.uint64), None)
            bounds.append(np.arange(known.items // known.width + 1, dtype=np.uint64) * known.width)
            bounds.end, known.width = known.items, None
        known.append(values)
        if known.width is None:
            for level, lengths in enumerate(leaf.lengths):
                self._append_bounds(f"{leaf.name}_{'item_' * level}offsets", lengths)
        self._append_validity(leaf)

    def _append_bounds(self, name: str, lengths: np.ndarray) -> None:
        self.names.claim(name, "the bounds of lists")
        bounds = self.arrays.get(name)
        if bounds is None:
            bounds = self._add(name, np.dtype(np.uint64), None)
            bounds.append(np.zeros(1, np.uint64))
        ends = offsets(lengths, bounds.end)
        bounds.end = int(ends[-1]) if len(ends) else bounds.end
        bounds.append(ends)

    def _codes(self, leaf: Leaf) -> np.ndarray:
        """Returns the numbers of a column; of text, codes of its words."""
        if leaf.words is None and leaf.values.dtype != object:
            return leaf.values
        self.names.claim(f"{leaf.name}_words", f"the words of `{leaf.name}`")
        known = self.words.setdefault(leaf.name, {})
        given = leaf.words if leaf.words is not None else tuple(dict.fromkeys(leaf.values))
        codes = {word: known.setdefault(word, len(known)) for word in given}
        if leaf.words is None:
            return np.array([codes[word] for word in leaf.values], np.uint32)
        renumbered = np.array([codes[word] for word in given] or [0], np.uint32)
        return np.asarray(renumbered[leaf.values])

    def _append_validity(self, leaf: Leaf) -> None:
        name = f"{leaf.name}_valid"
        rows = len(leaf.lengths[0]) if leaf.lengths else len(leaf.values)
        known = self.arrays.get(name)
        if known is None and leaf.valid is None:
            return
        self.names.claim(name, f"the gaps of `{leaf.name}`")
        if known is None:
            known = self._add(name, np.dtype(np.bool_), None)
            known.append(np.ones(self.rows, np.bool_))
        known.append(np.ones(rows, np.bool_) if leaf.valid is None else leaf.valid)

    def _add(self, name: str, kind: np.dtype[Any], width: int | None) -> _Array:
        self.arrays[name] = made = _Array(self.folder / str(len(self.arrays)), kind, width)
        return made

    def move_into(self, archive: zipfile.ZipFile, table: str) -> None:
        for name, array in self.arrays.items():
            array.file.close()
            head = {"descr": np.lib.format.dtype_to_descr(array.kind), "fortran_order": False,
                    "shape": array.shape()}
            with (archive.open(f"{table}/{name}.npy", "w", force_zip64=True) as member,
                  open(array.path, "rb") as values):
                np.lib.format.write_array_header_1_0(member, head)
                while part := values.read(1 << 22):
                    member.write(part)
            array.path.unlink()
        for name, words in self.words.items():
            with archive.open(f"{table}/{name}_words.npy", "w") as member:
                np.lib.format.write_array(member, np.array(list(words) or [""]), version=(1, 0))

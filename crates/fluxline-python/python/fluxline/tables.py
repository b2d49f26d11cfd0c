"""Tables: rows that are read when they are asked for, batch by batch.

A table speaks the Arrow PyCapsule interface, so pyarrow, pandas, polars, duckdb and others read it
without a copy. None of them is needed: numpy() makes arrays by itself.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from fluxline._fluxline import Batch, Batches, Schema, Values
from fluxline.errors import Error, InputError


def library(name: str) -> Any:
    """Import a library that a user has installed, or say how to."""
    try:
        return __import__(name)
    except ImportError as error:
        raise Error(f"this needs {name}: pip install {name}") from error


class Table:
    """A table that is read anew at each use; rows come batch by batch."""

    def __init__(self, name: str, schema: Schema, begin: Callable[[], Batches]) -> None:
        self.name = name
        self._schema = schema
        self._begin = begin

    @property
    def schema(self) -> Schema:
        """The columns, with units and meanings in field_metadata."""
        return self._schema

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return self._schema.names

    @property
    def units(self) -> dict[str, str]:
        """The units of the columns that have one."""
        notes = self._schema.field_metadata.items()
        return {name: of["unit"] for name, of in notes if "unit" in of}

    def __iter__(self) -> Iterator[Batch]:
        return self._begin()

    def __len__(self) -> int:
        """Count the rows; all batches are read."""
        return sum(len(batch) for batch in self)

    def __bool__(self) -> bool:
        return True  # without a count of the rows

    def head(self, rows: int = 5) -> Any:
        """Return the first rows as a pyarrow.Table; only their batches are read."""
        pa, batches, count = library("pyarrow"), [], 0
        reader = self.reader()
        for batch in reader:
            batches.append(batch)
            count += batch.num_rows
            if count >= rows:
                break
        return pa.Table.from_batches(batches, reader.schema).slice(0, rows)

    def __arrow_c_schema__(self) -> object:
        return self._schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._begin().__arrow_c_stream__(requested_schema)

    def arrow(self) -> Any:
        """Return all rows as a pyarrow.Table."""
        return library("pyarrow").table(self)

    def reader(self) -> Any:
        """Return a pyarrow.RecordBatchReader, which reads the rows batch by batch."""
        return library("pyarrow").RecordBatchReader.from_stream(self)

    def pandas(self) -> Any:
        """Return all rows as a pandas.DataFrame."""
        library("pandas")
        return self.arrow().to_pandas()

    def polars(self) -> Any:
        """Return all rows as a polars.DataFrame."""
        return library("polars").DataFrame(self)

    def awkward(self) -> Any:
        """Return all rows as an awkward array, in which rows may have any length."""
        return library("awkward").from_arrow(self.arrow())

    def numpy(self, column: str) -> npt.NDArray[Any]:
        """Return a column of numbers or texts as one array; absent numbers are masked.

        A list column whose rows have one length becomes a two-dimensional array, a row each. Rows
        of several lengths raise InputError: use ragged(). One batch is shown without a copy.
        """
        parts = [batch_numpy(batch, column) for batch in self]
        if not parts:
            return batch_numpy(self._schema.empty(), column)
        if len({part.shape[1:] for part in parts}) > 1:
            lengths = sorted(part.shape[1] for part in parts)
            raise InputError(
                f"the rows of {column!r} have {lengths[0]} to {lengths[-1]} values; use ragged()"
            )
        if len(parts) == 1:
            return parts[0]
        is_masked = any(isinstance(part, np.ma.MaskedArray) for part in parts)
        concatenate: Any = np.ma.concatenate if is_masked else np.concatenate
        whole: npt.NDArray[Any] = concatenate(parts)
        return whole

    def ragged(self, column: str) -> tuple[npt.NDArray[Any], npt.NDArray[np.int64]]:
        """Return the values of a list column and the offsets of its rows.

        Row i is values[offsets[i]:offsets[i + 1]].
        """
        values, offsets, end = [], [np.zeros(1, np.int64)], 0
        for batch in itertools.chain([self._schema.empty()], self):
            parts = batch.parts(column)
            if parts.offsets is None:
                raise InputError(f"column {column!r} is not a list; use numpy()")
            of_batch = _view(parts.offsets, np.int64)
            values.append(_view(parts.values, parts.dtype))
            offsets.append(of_batch[1:] + end)
            end += int(of_batch[-1])
        return np.concatenate(values), np.concatenate(offsets)

    def __repr__(self) -> str:
        return f"Table({self.name!r}: {', '.join(self.columns)})"


def _view(values: Values, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    memory: Any = values  # it has the buffer protocol, which has no type before 3.12
    view: npt.NDArray[Any] = np.frombuffer(memory, np.dtype(dtype))
    return view


def batch_numpy(batch: Batch, column: str) -> npt.NDArray[Any]:
    """Return a column of a batch as an array, without a copy where no value is absent."""
    parts = batch.parts(column)
    if parts.texts is not None:
        return np.array(parts.texts)
    values = _view(parts.values, parts.dtype)
    if parts.offsets is None and parts.width is None:
        if parts.nulls is None:
            return values
        return np.ma.array(values, mask=_view(parts.nulls, np.bool_))
    if parts.width is None and len(batch):
        lengths = np.diff(_view(parts.offsets, np.int64)) if parts.offsets else np.zeros(1)
        raise InputError(
            f"the rows of {column!r} have {lengths.min()} to {lengths.max()} values; use ragged()"
        )
    return values.reshape(len(batch), parts.width or 0)

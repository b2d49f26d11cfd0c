"""Columns of a run's tables as plain NumPy arrays.

Arrow nests lists, structs and dictionaries; most laboratory formats have flat arrays. A column is
taken apart into *leaves*: flat values, and for each level of lists the length of every list.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

UNIX_EPOCH = "1970-01-01T00:00:00Z"
UNIX_TIME = "1970-01-01 UTC"
"""The metadata `epoch` of times that count from there."""


@dataclass(frozen=True)
class Leaf:
    """The flat values of a column, or of a part of a nested column."""

    name: str
    values: np.ndarray
    """One-dimensional; objects (`str`) for text."""
    lengths: tuple[np.ndarray, ...] = ()
    """The lengths of the lists, from the outermost level inwards."""
    valid: np.ndarray | None = None
    """False where the values (of a list: the rows) are absent; None if all are there."""
    words: tuple[str, ...] | None = None
    """For coded text: the word of each code."""
    attributes: dict[str, str] = field(default_factory=dict)
    """`unit`, `help` and the rest of the field's metadata."""

    @property
    def equal_length(self) -> int | None:
        """The length of all lists of a column with one level of lists, if they are equal."""
        if len(self.lengths) != 1 or len(self.lengths[0]) == 0:
            return None
        first = int(self.lengths[0][0])
        return first if first > 0 and bool((self.lengths[0] == first).all()) else None


def leaves(batch: pa.RecordBatch) -> Iterator[Leaf]:
    """Yields the leaves of all columns of a batch."""
    for one, column in zip(batch.schema, batch.columns, strict=True):
        yield from _leaves_of(Leaf(one.name, np.empty(0), attributes=metadata(one)), column)


def metadata(one: pa.Field | pa.Schema) -> dict[str, str]:
    """Returns the metadata of a field or schema as text."""
    return {_text(key): _text(value) for key, value in (one.metadata or {}).items()}


def _text(given: bytes) -> str:
    return given.decode("utf-8", "replace")


def offsets(lengths: np.ndarray, first: int = 0) -> np.ndarray:
    """Returns the end of each list in the flat values, which begin at `first`."""
    return np.cumsum(lengths, dtype=np.uint64) + np.uint64(first)


def _leaves_of(outer: Leaf, array: pa.Array) -> Iterator[Leaf]:
    kind = array.type
    if pa.types.is_struct(kind):
        for number in range(kind.num_fields):
            inner = kind.field(number)
            attributes = {**outer.attributes, **metadata(inner)}
            named = replace(outer, name=f"{outer.name}_{inner.name}", attributes=attributes)
            yield from _leaves_of(named, pc.struct_field(array, [number]))
    elif is_list(kind):
        attributes = {**metadata(kind.value_field), **outer.attributes}
        within = replace(_with_lengths(outer, array), attributes=attributes)
        yield from _leaves_of(within, array.flatten())
    elif pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        yield replace(_with_lengths(outer, array, pc.binary_length), values=_bytes(array))
    elif pa.types.is_fixed_size_binary(kind):
        yield from _leaves_of(outer, array.cast(pa.binary()))
    else:
        yield _flat(outer, array)


def is_list(kind: pa.DataType) -> bool:
    """Returns true for lists of any kind."""
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind)
                or pa.types.is_fixed_size_list(kind))


def _with_lengths(outer: Leaf, array: pa.Array,
                  length: Callable[[pa.Array], pa.Array] = pc.list_value_length) -> Leaf:
    lengths = pc.fill_null(length(array), 0).to_numpy(zero_copy_only=False).astype(np.uint64)
    valid = outer.valid if outer.lengths else _valid(array)
    return replace(outer, lengths=(*outer.lengths, lengths), valid=valid)


def _bytes(array: pa.Array) -> np.ndarray:
    array = array.drop_null()
    width = np.int64 if pa.types.is_large_binary(array.type) else np.int32
    _, ends, data = array.buffers()
    if data is None or len(array) == 0:
        return np.empty(0, np.uint8)
    bounds = np.frombuffer(ends, width)[array.offset : array.offset + len(array) + 1]
    return np.frombuffer(data, np.uint8)[bounds[0] : bounds[-1]]


def _flat(outer: Leaf, array: pa.Array) -> Leaf:
    kind = array.type
    attributes, words = dict(outer.attributes), None
    if pa.types.is_dictionary(kind):
        words = tuple(str(word) for word in array.dictionary.to_pylist())
        values = _numbers(array.indices)
    elif pa.types.is_string(kind) or pa.types.is_large_string(kind):
        values = pc.fill_null(array, "").to_numpy(zero_copy_only=False)
    elif pa.types.is_timestamp(kind):
        values = _numbers(array.cast(pa.timestamp("ns", kind.tz)).cast(pa.int64()))
        attributes |= {"unit": "ns", "start": UNIX_EPOCH}
    else:
        values = _numbers(array)
    if attributes.get("epoch") == UNIX_TIME:
        attributes["start"] = UNIX_EPOCH
        del attributes["epoch"]
    valid = outer.valid if outer.lengths else _valid(array)
    return replace(outer, values=values, valid=valid, words=words, attributes=attributes)


def _numbers(array: pa.Array) -> np.ndarray:
    if array.null_count:
        array = pc.fill_null(array, float("nan") if pa.types.is_floating(array.type) else
                             pa.scalar(0).cast(array.type))
    return np.asarray(array.to_numpy(zero_copy_only=False))


def _valid(array: pa.Array) -> np.ndarray | None:
    if not array.null_count:
        return None
    return np.asarray(pc.is_valid(array).to_numpy(zero_copy_only=False))

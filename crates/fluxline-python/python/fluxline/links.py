"""Nodes on links, and push rings as iterators of arrays."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from fluxline import _fluxline
from fluxline._fluxline import Sender as Sender
from fluxline.errors import Gone, InputError, Timeout

_Bytes = npt.NDArray[np.uint8]
_Words = npt.NDArray[np.int64]


class Records:
    """Records of a push ring: one array of bytes, and the end of each record in it."""

    def __init__(self, data: _Bytes, ends: _Words, stamps: _Words | None = None) -> None:
        self.data = data
        self.ends = ends
        self.stamps = stamps

    def __len__(self) -> int:
        return len(self.ends)

    def __getitem__(self, index: int) -> _Bytes:
        if not -len(self) <= index < len(self):
            raise IndexError(f"record {index} of {len(self)}")
        index %= len(self)
        start = self.ends[index - 1] if index else 0
        return self.data[start : self.ends[index]]

    def __iter__(self) -> Iterator[_Bytes]:
        start = 0
        for end in self.ends.tolist():
            yield self.data[start:end]
            start = end

    def array(self, dtype: npt.DTypeLike = np.uint8) -> npt.NDArray[Any]:
        """Return the records as the rows of one array, without a copy. All have one length."""
        kind = np.dtype(dtype)
        lengths = np.diff(self.ends, prepend=0)
        if len(lengths) and (lengths != lengths[0]).any():
            raise InputError(
                f"the records have {lengths.min()} to {lengths.max()} bytes; "
                "take them one by one, since the rows of an array have one length"
            )
        row = int(lengths[0]) if len(lengths) else 0
        if row % kind.itemsize:
            raise InputError(f"a record of {row} bytes is not a row of {kind}")
        return self.data.reshape(len(self), row).view(kind)

    def __repr__(self) -> str:
        return f"Records({len(self)} records, {len(self.data)} bytes)"


class Receiver:
    """The end of a push ring that reads: an iterator of Records."""

    def __init__(self, native: _fluxline.Receiver, records: int, data_bytes: int) -> None:
        self._native = native
        self._records = records
        self._data_bytes = data_bytes

    def read_into(
        self,
        data: _Bytes,
        ends: _Words,
        stamps: _Words | None = None,
        *,
        timeout: float | None = None,
    ) -> int:
        """Fill the caller's arrays with records, and return their number.

        `data` gets the bytes of the records, `ends` the end of each, and `stamps` the sender's
        times. It waits for the first record. Gone: the sender has gone, and all is read.
        """
        return self._native.read_into(data, ends, stamps, timeout=timeout)

    def _arrays(self, is_stamped: bool) -> tuple[_Bytes, _Words, _Words | None]:
        data = np.empty(self._data_bytes, np.uint8)
        ends = np.empty(self._records, np.int64)
        return data, ends, np.empty(self._records, np.int64) if is_stamped else None

    @staticmethod
    def _cut(count: int, data: _Bytes, ends: _Words, stamps: _Words | None) -> Records:
        ends = ends[:count]
        return Records(
            data[: ends[-1] if count else 0], ends, None if stamps is None else stamps[:count]
        )

    def read(self, *, stamped: bool = False, timeout: float | None = None) -> Records:
        """Return the records that are there; wait for the first one.

        Timeout: none came in time. Gone: the sender has gone, and all is read.
        """
        arrays = self._arrays(stamped)
        return self._cut(self._native.read_into(*arrays, timeout=timeout), *arrays)

    async def read_async(self, *, stamped: bool = False) -> Records:
        """Return the records that are there, as `read` does, in asyncio."""
        arrays = self._arrays(stamped)
        return self._cut(await self._native.begin_read_into(*arrays), *arrays)

    def records(self, *, timeout: float | None = 10.0) -> Iterator[_Bytes]:
        """Yield the records one by one, until the sender has finished.

        Timeout: the next one did not come in time. Gone: the sender died before it finished; all
        that it had published was read.
        """
        deaths = self.counters()["died"]
        while True:
            try:
                records = self.read(timeout=timeout)
            except Gone as gone:
                if self.counters()["died"] > deaths:
                    raise Gone("the sender died before it finished; start it again") from gone
                return
            yield from records

    def __iter__(self) -> Iterator[Records]:
        while True:
            try:
                yield self.read()
            except Gone:
                return

    async def __aiter__(self) -> Any:
        while True:
            try:
                records = await self.read_async()
            except Gone:
                return
            yield records

    def counters(self) -> dict[str, int]:
        """Return the counters of this end."""
        return self._native.counters()

    def close(self) -> None:
        """End the ring; its sender finds the receiver gone."""
        self._native.close()


class Node(_fluxline.Node):
    """An access to a link: regions, connections, push rings.

    One thread at a time uses a node; another one waits for its turn. Every call that may wait has a
    timeout in seconds of the link's time. In asyncio, await the begin_ twin of a call.
    """

    def receiver(  # type: ignore[override]
        self,
        name: str,
        key: int,
        *,
        slots: int = 1024,
        slot_bytes: int = 1500,
        batch: int = 1024,
        batch_bytes: int | None = None,
    ) -> Receiver:
        """Make a push ring for at least `slots` records of `slot_bytes`.

        `batch` and `batch_bytes` are the size of the arrays of one `read`.
        """
        native = super().receiver(name, key, slots=slots, slot_bytes=slot_bytes)
        longest = 4 * slot_bytes  # a ring takes longer records than it was planned for
        return Receiver(native, batch, batch_bytes or max(min(batch, slots) * slot_bytes, longest))

    def completions(self, *, timeout: float | None = None) -> Iterator[_fluxline.Completion]:
        """Yield completions, until none comes for `timeout` seconds."""
        while True:
            try:
                yield self.next(timeout=timeout)
            except Timeout:
                return


def open(url: str) -> Node:  # noqa: A001 - the name of the call in Rust and C
    """Open a node on the link that the URL names: shm://, udp://, xdp:// or sim:.

    A node of a simulated world waits until all nodes of the world are open, each in a thread.
    """
    return Node(url)

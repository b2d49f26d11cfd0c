"""Runs for the tests of exports: tables in memory, with the shapes that packets have."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

START = 1_795_434_140_720_361_737


class MemoryRun:
    """A run whose tables are batches in memory."""

    def __init__(self, info, tables):
        self.info = info
        self._tables = tables

    @property
    def tables(self):
        return list(self._tables)

    def table(self, name, columns=None, sources=None, events=None):
        batches = self._tables[name]
        if columns is not None:
            batches = [batch.select(list(columns)) for batch in batches]
        return pa.RecordBatchReader.from_batches(batches[0].schema, batches)


def described(name, kind, unit="", help="", **more):
    pairs = {"unit": unit, "help": help, **more}
    return pa.field(name, kind, metadata={key: value for key, value in pairs.items() if value})


def info(**more):
    return {"folder": "runs/0042", "began_ns": START, "ended_ns": START + 2_000_000_000,
            "experiment": {"name": "bench of the tests"}, "state": "finished", "fluxline": "0.1.0",
            "headline": "Received 8 datagrams.", **more}


def waveforms(seed, batches=3, rows=5, samples=16, ragged=False):
    """Returns batches of a table with a waveform in each row."""
    random = np.random.default_rng(seed)
    made = []
    for number in range(batches):
        lengths = random.integers(0, samples, rows) if ragged else np.full(rows, samples)
        values = random.integers(-32768, 32767, int(lengths.sum()), dtype=np.int16)
        bounds = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
        times = START + np.arange(rows) * 1000 + number * 1_000_000
        fields = [
            described("event", pa.uint64()), described("source", pa.uint32()),
            described("time", pa.timestamp("ns", "UTC"), help="When it arrived."),
            described("gain", pa.uint8(), "dB"),
            described("amplitude", pa.list_(pa.int16()), "count", "Samples of the digitiser."),
        ]
        columns = [
            pa.array(np.arange(rows, dtype=np.uint64) + number * rows),
            pa.array((np.arange(rows) % 2).astype(np.uint32)),
            pa.array(times, pa.timestamp("ns", "UTC")),
            pa.array([None if random.random() < 0.2 else 7 for _ in range(rows)], pa.uint8()),
            pa.ListArray.from_arrays(pa.array(bounds), pa.array(values)),
        ]
        made.append(pa.record_batch(columns, schema=pa.schema(fields)))
    return made

"""Measures size and speed of the exports, beside one row per sample.

    python3 crates/fluxline-python/tests/labs/bench_formats.py FOLDER [MEGABYTES]

The batches come from memory: 12-bit noise of a digitizer in waveforms of 1,000 samples, with the
columns that every packet has. So this is the speed of the writers alone.
"""

import sys
import time
from pathlib import Path

import h5py
import memory_runs as runs
import numpy as np
import pyarrow as pa

from fluxline.hdf5 import to_hdf5
from fluxline.nexus import to_nexus
from fluxline.npz import to_npz

SAMPLES, ROWS = 1000, 2000
TIMES = 3


def batches(megabytes):
    random = np.random.default_rng(1)
    count = max(1, megabytes * 1_000_000 // (ROWS * SAMPLES * 2))
    values = [random.normal(2048, 20, ROWS * SAMPLES).astype(np.int16) for _ in range(4)]
    made = []
    for number in range(count):
        row = np.arange(number * ROWS, (number + 1) * ROWS, dtype=np.uint64)
        bounds = np.arange(ROWS + 1, dtype=np.int32) * SAMPLES
        columns = {
            "event": row, "event_key": row, "source": (row % 4).astype(np.uint32),
            "sequence": row, "time": pa.array((row + runs.START).astype(np.int64),
                                              pa.timestamp("ns", "UTC")),
            "board": (row % 4).astype(np.uint16), "trigger": row.astype(np.uint32),
            "adc": pa.ListArray.from_arrays(pa.array(bounds), pa.array(values[number % 4])),
        }
        made.append(pa.RecordBatch.from_pydict(columns))
    return made


def row_per_sample(given, path):
    """Writes a compound row for each sample, as a first script would."""
    kinds = [("event", "u8"), ("event_key", "u8"), ("source", "u4"), ("sequence", "u8"),
             ("time", "i8"), ("board", "u2"), ("trigger", "u4"), ("record", "u4"), ("adc", "i2")]
    with h5py.File(path, "w") as file:
        table = file.create_dataset("samples", (0,), np.dtype(kinds), maxshape=(None,),
                                    chunks=(1 << 16,))
        for batch in given:
            rows = np.zeros(batch.num_rows * SAMPLES, np.dtype(kinds))
            for name, _ in kinds[:7]:
                column = batch.column(name)
                column = column.cast(pa.int64()) if name == "time" else column
                rows[name] = np.repeat(column.to_numpy(), SAMPLES)
            rows["record"] = np.tile(np.arange(SAMPLES), batch.num_rows)
            rows["adc"] = batch.column("adc").flatten().to_numpy()
            first = table.shape[0]
            table.resize(first + len(rows), axis=0)
            table[first:] = rows


def plain_file(given, path):
    """Writes the bytes of the samples and nothing else: the floor."""
    with open(path, "wb") as file:
        for batch in given:
            file.write(batch.column("adc").flatten().to_numpy())


def main():
    folder = Path(sys.argv[1])
    given = batches(int(sys.argv[2]) if len(sys.argv) > 2 else 200)
    payload = sum(batch.num_rows for batch in given) * SAMPLES * 2
    run = runs.MemoryRun(runs.info(), {"digitizer-waveform": given})
    ways = {
        "samples alone, a plain file": lambda path: plain_file(given, path),
        "npz": lambda path: to_npz(run, path, overwrite=True),
        "hdf5": lambda path: to_hdf5(run, path, overwrite=True),
        "hdf5, lzf": lambda path: to_hdf5(run, path, overwrite=True, compression="lzf"),
        "hdf5, gzip": lambda path: to_hdf5(run, path, overwrite=True, compression="gzip"),
        "nexus": lambda path: to_nexus(run, path, overwrite=True),
        "hdf5, a row per sample": lambda path: row_per_sample(given, path),
    }
    print(f"{payload / 1e6:.0f} MB of samples; best of {TIMES}")
    path = folder / "bench.out"
    for name, write in ways.items():
        spans = []
        for _ in range(TIMES):
            began = time.monotonic()
            write(path)
            spans.append(time.monotonic() - began)
        share, rate = path.stat().st_size / payload, payload / 1e6 / min(spans)
        print(f"{name:<30} {share:6.3f} of the samples {rate:8.0f} MB/s", flush=True)
        path.unlink()


if __name__ == "__main__":
    main()

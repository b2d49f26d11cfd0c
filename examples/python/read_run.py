#!/usr/bin/env python3
"""Reads the events of a run folder with pyarrow alone, as they are on disk.

    python3 examples/python/read_run.py runs/0000        (needs: pip install pyarrow)
"""

import glob
import json
import sys

import pyarrow as pa
import pyarrow.compute as pc

folder = sys.argv[1]
run = json.load(open(f"{folder}/run.json"))
print(f"{folder}: {run['state']}, {run['totals']['lost']} packets lost")

events = incomplete = packets = 0
for path in sorted(glob.glob(f"{folder}/events-*.arrows")):
    with pa.OSFile(path) as file, pa.ipc.open_stream(file) as stream:
        for batch in stream:  # one batch is one unit of safety
            status = batch.column("status").to_pylist()
            events += batch.num_rows
            incomplete += sum(word != "complete" for word in status)
            packets += pc.sum(pc.list_value_length(batch.column("packets"))).as_py()
print(f"{events} events, {incomplete} incomplete, {packets} packets")

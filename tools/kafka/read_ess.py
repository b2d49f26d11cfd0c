#!/usr/bin/env python3
"""Reads a topic of ESS messages with confluent-kafka and streaming_data_types: no code of Fluxline.

usage: read_ess.py BROKER TOPIC[,RUN-TOPIC] PARQUET-FOLDER

Compares every value with the same run exported to Parquet: the packets of the formats `counter`
(da00) and `srs-vmm3` (ev44) and of a format `slow` with a field `temperature` (f144). Prints one
JSON document with the number of messages of each schema and of their values. Fails when a message
is there twice, or a value differs. With RUN-TOPIC, starts and stops of runs must be there, and
nothing else.
"""

import collections
import json
import pathlib
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from streaming_data_types import (
    deserialise_6s4t,
    deserialise_da00,
    deserialise_ev44,
    deserialise_f144,
    deserialise_pl72,
)

from read_events import records


def table(folder: pathlib.Path, column: str) -> list[dict]:
    """Returns the rows of the tables that have this column; times are integers."""
    rows = []
    for file in sorted(folder.glob("*.parquet")):
        read = pq.read_table(file)
        if column in read.column_names and "source" in read.column_names:
            for at, field in enumerate(read.schema):
                if pa.types.is_temporal(field.type):
                    read = read.set_column(at, field.name, read.column(at).cast("int64"))
            rows.extend(read.to_pylist())
    return rows


def waveforms(folder: pathlib.Path) -> dict:
    """Returns the samples of each event and board, packets in the order of their numbers."""
    parts = collections.defaultdict(list)
    for row in table(folder, "amplitude"):
        key = (f"counter-{row['source_id']}", row["event_number"])
        parts[key].append((row["fragment_index"], row["time"], row["amplitude"]))
    expected = {}
    for key, packets in parts.items():
        packets.sort(key=lambda packet: packet[0])
        expected[key] = [value for packet in packets for value in packet[2]]
    return expected


def hits(folder: pathlib.Path) -> dict:
    """Returns the detector events of each name and time, as times of flight and pixels."""
    expected = collections.defaultdict(list)
    for row in table(folder, "bcid_gray"):
        name = f"srs-vmm3-{row['fec_id']}"
        of = zip(row["is_hit"], row["time_offset"], row["bcid"], row["vmm"], row["channel"])
        for is_hit, offset, bcid, vmm, channel in of:
            if is_hit:
                tof = (offset * 4096 + bcid) * 25000 // 1000
                pixel = row["fec_id"] * 2048 + vmm * 64 + channel
                expected[name, row["time"]].append((tof, pixel))
    return expected


def main() -> None:
    broker, topics, folder = sys.argv[1], sys.argv[2].split(","), pathlib.Path(sys.argv[3])
    seen: set[str] = set()
    counts: collections.Counter = collections.Counter()
    found_waves, found_hits = {}, collections.defaultdict(list)
    found_logs, runs = [], {}
    of_topics = (
        (topic, key, value)
        for topic in topics
        for key, value in records(broker, topic, b"application/x-flatbuffers")
    )
    for topic, key, value in of_topics:
        if key in seen:
            sys.exit(f"the record {key} is there twice")
        seen.add(key)
        schema = value[4:8].decode()
        if topic != (topics[-1] if schema in ("pl72", "6s4t") else topics[0]):
            sys.exit(f"a message of {schema} is in the topic {topic}")
        counts[schema] += 1
        if schema == "ev44":
            of = deserialise_ev44(value)
            ends = np.append(of.reference_time_index[1:], len(of.time_of_flight))
            for time, start, end in zip(of.reference_time, of.reference_time_index, ends):
                pairs = zip(of.time_of_flight[start:end], of.pixel_id[start:end])
                found_hits[of.source_name, int(time)].extend((int(t), int(p)) for t, p in pairs)
        elif schema == "da00":
            of = deserialise_da00(value)
            variables = {variable.name: variable for variable in of.data}
            event = (of.source_name, int(variables["event"].data))
            if event in found_waves:
                sys.exit(f"the array {event} is there twice")
            found_waves[event] = variables["signal"].data.tolist()
        elif schema == "f144":
            of = deserialise_f144(value)
            found_logs.append((of.source_name, of.timestamp_unix_ns, int(of.value)))
        elif schema == "pl72":
            runs["start"] = deserialise_pl72(value)
            json.loads(runs["start"].nexus_structure)
        elif schema == "6s4t":
            runs["stop"] = deserialise_6s4t(value)
    expected_waves, expected_hits = waveforms(folder), hits(folder)
    if found_waves != expected_waves:
        sys.exit(f"{len(found_waves)} arrays differ from {len(expected_waves)} in the export")
    found_hits = {key: sorted(of) for key, of in found_hits.items() if of}
    if found_hits != {key: sorted(of) for key, of in expected_hits.items()}:
        sys.exit(f"the events of {len(found_hits)} times differ from those of the export")
    logs = [(f"T{r['board']}", r["time"], r["temperature"]) for r in table(folder, "temperature")]
    if sorted(found_logs) != sorted(logs):
        sys.exit(f"{len(found_logs)} logged values differ from {len(logs)} in the export")
    start, stop = runs["start"], runs["stop"]
    if (start.job_id, start.run_name) != (stop.job_id, stop.run_name):
        sys.exit("start and stop are of different runs")
    if not 0 < start.start_time <= stop.stop_time:
        sys.exit(f"the run starts at {start.start_time} and stops at {stop.stop_time}")
    counts["hits"] = sum(len(of) for of in found_hits.values())
    counts["samples"] = sum(len(of) for of in found_waves.values())
    print(json.dumps(counts))


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Reads a topic of events with confluent-kafka and pyarrow: no code of Fluxline.

usage: read_events.py BROKER TOPIC

Prints one JSON document: records, events, packets, bytes, and the runs with their batches. Fails
when a record is there twice, or is not a whole Arrow IPC stream. Records of transactions that are
open or were aborted are not read.
"""

import json
import sys

import pyarrow as pa
from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    TopicPartition,
)


ARROW = b"application/vnd.apache.arrow.stream"


def records(broker: str, topic: str, kind: bytes = ARROW):
    """Yields key and value of each record whose content type begins with `kind`, from the beginning
    to the present end."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker,
            "group.id": "read_events",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    partitions = consumer.list_topics(topic, timeout=10).topics[topic].partitions
    for number in partitions:
        consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING)])
        while True:
            message = consumer.poll(30)
            if message is None:
                raise TimeoutError(f"partition {number} gives no record")
            if message.error() and message.error().code() == KafkaError._PARTITION_EOF:
                break
            if message.error():
                raise KafkaException(message.error())
            headers = dict(message.headers() or [])
            if headers.get("content-type", b"").startswith(kind):
                yield message.key().decode(), message.value()
    consumer.close()


def main() -> None:
    broker, topic = sys.argv[1:3]
    seen: set[str] = set()
    runs: dict[str, set[str]] = {}
    total = {"records": 0, "events": 0, "packets": 0, "bytes": 0}
    for key, value in records(broker, topic):
        if key in seen:
            sys.exit(f"the record {key} is there twice")
        seen.add(key)
        run, batch, _piece = key.split("/")
        runs.setdefault(run, set()).add(batch)
        for table in pa.ipc.open_stream(value):
            table.validate(full=True)
            packets = table.column("packets").flatten()
            total["events"] += table.num_rows
            total["packets"] += len(packets)
            total["bytes"] += sum(len(data.as_py()) for data in packets.field("data"))
        total["records"] += 1
    total["runs"] = {run: sorted(batches) for run, batches in runs.items()}
    print(json.dumps(total))


if __name__ == "__main__":
    main()

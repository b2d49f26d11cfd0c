#!/usr/bin/env python3
"""Reads a topic of events with confluent-kafka and pyarrow: no code of Fluxline.

usage: read_events.py BROKER TOPIC

Prints one JSON document: records, events, packets, bytes, and the runs with their batches. Fails
when a record is there twice, or is not a whole Arrow IPC stream.
"""

import json
import sys

import pyarrow as pa
from confluent_kafka import Consumer, KafkaException, TopicPartition


def records(broker: str, topic: str):
    """Yields key and value of each record from the beginning to the present end."""
    consumer = Consumer({"bootstrap.servers": broker, "group.id": "read_events"})
    partitions = consumer.list_topics(topic, timeout=10).topics[topic].partitions
    for number in partitions:
        low, high = consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=10)
        consumer.assign([TopicPartition(topic, number, low)])
        while low < high:
            message = consumer.poll(10)
            if message is None:
                raise TimeoutError(f"partition {number} ends before offset {high}")
            if message.error():
                raise KafkaException(message.error())
            low = message.offset() + 1
            yield message.key().decode(), message.value()
    consumer.close()


def main() -> None:
    broker, topic = sys.argv[1:3]
    seen: set[str] = set()
    runs: dict[str, set[int]] = {}
    total = {"records": 0, "events": 0, "packets": 0, "bytes": 0}
    for key, value in records(broker, topic):
        if key in seen:
            sys.exit(f"the record {key} is there twice")
        seen.add(key)
        run, batch, _piece = key.split("/")
        runs.setdefault(run, set()).add(int(batch))
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

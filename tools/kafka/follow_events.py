#!/usr/bin/env python3
"""Follows a topic of events and misses none, however often it is killed: no code of Fluxline.

usage: follow_events.py BROKER TOPIC GROUP FILE [SECONDS]

Appends one line per event to FILE: the key of its record and the key of the event; and a line with
`end` behind each record. It ends after SECONDS without a record; by default it goes on. The place
in the topic is committed after the lines are on the disk, so a consumer that was killed reads its
last records again. The record's key shows that: records that FILE has are not written again.
"""

import os
import sys

import pyarrow as pa
from confluent_kafka import Consumer, KafkaException


def main() -> None:
    broker, topic, group, path = sys.argv[1:5]
    patience = float(sys.argv[5]) if len(sys.argv) > 5 else None
    keep_whole_records(path)
    consumer = Consumer(
        {
            "bootstrap.servers": broker,
            "group.id": group,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            "session.timeout.ms": 6000,  # the least that brokers accept by default
        }
    )
    consumer.subscribe([topic])
    with open(path) as file:
        done = {line.split(" ")[0] for line in file}
    idle = 0.0
    with open(path, "a") as file:
        while patience is None or idle < patience:
            message = consumer.poll(0.2)
            if message is None:
                idle += 0.2
                continue
            if message.error():
                raise KafkaException(message.error())
            idle = 0.0
            key = (message.key() or b"").decode(errors="replace")
            if is_events(message) and key not in done:
                for table in pa.ipc.open_stream(message.value()):
                    lines = [f"{key} {event} event" for event in table.column("key").to_pylist()]
                    file.write("\n".join(lines) + "\n")
                file.write(f"{key} - end\n")
                file.flush()
                os.fsync(file.fileno())
                done.add(key)
            consumer.commit(message, asynchronous=False)
    consumer.close()


def is_events(message) -> bool:
    """Returns true for a record with events; descriptions of sources have another type."""
    headers = dict(message.headers() or [])
    return headers.get("content-type") == b"application/vnd.apache.arrow.stream"


def keep_whole_records(path: str) -> None:
    """Cuts lines behind the last complete record, which a kill may leave. A file of another kind is
    refused, and stays as it is."""
    end = b" - end\n"
    with open(path, "ab+") as file:
        file.seek(0)
        text = file.read()
        last = text.rfind(end)
        # A kill during the first record leaves events without an end.
        if text and last < 0 and not text.partition(b"\n")[0].endswith(b" event"):
            sys.exit(f"follow_events.py: {path} is not a file of this program; give another FILE")
        file.truncate(last + len(end) if last >= 0 else 0)


if __name__ == "__main__":
    main()

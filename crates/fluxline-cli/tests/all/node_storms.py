"""Counts the packets of run folders with pyarrow alone, which shares no code with the program.

    python3 node_storms.py PACKETS FOLDER...

Each board numbers its packets from 0 to PACKETS - 1. Prints one JSON object:

    packets     recorded packets of all folders
    doubled     packets that are there more than once
    strangers   packets that no board sent, or whose source is another
    by_input    recorded packets by the name of their input
    torn        files that end in the middle of a batch
"""

import collections
import glob
import json
import struct
import sys

import pyarrow

HEADER = struct.Struct("<IBBHIHHQQ")


def batches_of(path, torn):
    """The batches of a file, up to where it can be read."""
    try:
        with pyarrow.OSFile(path) as file, pyarrow.ipc.open_stream(file) as stream:
            yield from stream
    except (pyarrow.ArrowInvalid, OSError):
        torn.append(path)


def sources_of(folder):
    """Input and name of each source number."""
    with open(f"{folder}/sources.jsonl", encoding="utf-8") as file:
        rows = [json.loads(line) for line in file if line.endswith("\n")]
    return {row["source"]: (row["input"], row["name"]) for row in rows}


def main():
    count, torn = int(sys.argv[1]), []
    seen, by_input, strangers = collections.Counter(), collections.Counter(), 0
    for folder in sys.argv[2:]:
        for path in sorted(glob.glob(f"{folder}/events-*.arrows")):
            sources = sources_of(folder)
            for batch in batches_of(path, torn):
                rows = batch.column("packets").flatten()
                field = rows.type.get_field_index
                columns = (rows.field(field(name)).to_pylist() for name in ("source", "data"))
                for source, data in zip(*columns):
                    named, label = sources[source]
                    head = HEADER.unpack_from(data)
                    board, number = head[3], head[4]
                    is_own = label.split("/")[-1] == f"source_id={board}"
                    strangers += number >= count or not is_own
                    seen[(named, board, number)] += 1
                    by_input[named] += 1
    print(json.dumps({
        "packets": sum(seen.values()),
        "doubled": sum(times - 1 for times in seen.values()),
        "strangers": strangers,
        "by_input": by_input,
        "torn": len(torn),
    }))


if __name__ == "__main__":
    main()

"""Compares what was sent with what a run folder holds, packet by packet, with pyarrow alone.

    python3 check.py RUN LOG...

Prints one JSON object of counts; crates/fluxline-cli/tests/outside/main.rs says what each must be:

    sent        by kind: packets that left; "unknown": at most the last one of a killed sender
    rows        by status: rows of the event files
    packets     recorded packets
    absent      by kind: packets that left and are in no row
    doubled     packets that are in the files more often than they were sent
    strangers   recorded packets that nobody sent
    misread     recorded packets whose source, counter or key is not what their bytes say
    shared      positions (generation, key) with more than one row that is not late
    split       triggers (spill, key) whose packets lie at more than one position
    mixed       positions with packets of more than one trigger
    torn        event files that end in the middle of a batch
    triggers    triggers of which anything was recorded
    by_board    by board: recorded packets
    late        by board: of these, in rows with status "late"
    last_ns     by board: when the last packet left that is recorded
    absent_ns   when each absent data packet had left, the earliest first (at most 20)
"""

import collections
import glob
import json
import os
import sys

import pyarrow

import board


def sent_of(logs):
    """The truth, by digest: how often it was sent, and as what."""
    sent = {}
    kinds = collections.Counter()
    for log in logs:
        with open(log, encoding="ascii") as file:
            for line in file:
                words = line.split()
                kind = words[0] if len(words) == 9 else "unknown"
                kinds[kind] += 1
                if kind == "dropped":
                    continue
                entry = sent.setdefault(words[6], {"times": 0, "kind": kind, "words": words})
                entry["times"] += 1
    return sent, kinds


def batches_of(folder, torn):
    """The batches of a run's event files, up to where each file can be read."""
    for path in sorted(glob.glob(f"{folder}/events-*.arrows")):
        try:
            with pyarrow.OSFile(path) as file, pyarrow.ipc.open_stream(file) as stream:
                yield from stream
        except pyarrow.ArrowInvalid:
            torn.append(path)
        except OSError:
            torn.append(path)


def rows_of(batch):
    """The rows of a batch, with what is compared."""
    lists = batch.column("packets")
    packets = lists.flatten()
    names = ("source", "sequence", "data")
    columns = [packets.field(packets.type.get_field_index(name)).to_pylist() for name in names]
    every = [dict(zip(names, values)) for values in zip(*columns)]
    keys, status = (batch.column(name).to_pylist() for name in ("key", "status"))
    has_generation = "generation" in batch.schema.names
    generations = batch.column("generation").to_pylist() if has_generation else [0] * len(keys)
    first = 0
    for key, generation, word, count in zip(keys, generations, status, lists.value_lengths()):
        following = first + count.as_py()
        yield {"key": key, "generation": generation, "status": word,
               "packets": every[first:following]}
        first = following


def labels_of(folder):
    """The names of the source numbers; a run that was killed early has no names yet."""
    if not os.path.exists(f"{folder}/sources.jsonl"):
        return {}
    with open(f"{folder}/sources.jsonl", encoding="utf-8") as file:
        rows = [json.loads(line) for line in file if line.endswith("\n")]
    return {row["source"]: row["name"] for row in rows}


class Found:
    """Compares the content of the files with the truth while it is read."""

    def __init__(self, folder, sent):
        self.sent, self.labels, self.torn = sent, labels_of(folder), []
        self.rows, self.recorded = collections.Counter(), collections.Counter()
        self.counts = collections.Counter(strangers=0, misread=0, packets=0)
        self.by_board, self.late, self.last_ns = (collections.Counter() for _ in range(3))
        self.whole = collections.Counter()
        self.triggers_at = collections.defaultdict(set)
        self.positions_of = collections.defaultdict(set)
        for batch in batches_of(folder, self.torn):
            for row in rows_of(batch):
                self.event(row)

    def event(self, row):
        """Looks at one row."""
        self.rows[row["status"]] += 1
        position = None
        if row["key"] is not None:
            position = (row["generation"], row["key"])
            self.whole[position] += row["status"] != "late"
        for packet in row["packets"]:
            self.packet(packet, position, row)

    def packet(self, packet, position, row):
        """Looks at one packet of a row."""
        self.counts["packets"] += 1
        name = board.digest(packet["data"])
        truth = self.sent.get(name)
        if truth is None:
            self.counts["strangers"] += 1
            return
        self.recorded[name] += 1
        head = dict(zip(board.HEADER_FIELDS, board.HEADER.unpack_from(packet["data"])))
        label = self.labels.get(packet["source"], "")
        right = label.split("/")[-1] == f"board={head['board']}"
        # Numbers are unwrapped: in the files they may have more bits than on the wire.
        right &= packet["sequence"] is not None and packet["sequence"] % 2**32 == head["counter"]
        if position is not None:
            right &= position[1] % 2**32 == head["key"]
            trigger = (int(truth["words"][2]), head["key"])
            self.triggers_at[position].add(trigger)
            self.positions_of[trigger].add(position)
        self.counts["misread"] += not right
        number = str(head["board"])
        self.by_board[number] += 1
        self.late[number] += row["status"] == "late"
        if truth["kind"] != "unknown":
            self.last_ns[number] = max(self.last_ns[number], int(truth["words"][8]))

    def absent(self):
        """Packets that left and are in no row: how many of each kind, and when they had left."""
        kinds, times = collections.Counter(), []
        for name, truth in self.sent.items():
            left = truth["times"] - self.recorded[name]
            if left <= 0 or truth["kind"] == "unknown":
                continue
            if self.recorded[name] > 0:
                kinds["copy"] += left
                continue
            kinds[truth["kind"]] += 1
            kinds["copy"] += truth["times"] - 1
            if truth["kind"] == "data":
                times.append(int(truth["words"][8]))
        return {kind: count for kind, count in kinds.items() if count}, sorted(times)[:20]


def main():
    folder = sys.argv[1]
    sent, kinds = sent_of(sys.argv[2:])
    found = Found(folder, sent)
    absent, times = found.absent()
    doubled = sum(max(0, count - sent[name]["times"]) for name, count in found.recorded.items())
    print(json.dumps({
        "sent": kinds,
        "rows": found.rows,
        **found.counts,
        "absent": absent,
        "doubled": doubled,
        "shared": sum(count > 1 for count in found.whole.values()),
        "split": sum(len(of) > 1 for of in found.positions_of.values()),
        "mixed": sum(len(of) > 1 for of in found.triggers_at.values()),
        "triggers": len(found.positions_of),
        "torn": len(found.torn),
        "by_board": found.by_board,
        "late": found.late,
        "last_ns": found.last_ns,
        "absent_ns": times,
    }))


if __name__ == "__main__":
    main()

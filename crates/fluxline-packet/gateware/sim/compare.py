#!/usr/bin/env python3
"""Joins the board's ledger with the receiver's: each block must be in exactly one place.

    compare.py sim.json status.json run.json"""
import json
import sys

sim, status, run = (json.load(open(path)) for path in sys.argv[1:4])
ledger = run["ledger"]


def total(entries, part="counters"):
    keys = entries[0].get(part, {}) if entries else {}
    return {key: sum(entry[part][key] for entry in entries) for key in keys}


source, wire = total(ledger["sources"]), sim["wire"]
socket_dropped = total(ledger["inputs"])["socket_dropped"]
remote = total(ledger["inputs"], "remote")
laws = [
    ("taken = dropped in the FIFO + waiting + sent, in the RTL",
     sim["blocks_taken"], sim["blocks_dropped"] + sim["blocks_waiting"] + sim["packets_sent"]),
    ("the register window says the same",
     [status[key] for key in ("taken", "dropped", "sent", "waiting")],
     [sim[key] for key in ("blocks_taken", "blocks_dropped", "packets_sent", "blocks_waiting")]),
    ("sent = written to the wire + lost on purpose",
     sim["packets_sent"], wire["written"] + wire["lost"]),
    ("the receiver's count of taken blocks is the RTL's",
     source["board_taken"], sim["blocks_taken"]),
    ("the receiver's count of dropped blocks is the RTL's",
     source["board_dropped"], sim["blocks_dropped"]),
    ("the board's counts and its packet counter agree", source["board_contradictions"], 0),
    ("lost = lost on purpose + dropped by the kernel at the socket + with a wrong ICRC",
     source["lost"], wire["lost"] + socket_dropped + remote.get("frames_wrong_check", 0)),
    ("taken = recorded + lost + dropped in the FIFO",
     sim["blocks_taken"], source["recorded"] + source["lost"] + source["board_dropped"]),
    ("the receiver's ledger closes", run["closes"], True),
]
if remote.get("frames"):
    laws += [
        ("frames with a flipped bit are those with a wrong ICRC",
         wire["flipped"], remote["frames_wrong_check"]),
        ("every other frame is in its slot of the memory",
         remote["frames_placed"], wire["written"] - wire["flipped"] - socket_dropped),
        ("the numbers of frames say what was sent",
         remote["frames_expected"], sim["packets_sent"]),
    ]
bad = 0
for name, left, right in laws:
    bad += left != right
    print("ok  " if left == right else "FAIL", f"{left} = {right}: {name}")
print(f"{len(laws) - bad} equations hold, {bad} do not")
sys.exit(bad != 0)

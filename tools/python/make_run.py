#!/usr/bin/env python3
"""Records a run of 1 GB of waveforms, for bench.py: make_run.py PROGRAM FOLDER"""

import pathlib
import subprocess
import sys

import numpy as np

DESCRIPTION = """
name = "digitizer"
about = "Waveforms of 1000 samples."
reference = "none: made up for measurements"
byte-order = "big"

[[packet]]
name = "waveform"
source = ["board"]
fields = [
  { name = "magic", type = "u16", equals = 0xBEEF },
  { name = "board", type = "u16" },
  { name = "trigger", type = "u32" },
]
sequence = { value = "trigger" }
event = { key = "trigger" }
[packet.records]
name = "sample"
bytes = 2
fields = [{ name = "adc", type = "i16", unit = "mV" }]
"""

EXPERIMENT = """
name = "1 GB of waveforms"
[[source]]
name = "boards"
format = "digitizer.toml"
[source.raw]
file = "packets.bin"
record-bytes = 2008
[events]
build = "key"
require = 4
"""

BOARDS, SAMPLES, EVENTS = 4, 1000, 125_000


def main():
    program, folder = (pathlib.Path(argument).resolve() for argument in sys.argv[1:3])
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "digitizer.toml").write_text(DESCRIPTION)
    (folder / "run.toml").write_text(EXPERIMENT)
    kind = np.dtype(
        [("magic", ">u2"), ("board", ">u2"), ("trigger", ">u4"), ("adc", ">i2", SAMPLES)]
    )
    packets = np.zeros((EVENTS, BOARDS), kind)
    packets["magic"] = 0xBEEF
    packets["board"] = np.arange(BOARDS)
    packets["trigger"] = np.arange(EVENTS)[:, np.newaxis]
    packets["adc"] = np.random.default_rng(1).integers(-500, 500, SAMPLES)
    file = folder / "packets.bin"
    packets.tofile(file)
    subprocess.run([program, "run", "run.toml"], cwd=folder, check=True, stdout=sys.stderr)
    file.unlink()


if __name__ == "__main__":
    main()

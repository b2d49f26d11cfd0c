"""Runs of boards that send a waveform for each trigger; for tests and benchmarks."""

import subprocess

import numpy as np

DESCRIPTION = """
name = "digitizer"
about = "Waveforms."
reference = "none: made up for tests and measurements"
byte-order = "big"
[[packet]]
name = "waveform"
source = ["board"]
fields = [
  { name = "board", type = "u16" },
  { name = "temperature", type = "u16", unit = "mK", help = "Of the board." },
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
name = "{name}"
runs = "runs"
[[source]]
name = "boards"
format = "digitizer.toml"
[source.raw]
file = "packets.bin"
record-bytes = {bytes}
[events]
build = "key"
require = {boards}
"""

HEADER = [("board", ">u2"), ("temperature", ">u2"), ("trigger", ">u4")]


def record(program, folder, adc, name="digitizers"):
    """Record a run of the samples `adc`, by event, board and sample; return its folder."""
    events, boards, samples = adc.shape
    packets = np.zeros((events, boards), np.dtype([*HEADER, ("adc", ">i2", samples)]))
    packets["board"] = np.arange(boards)
    packets["trigger"] = np.arange(events)[:, np.newaxis]
    packets["temperature"] = 300 + packets["board"]
    packets["adc"] = adc
    (folder / "digitizer.toml").write_text(DESCRIPTION)
    experiment = EXPERIMENT.format(name=name, bytes=packets.dtype.itemsize, boards=boards)
    (folder / "run.toml").write_text(experiment)
    file = folder / "packets.bin"
    packets.tofile(file)
    subprocess.run([program, "run", "run.toml"], cwd=folder, check=True, capture_output=True)
    file.unlink()
    return folder / "runs/0000"

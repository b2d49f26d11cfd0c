#!/usr/bin/env python3
"""Records a run of 1 GB of waveforms, for bench.py: make_run.py PROGRAM FOLDER"""

import pathlib
import sys

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "crates/fluxline-python/tests"))

import digitizer  # noqa: E402 - found in the folder of tests

BOARDS, SAMPLES, EVENTS = 4, 1000, 125_000


def main():
    program, folder = (pathlib.Path(argument).resolve() for argument in sys.argv[1:3])
    folder.mkdir(parents=True, exist_ok=True)
    one = np.random.default_rng(1).integers(-500, 500, SAMPLES, dtype=np.int16)
    adc = np.broadcast_to(one, (EVENTS, BOARDS, SAMPLES))
    digitizer.record(program, folder, adc, "1 GB of waveforms")


if __name__ == "__main__":
    main()

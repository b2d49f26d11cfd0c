#!/usr/bin/env python3
"""Builds the test programs of all crates, and runs several of them at a time.

    tools/run_tests.py [--jobs N] [--only NAME,NAME] [--] [FLAGS OF CARGO]

`cargo test` runs one program after another, so the cores idle while a test waits for a broker, a
time-out or a process. Here the programs run side by side, those with the longest time first: the
times of the last run are in target/test-times.json, and SLOW lists names for a fresh clone. The
programs in ALONE measure the machine or need all of it, so each of them runs alone at the end.

A program's output is shown when it has failed. The status is 1 when a program has failed, and the
others run nevertheless. A program that takes more than LIMIT_S is killed with its children and
counts as failed: the output then names the test that hangs. Each program runs in its crate's folder, as under cargo. The tests in
documentation run in the same queue.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
TIMES = ROOT / "target/test-times.json"
# Programs that wait long, by their names; the longest first.
SLOW = ("fluxline-kafka/kafka_tests", "documentation")
# No program takes a quarter of it on two idle cores.
LIMIT_S = 900
# Programs that run alone, each with the reason.
ALONE = {
    "fluxline-bench/papers": "it measures",
    "fluxline-cli/bench": "it measures",
    "fluxline-cli/bench_links": "it measures",
    "fluxline-cli/cli_brokers": "on a busy machine, a node looks dead, and a broker away",
}


class Program:
    """A test program, or the tests in documentation."""

    def __init__(self, name: str, command: list[str], folder: pathlib.Path) -> None:
        self.name, self.command, self.folder = name, command, folder

    def run(self) -> "Result":
        """Runs it to its end."""
        began, late = time.monotonic(), ""
        # Its output goes to a file: a pipe would stay open as long as a child that outlives it.
        with tempfile.TemporaryFile() as written:
            # Below nohup, it would ignore a signal that tests send to their children.
            command = ["env", "--default-signal=HUP", *self.command]
            # A session of its own, so that its children can be killed with it.
            child = subprocess.Popen(command, cwd=self.folder, stdin=subprocess.DEVNULL,
                                     stdout=written, stderr=subprocess.STDOUT,
                                     env=os.environ | {"CARGO_MANIFEST_DIR": str(self.folder)},
                                     start_new_session=True)
            try:
                child.wait(LIMIT_S)
            except subprocess.TimeoutExpired:
                os.killpg(child.pid, signal.SIGKILL)
                child.wait()
                late = f"killed: it took more than {LIMIT_S} s\n"
            seconds = time.monotonic() - began
            written.seek(0)
            output = written.read().decode(errors="replace")
        return Result(self, child.returncode, output + late, seconds)


class Result:
    """The end of a program."""

    def __init__(self, program: Program, status: int, output: str, seconds: float) -> None:
        self.program, self.status, self.output, self.seconds = program, status, output, seconds

    def counts(self) -> str:
        """Returns the words on its tests: passed, failed and ignored ones."""
        sums = [0, 0, 0]
        for found in re.findall(r"(\d+) passed; (\d+) failed; (\d+) ignored", self.output):
            sums = [old + int(new) for old, new in zip(sums, found, strict=True)]
        named = zip(sums, ("passed", "failed", "ignored"), strict=True)
        return ", ".join(f"{count} {word}" for count, word in named if count) or "no test"


class Report:
    """Prints a line for each program that has ended, and the output of those that failed."""

    def __init__(self, total: int) -> None:
        self.total, self.done = total, 0
        self.failed: list[Result] = []
        self.times: dict[str, float] = {}
        self.lock = threading.Lock()

    def note(self, result: Result) -> None:
        with self.lock:
            self.done += 1
            self.times[result.program.name] = round(result.seconds, 1)
            word = "ok    " if result.status == 0 else "FAILED"
            print(f"{word} {self.done:>3}/{self.total} {result.seconds:>6.1f} s  "
                  f"{result.program.name}: {result.counts()}", flush=True)
            if result.status != 0:
                self.failed.append(result)
                print(result.output, flush=True)


def test_programs(flags: list[str]) -> list[Program]:
    """Builds the test programs; ends this one when that fails."""
    command = ["cargo", "test", "--no-run", "--message-format=json-render-diagnostics", *flags]
    built = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=False)
    if built.returncode != 0:
        sys.exit(built.returncode)
    programs = []
    for line in built.stdout.decode().splitlines():
        document = json.loads(line) if line.startswith("{") else {}
        if document.get("profile", {}).get("test") and document.get("executable"):
            folder = pathlib.Path(document["manifest_path"]).parent
            name = f"{folder.name}/{document['target']['name']}"
            programs.append(Program(name, [document["executable"], "--quiet"], folder))
    return programs


def known_times() -> dict[str, float]:
    try:
        return json.loads(TIMES.read_text())
    except (OSError, ValueError):
        return {}


def in_order(programs: list[Program]) -> list[Program]:
    """Returns the programs with the longest first."""
    times = known_times()

    def key(program: Program) -> tuple[float, int]:
        rank = SLOW.index(program.name) if program.name in SLOW else len(SLOW)
        # A program without a time may be long: it begins before short ones.
        unknown = 600.0 - rank if rank < len(SLOW) else 5.0
        return -times.get(program.name, unknown), rank

    return sorted(programs, key=key)


def run_all(programs: list[Program], jobs: int) -> Report:
    """Runs the programs side by side, then those that run alone."""
    report = Report(len(programs))
    beside = [program for program in programs if program.name not in ALONE]
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        for result in concurrent.futures.as_completed(
            [pool.submit(program.run) for program in in_order(beside)]
        ):
            report.note(result.result())
    for program in programs:
        if program.name in ALONE:
            report.note(program.run())
    return report


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=(os.cpu_count() or 1) + 1,
                        help="programs at a time [cores + 1]")
    parser.add_argument("--only", default="", help="names of programs, with commas between them")
    parser.add_argument("flags", nargs="*", help="flags of cargo, after --")
    given = parser.parse_args()
    if given.jobs < 1:
        parser.error("--jobs needs a number above 0")
    return given


def main() -> int:
    given = arguments()
    began = time.monotonic()
    programs = test_programs(given.flags)
    print(f"built {len(programs)} programs in {time.monotonic() - began:.0f} s", flush=True)
    began = time.monotonic()
    documentation = ["cargo", "test", "--doc", "--quiet", *given.flags]
    programs.append(Program("documentation", documentation, ROOT))
    only = [name for name in given.only.split(",") if name]
    if only:
        programs = [of for of in programs if of.name in only or of.name.split("/")[-1] in only]
        if not programs:
            print(f"no test program has a name of {given.only}", file=sys.stderr)
            return 2
    report = run_all(programs, given.jobs)
    TIMES.write_text(json.dumps(known_times() | report.times, indent=1, sort_keys=True))
    print(f"{report.done} programs in {time.monotonic() - began:.0f} s, "
          f"{len(report.failed)} failed")
    for result in report.failed:
        print(f"FAILED {result.program.name}; again: tools/run_tests.py --only "
              f"{result.program.name} -- {' '.join(given.flags)}")
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Builds the test programs of all crates, and runs several of them at a time.

    tools/run_tests.py [--all] [--jobs N] [--only NAME,NAME] [-- FLAGS OF CARGO]

`cargo test` runs one program after another, so the cores idle while a test waits for a process. Here
programs run side by side, the longest first (target/test-times.json has the times of the last run),
and each runs more tests at a time than there are cores. The tests in documentation run in the same
queue.

--all includes the tests that `#[ignore = "all: …"]` keeps out of the quick tier.

The output of a program is shown when it has failed; the others run nevertheless. A program that
prints nothing for LIMIT_S is killed with its children and has failed: the output then names the
tests that hang, and these have failed.

At most AGAIN_MAX tests that failed beside others run once more, each alone. One that passes then is
UNSTEADY: its failure and its name are printed, and it is a defect of the test or of the code, but
it does not stop everybody. The status is 1 when anything else has failed.
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
CORES = os.cpu_count() or 1
# No test takes a fifth of it on idle cores; a busy machine is slow.
LIMIT_S = 600
KILLED = f"killed: it printed nothing for {LIMIT_S} s\n"
DOCUMENTATION = "documentation"
# More are not bad luck.
AGAIN_MAX = 3


class Program:
    """A test program, or the tests in documentation."""

    def __init__(self, name: str, command: list[str], folder: pathlib.Path) -> None:
        self.name, self.command, self.folder = name, command, folder

    def only(self, test: str) -> "Program":
        """Returns the same program with one of its tests."""
        command = [self.command[0], "--exact", test, "--include-ignored"]
        return Program(f"{self.name} {test}", command, self.folder)

    def run(self) -> "Result":
        """Runs it to its end, or until it prints nothing any more."""
        began, late = time.monotonic(), ""
        # Its output goes to a file: a pipe would stay open as long as a child that outlives it.
        with tempfile.TemporaryFile() as written:
            # Below nohup, it would ignore a signal that tests send to their children.
            child = subprocess.Popen(
                ["env", "--default-signal=HUP", *self.command], cwd=self.folder,
                stdin=subprocess.DEVNULL, stdout=written, stderr=subprocess.STDOUT,
                env=os.environ | {"CARGO_MANIFEST_DIR": str(self.folder)},
                # A session of its own, so that its children can be killed with it.
                start_new_session=True)
            size, printed = 0, began
            while child.poll() is None:
                time.sleep(0.05)
                if (now_size := os.fstat(written.fileno()).st_size) != size:
                    size, printed = now_size, time.monotonic()
                if time.monotonic() - printed > LIMIT_S:
                    os.killpg(child.pid, signal.SIGKILL)
                    late = KILLED
                    child.wait()
            seconds = time.monotonic() - began
            written.seek(0)
            output = written.read().decode(errors="replace")
        return Result(self, child.returncode, output + late, seconds)


class Result:
    """The end of a program."""

    def __init__(self, program: Program, status: int, output: str, seconds: float) -> None:
        self.program, self.status, self.output, self.seconds = program, status, output, seconds
        self.was_killed = output.endswith(KILLED)
        found = re.findall(r"(\d+) passed; (\d+) failed; (\d+) ignored", output)
        self.counts = [sum(int(one[kind]) for one in found) for kind in range(3)]

    def failed_tests(self) -> list[str]:
        """Returns the tests that failed or hang; none when the program itself failed, as by a
        signal of its own."""
        found = re.findall(r"^test (\S+) \.\.\. FAILED$", self.output, re.MULTILINE)
        if self.was_killed:
            ended = set(re.findall(r"^test (\S+) \.\.\. ", self.output, re.MULTILINE))
            slow = re.findall(r"^test (\S+) has been running for", self.output, re.MULTILINE)
            return found + [test for test in slow if test not in ended]
        # Status of libtest after tests that failed; documentation has no program to run again.
        is_complete = self.status == 101 and self.counts[1] == len(found)
        return found if is_complete and self.program.name != DOCUMENTATION else []

    def shown(self) -> str:
        """Returns the output without the tests that passed."""
        lines = self.output.splitlines()
        return "\n".join(line for line in lines if not re.fullmatch(r"test .* \.\.\. ok", line))


class Report:
    """Prints a line for each program that has ended, and the output of those that failed."""

    def __init__(self, total: int) -> None:
        self.total, self.results = total, []
        self.lock = threading.Lock()

    def note(self, result: Result) -> None:
        with self.lock:
            self.results.append(result)
            word = "ok    " if result.status == 0 else "FAILED"
            words = zip(result.counts, ("passed", "failed", "ignored"), strict=True)
            counts = ", ".join(f"{count} {kind}" for count, kind in words if count) or "no test"
            print(f"{word} {len(self.results):>3}/{self.total} {result.seconds:>6.1f} s  "
                  f"{result.program.name}: {counts}", flush=True)
            if result.status != 0:
                print(result.shown(), flush=True)

    def failed(self) -> list[Result]:
        return [result for result in self.results if result.status != 0]

    def sums(self) -> list[int]:
        return [sum(result.counts[kind] for result in self.results) for kind in range(3)]


def test_programs(flags: list[str], arguments: list[str]) -> list[Program]:
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
            programs.append(Program(name, [document["executable"], *arguments], folder))
    return programs


def known_times() -> dict[str, float]:
    try:
        return json.loads(TIMES.read_text())
    except (OSError, ValueError):
        return {}


def run_all(programs: list[Program], jobs: int) -> Report:
    """Runs the programs side by side; those that take long begin first, and unknown ones."""
    report, times = Report(len(programs)), known_times()
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        longest_first = sorted(programs, key=lambda of: -times.get(of.name, 1e9))
        running = [pool.submit(program.run) for program in longest_first]
        for result in concurrent.futures.as_completed(running):
            report.note(result.result())
    return report


def run_again(failed: list[Result]) -> list[str] | None:
    """Runs the tests that failed once more, alone. Returns them if all of them pass."""
    tests = [result.program.only(test) for result in failed for test in result.failed_tests()]
    if not all(result.failed_tests() for result in failed) or len(tests) > AGAIN_MAX:
        return None
    for test in tests:
        print(f"again, alone: {test.name}", flush=True)
        result = test.run()
        if result.status != 0 or result.counts[0] != 1:
            print(result.shown(), flush=True)
            return None
    return [test.name for test in tests]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--all", action="store_true", help="run the ignored tests, too")
    parser.add_argument("--jobs", type=int, default=CORES, help="programs at a time [cores]")
    parser.add_argument("--only", default="", help="names of programs, with commas between them")
    parser.add_argument("flags", nargs="*", help="flags of cargo, after --")
    given = parser.parse_args()
    if given.jobs < 1:
        parser.error("--jobs needs a number above 0")
    return given


def main() -> int:
    given = arguments()
    of_program = ["--test-threads", str(2 * CORES)] + ["--include-ignored"] * given.all
    began = time.monotonic()
    programs = test_programs(given.flags, of_program)
    print(f"built {len(programs)} programs in {time.monotonic() - began:.0f} s", flush=True)
    began = time.monotonic()
    programs.append(Program(DOCUMENTATION, ["cargo", "test", "--doc", *given.flags], ROOT))
    only = [name for name in given.only.split(",") if name]
    if only:
        programs = [of for of in programs if of.name in only or of.name.split("/")[-1] in only]
        if not programs:
            print(f"no test program has a name of {given.only}", file=sys.stderr)
            return 2
    report = run_all(programs, given.jobs)
    times = {result.program.name: round(result.seconds, 1) for result in report.results}
    TIMES.write_text(json.dumps(known_times() | times, indent=1, sort_keys=True))
    print(f"{len(programs)} programs in {time.monotonic() - began:.0f} s")
    unsteady = run_again(report.failed()) if report.failed() else []
    for name in unsteady or []:
        print(f"UNSTEADY {name}: it failed beside others, and passed alone; mend it")
    for result in report.failed() if unsteady is None else []:
        print(f"FAILED {result.program.name}; again: tools/run_tests.py{' --all' * given.all} "
              f"--only {result.program.name} -- {' '.join(given.flags)}")
    passed, failed, ignored = report.sums()
    print(f"{passed} passed, {failed} failed, {ignored} skipped")
    return 1 if unsteady is None else 0


if __name__ == "__main__":
    sys.exit(main())

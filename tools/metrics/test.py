#!/usr/bin/env python3
"""Lets a real Prometheus scrape a real run, and asks it every query of the Grafana dashboard.

Usage: test.py PROGRAM. Needs Debian's `prometheus`. Everything is on loopback; the files are in a
temporary folder, and both processes end with this one.
"""

import json
import pathlib
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request

PAGE = "127.0.0.1:8071"
PROMETHEUS = "127.0.0.1:8072"
PATIENCE_S = 60


def get(url):
    with urllib.request.urlopen(url, timeout=10) as answer:
        return answer.read().decode()


def ask(query):
    """Returns the series that Prometheus has for a query."""
    answer = get(f"http://{PROMETHEUS}/api/v1/query?" + urllib.parse.urlencode({"query": query}))
    return json.loads(answer)["data"]["result"]


def wait_for(what, condition):
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        try:
            if condition():
                return
        except OSError:
            pass
        time.sleep(0.5)
    sys.exit(f"FAILED: {what} did not come within {PATIENCE_S} s")


def queries():
    dashboard = json.loads(pathlib.Path(__file__).with_name("grafana.json").read_text())
    for panel in dashboard["panels"]:
        for target in panel["targets"]:
            query = target["expr"].replace("$__rate_interval", "5s").replace("$run", ".*")
            yield panel["title"], query


def check():
    wait_for("the first scrapes", lambda: len(ask("fluxline_source_parsed_total[20s]")) == 5)
    time.sleep(6)
    failed = 0
    for title, query in queries():
        found = ask(query)
        print(f"{'ok    ' if found else 'FAILED'} {title}: {len(found)} series")
        failed += not found
    state = json.loads(get(f"http://{PAGE}/api/state"))
    scraped = sum(float(one["value"][1]) for one in ask("fluxline_source_parsed_total"))
    sent = sum(source["packets"] for source in state["sources"])
    share = scraped / sent
    print(f"{'ok    ' if 0.8 < share <= 1 else 'FAILED'} {scraped:.0f} packets scraped, {sent} now")
    return failed + (not 0.8 < share <= 1)


def main():
    program = str(pathlib.Path(sys.argv[1]).resolve())
    with tempfile.TemporaryDirectory() as folder:
        config = pathlib.Path(folder, "prometheus.yml")
        config.write_text(
            "global: {scrape_interval: 1s}\n"
            "scrape_configs:\n"
            f"  - {{job_name: fluxline, static_configs: [{{targets: ['{PAGE}']}}]}}\n"
        )
        options = ["--seconds", "600", "--rate", "100", "--sources", "5", "--drop", "0.01"]
        run = subprocess.Popen(
            [program, "demo", *options, "--serve", PAGE], cwd=folder,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        scraper = subprocess.Popen(
            ["prometheus", f"--config.file={config}", f"--storage.tsdb.path={folder}/data",
             f"--web.listen-address={PROMETHEUS}"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            failed = check()
        finally:
            for process in [scraper, run]:
                process.terminate()
                process.wait()
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()

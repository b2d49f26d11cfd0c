"""Rules of the tests of laboratory formats: without its packages a test is skipped or fails."""

import os

import pytest

REQUIRED = os.environ.get("FLUXLINE_REQUIRE_TOOLS") == "1"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if REQUIRED and report.skipped:
        report.outcome = "failed"
        report.longrepr = f"{report.longrepr}; FLUXLINE_REQUIRE_TOOLS=1 makes this an error"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector):
    report = yield
    if REQUIRED and report.skipped:
        report.outcome = "failed"
        report.longrepr = f"{report.longrepr}; FLUXLINE_REQUIRE_TOOLS=1 makes this an error"
    return report

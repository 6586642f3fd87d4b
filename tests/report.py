# SPDX-License-Identifier: GPL-2.0-or-later
"""pytest plugin of tests/run: one line per test, with its seconds, as soon as it has ended."""

import os

_seconds: dict[str, float] = {}


def pytest_report_teststatus(report):
    """No dots and letters: the line below says it."""
    return report.outcome, "", ""


def pytest_runtest_logreport(report):
    """A test's time is that of its set-up, call and tear-down together."""
    _seconds[report.nodeid] = _seconds.get(report.nodeid, 0) + report.duration
    if report.failed or (report.when == "teardown"):
        word = {"passed": "passed", "failed": "FAILED", "skipped": "SKIPPED"}[report.outcome]
        print(f"{os.environ.get('PERCH_TIER', ''):8} {word:8} {_seconds[report.nodeid]:7.1f} s  "
              f"{report.nodeid.split('/')[-1]}", flush=True)

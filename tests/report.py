# SPDX-License-Identifier: GPL-2.0-or-later
"""pytest plugin of tests/run: one line per test, with its seconds, as soon as it has ended."""

import os

_seconds: dict[str, float] = {}
_bad: dict[str, str] = {}


def pytest_report_teststatus(report):
    """No dots and letters: the line below says it."""
    return (report.outcome, "", "") if report.when == "call" else None


def pytest_runtest_logreport(report):
    """A test's time is that of its set-up, call and tear-down together."""
    _seconds[report.nodeid] = _seconds.get(report.nodeid, 0) + report.duration
    if not report.passed:
        _bad[report.nodeid] = "FAILED" if report.failed else "SKIPPED"
    if report.when == "teardown":
        print(f"{os.environ.get('PERCH_TIER', ''):8} {_bad.get(report.nodeid, 'passed'):8} "
              f"{_seconds[report.nodeid]:7.1f} s  {report.nodeid.split('/')[-1]}", flush=True)

# SPDX-License-Identifier: GPL-2.0-or-later
"""Runs the tests: tests/run [--full] [lint|unit|fuzz|sim|clients|qemu|bench]... [NAME]...

Without a tier all of them but bench, which measures (release build, a quiet machine). NAME restricts to tests whose
name contains it. --full adds an hour of simulation with fresh seeds, and 200 power cuts. Installs what is missing (apt),
builds, and prints a line with its seconds for each test, then `N passed, M failed`. A skipped test counts as failed.
Exit status 0 only if something ran and nothing failed.
"""

import fnmatch
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(TOP / "qemu-images"))

import debs  # noqa: E402
import programs  # noqa: E402

TIERS = ["lint", "unit", "fuzz", "sim", "clients", "qemu"]
ON_DEMAND = ["bench"]
SHARE_MINUTES = {"lint": 6, "unit": 12, "fuzz": 3, "sim": 8, "clients": 6, "qemu": 40}
"""A tier that outgrows its share (two cores, including its build) fails. Half as much again as it takes on a usual day:
machines differ, and the same one does from day to day."""


class Totals:
    """Counts over all tiers."""

    def __init__(self, full: bool = False):
        self.full = full
        self.passed = 0
        self.failed: list[str] = []

    def add(self, tier: str, name: str, good: bool, seconds: float | None = None) -> None:
        """Count one test; with seconds, print its line too."""
        if good:
            self.passed += 1
        else:
            self.failed.append(f"{tier}: {name}")
        if seconds is not None:
            print(f"{tier:8} {'passed' if good else 'FAILED':8} {seconds:7.1f} s  {name}", flush=True)


def run(command: list[str], **options) -> int:
    """Run a command in the project's folder; its exit status."""
    return subprocess.run(command, cwd=TOP, check=False, **options).returncode


def step(totals: Totals, tier: str, name: str, command: list[str], shown: bool = False) -> bool:
    """A command that counts as one test; its output is shown if it fails, or if it is to be."""
    begun = time.monotonic()
    result = subprocess.run(command, cwd=TOP, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                            text=True, errors="replace")
    if result.returncode or shown:
        print(result.stdout[-20000:], end="" if shown else "\n")
    totals.add(tier, name, result.returncode == 0, time.monotonic() - begun)
    return result.returncode == 0


def tracked(*patterns: str) -> list[str]:
    """Files of the project that match; all of them without a pattern."""
    listed = subprocess.run(["git", "-c", "safe.directory=*", "ls-files"], cwd=TOP, check=False,
                            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    # An unpacked archive has no git.
    names = listed.stdout.split() if listed.returncode == 0 else \
        [str(path.relative_to(TOP)) for path in sorted(TOP.rglob("*"))
         if path.is_file() and not {"build", ".git", "__pycache__"} & set(path.relative_to(TOP).parts)]
    return [name for name in names if (TOP / name).is_file() and
            (not patterns or any(fnmatch.fnmatch(name, pattern) for pattern in patterns))]


def shell_scripts() -> list[str]:
    """Files that begin with a shell's name."""
    scripts = []
    for name in tracked():
        with open(TOP / name, "rb") as handle:
            first = handle.readline(80)
        if first.startswith((b"#!/bin/sh", b"#!/bin/bash", b"#!/usr/bin/env bash")):
            scripts.append(name)
    return scripts


def build(totals: Totals, tier: str) -> bool:
    """Configure and build the dev preset."""
    return step(totals, tier, "configure (dev)", ["cmake", "--preset", "dev"]) and \
        step(totals, tier, "build (dev, ASan and UBSan)", ["cmake", "--build", "--preset", "dev"])


def lint(totals: Totals, tier: str, names: list[str]) -> None:
    """Formatting and static checks."""
    cpp = tracked("*.cpp", "*.hpp")
    checks = {"clang-format": ["clang-format-16", "--dry-run", "--Werror", *cpp],
              "shellcheck": ["shellcheck", *shell_scripts(), *tracked("*.bash")],
              "spdx": ["sh", "-c", "! grep -L 'SPDX-License-Identifier' \"$@\" | grep .", "-",
                       *tracked("*.cpp", "*.hpp", "*.h", "*.c", "*.py", "*.sh", "*CMakeLists.txt", "*.service",
                                "*.rules")]}
    for name, command in checks.items():
        if not names or any(word in name for word in names):
            step(totals, tier, name, command)
    if not names or any(word in "clang-tidy" for word in names):
        step(totals, tier, "configure (tidy)", ["cmake", "--preset", "tidy"])
        sources = [entry["file"] for entry in json.loads((TOP / "build/tidy/compile_commands.json").read_text())
                   if re.search(r"/(lib|tools)/.*\.(cpp|cxx)$", entry["file"])]
        # Several files are compiled as one, which includes them: four times faster, most of the time goes to headers.
        step(totals, tier, "clang-tidy", ["sh", "-c", "printf '%s\\n' \"$@\" | xargs -P2 -n1 clang-tidy-16 --quiet "
                                            "--checks=-bugprone-suspicious-include -p build/tidy", "-", *sources])


PROGRAMS = {"unit": {"perch_unit": ".*", "perch_core_tests": "(?!core: )"},
            "sim": {"perch_sim": ".*", "perch_core_tests": "core: "}}
"""By tier: its test programs, and which of their tests belong to it."""
TESTS_OF_A_PROCESS = {"unit": 40, "sim": 1}
"""A process costs half a second under the sanitizers; a simulation is to have a core for itself, for minutes."""


def catch_processes(tier: str, names: list[str]) -> list[tuple[Path, list[str]]]:
    """What to start: programs, each with the tests that it is to run."""
    processes = []
    for program, pattern in PROGRAMS[tier].items():
        path = TOP / "build" / "dev" / "tests" / program
        # The exit status is their number.
        listed = subprocess.run([path, "--list-test-names-only"], check=False, stdout=subprocess.PIPE,
                                text=True).stdout.splitlines()
        tests = [test for test in listed
                 if re.match(pattern, test) and (not names or any(word in test for word in names))]
        number = TESTS_OF_A_PROCESS[tier]
        processes += [(path, tests[first:first + number]) for first in range(0, len(tests), number)]
    return processes


def catch_process(path: Path, tests: list[str]) -> list[tuple[str, bool, float, str]]:
    """Run these tests of a Catch2 program: name, success and seconds of each, and what there is to say of it."""
    with tempfile.TemporaryDirectory() as work:
        chosen, report = Path(work) / "tests", Path(work) / "report.xml"
        # Some characters mean something in a name.
        chosen.write_text("".join(re.sub(r"([,\[\]\\])", r"\\\1", test) + "\n" for test in tests), encoding="utf-8")
        done = subprocess.run([path, "--input-file", chosen, "--durations", "yes", "--reporter", "xml", "--out", report],
                              cwd=TOP, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              errors="replace")
        results = []
        try:
            for _, case in ElementTree.iterparse(report):
                if case.tag == "TestCase":
                    end = case.find("OverallResult")
                    good = end.get("success") == "true"
                    results.append((case.get("name"), good, float(end.get("durationInSeconds")), end.findtext("StdOut", "")
                                    if good else ElementTree.tostring(case, encoding="unicode")))
        except (ElementTree.ParseError, FileNotFoundError):
            pass  # it crashed: the tests that are missing say where
    ran = {name for name, *_ in results}
    results += [(f"{test} (did not end)", False, 0, "") for test in tests if test not in ran]
    if done.returncode and all(good for _, good, *_ in results):
        results.append((f"{path.name}: exit status {done.returncode}", False, 0, ""))
    if not all(good for _, good, *_ in results):
        print(done.stdout[-20000:])
    return results


def catch(totals: Totals, tier: str, names: list[str]) -> None:
    """Unit and simulation tests: two processes beside each other."""
    if not build(totals, tier):
        return
    with ThreadPoolExecutor(2) as pool:
        for results in pool.map(lambda process: catch_process(*process), catch_processes(tier, names)):
            for name, good, seconds, text in results:
                if not good:
                    print(text)
                totals.add(tier, name, good, seconds)
                if tier == "sim":
                    # What they enumerated: lines that begin with two blanks.
                    print("".join(re.findall(r"^  \S.*\n", text, re.MULTILINE)), end="", flush=True)


def sim(totals: Totals, tier: str, names: list[str]) -> None:
    """Simulations, and whether they notice a core that is broken on purpose."""
    catch(totals, tier, names)
    if not names or any(word in "mutations" for word in names):
        step(totals, tier, "mutations", ["tests/sim/mutate", "build/dev"], True)
    if totals.full and (not names or any(word in "fresh seeds" for word in names)):
        step(totals, tier, "an hour of fresh seeds", ["tests/sim/long", "build/dev", "3600"], True)


CUTS_IN_FULL = "16"
"""Power cuts for each of the 13 loads of tests/qemu/test_power_cut.py: more than 200."""
QEMU_ORDER = ["test_boot", "test_levels", "test_power_cut", "test_story", "test_killed", "test_hotplug", "test_unclean", "test_module",
              "test_target"]
"""Files of the QEMU tests, the longest first. Two of their tests run beside each other, whichever is next: a guest leaves
half of two cores idle."""


def qemu_tests(environment: dict) -> list[str]:
    """All of them by pytest's names, in the order in which they are to begin."""
    listed = subprocess.run(["/usr/bin/python3", "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", "tests/qemu"],
                            cwd=TOP, check=False, stdout=subprocess.PIPE, text=True,
                            env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1", **environment}).stdout
    tests = [line for line in listed.splitlines() if "::" in line]
    places = {file: place for place, file in enumerate(QEMU_ORDER)}
    return sorted(tests, key=lambda test: places.get(Path(test.split("::")[0]).stem, 0))


def pytest_file(tier: str, file: str, names: list[str], report: Path, environment: dict) -> None:
    """Run pytest on a file or folder of a tier."""
    command = ["/usr/bin/python3", "-m", "pytest", "-q", "--no-header", "--no-summary", "--tb=short", "-p", "report",
               "-p", "no:cacheprovider", f"--junitxml={report}", file]
    if tier in ON_DEMAND:
        command.append("--capture=no")  # figures are to be seen
    if names and tier != "qemu":
        command += ["-k", " or ".join(names)]
    run(command, env={
        **os.environ, "PYTHONPATH": str(TOP / "tests"), "PERCH_TIER": tier, "PERCH_BUILD": str(TOP / "build" / "dev"),
        "PYTHONDONTWRITEBYTECODE": "1", **environment})


def pytest(totals: Totals, tier: str, names: list[str]) -> None:
    """Tests that drive programs and guests from outside."""
    environment, files = {}, [f"tests/{tier}"]
    if totals.full:
        environment["PERCH_CUTS"] = CUTS_IN_FULL
    if tier == "clients":
        if not build(totals, tier):
            return
    elif tier == "bench":
        environment["PERCH_BUILD"] = str(TOP / "build" / "release")
        if not all(step(totals, tier, " ".join(command), ["cmake", *command])
                   for command in (["--preset", "release"], ["--build", "--preset", "release"])):
            return
    else:
        begun = time.monotonic()
        try:
            environment["PERCH_TREE"] = str(programs.build_programs())
        except programs.BuildError as error:
            print(error)
        totals.add(tier, "build (release)", "PERCH_TREE" in environment, time.monotonic() - begun)
        if "PERCH_TREE" not in environment:
            return
        files = [test for test in qemu_tests(environment)
                 if not names or any(word.replace("-", "_") in test for word in names)]
    with tempfile.TemporaryDirectory() as work, ThreadPoolExecutor(2) as pool:
        reports = [Path(work) / f"{number}.xml" for number in range(len(files))]
        for _ in pool.map(lambda job: pytest_file(tier, job[0], names, job[1], environment), zip(files, reports)):
            pass
        cases = [case for report in reports if report.exists()
                 for case in ElementTree.parse(report).getroot().iter("testcase")]
        if not cases or not all(report.exists() for report in reports):
            totals.add(tier, "pytest ran to its end", False, 0)
        for case in cases:
            bad = [child for child in case if child.tag in ("failure", "error", "skipped")]
            for child in bad:
                print(f"--- {case.get('name')}\n{child.text or child.get('message')}")
            totals.add(tier, case.get("name"), not bad)


def fuzz(totals: Totals, tier: str, names: list[str]) -> None:
    """What parses bytes from a drive, with bytes that never were on one: 30 s in all; longer by hand, tests/fuzz/run."""
    fuzzers = [name for name in ("label", "superblock", "configuration") if not names or any(w in name for w in names)]
    if fuzzers:
        step(totals, tier, ", ".join(fuzzers), ["tests/fuzz/run", "10", *fuzzers])


RUNNERS = {"lint": lint, "fuzz": fuzz, "unit": catch, "sim": sim,
           **{tier: pytest for tier in ("clients", "qemu", "bench")}}


def main(arguments: list[str]) -> int:
    """Run what the arguments name."""
    if any(word in ("-h", "--help") for word in arguments):
        print(__doc__)
        return 0
    full = "--full" in arguments
    arguments = [word for word in arguments if word != "--full"]
    unknown = [word for word in arguments if word.startswith("-")]
    if unknown:
        print(f"tests/run: there is no option {unknown[0]}; see tests/run --help", file=sys.stderr)
        return 2
    tiers = [word for word in arguments if word in TIERS + ON_DEMAND] or TIERS
    names = [word for word in arguments if word not in TIERS + ON_DEMAND]
    try:
        for packages in ("packaging/build-deps.txt", "tests/packages.txt", "qemu-images/packages.txt"):
            debs.install(TOP / packages)
    except debs.PackageError as error:
        print(f"tests/run: {error}", file=sys.stderr)
        return 1
    totals = Totals(full)
    for tier in tiers:
        begun = time.monotonic()
        RUNNERS[tier](totals, tier, names)
        minutes = (time.monotonic() - begun) / 60
        if not names and not full and minutes > SHARE_MINUTES.get(tier, minutes):
            totals.add(tier, f"took {minutes:.1f} minutes, its share is {SHARE_MINUTES[tier]}", False, minutes * 60)
    for failure in totals.failed:
        print(f"failed: {failure}")
    print(f"{totals.passed} passed, {len(totals.failed)} failed")
    return 0 if totals.passed and not totals.failed else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

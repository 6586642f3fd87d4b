# SPDX-License-Identifier: GPL-2.0-or-later
"""What the QEMU tests share: guests with our programs in them, and a look at the kernel's console after each."""

import os
import sys
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(TOP / "qemu-images"))

import cache  # noqa: E402
import guest  # noqa: E402
import programs  # noqa: E402
from perch import Perch  # noqa: E402


@pytest.fixture(scope="session")
def tree() -> Path:
    """The install tree of our programs, release build."""
    # tests/run builds it once for all its workers.
    return Path(os.environ["PERCH_TREE"]) if "PERCH_TREE" in os.environ else programs.build_programs()


@pytest.fixture
def boot(request, tree):
    """A function that boots a guest with our programs; the guest ends with the test, its console is judged."""
    machines = []

    def start(kind: str = "fast", **options) -> guest.Guest:
        directory = cache.root() / "tests" / f"{request.node.name}-{len(machines)}"
        machine = guest.Guest.start(directory, kind, programs=tree, **options)
        machines.append(machine)
        return machine

    yield start
    problems = []
    for machine in machines:
        machine.kill()
        problems += machine.console_problems()
        if not request.node.stash.get(FAILED, False) and not problems:
            for path in machine.directory.glob("*"):
                if path.suffix in (".img", ".qcow2"):
                    path.unlink()
    assert not problems, "the kernel complains:\n" + "\n".join(problems)


FAILED = pytest.StashKey[bool]()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    """Remember failures, so that a failed test's drives are kept."""
    report = (yield).get_result()
    if report.failed:
        item.stash[FAILED] = True


@pytest.fixture
def perch_of():
    """A function that waits for perchd in a guest and returns the guest's Perch."""
    def wait(machine: guest.Guest) -> Perch:
        perch = Perch(machine)
        perch.wait("perchd to answer", perch.answers)
        return perch
    return wait


def drives(count: int, sector: int = 512) -> list[guest.DriveSpec]:
    """`count` blank drives of the smallest useful size, 1 GiB of it for VDs, in slots from 0."""
    return [guest.DriveSpec(slot, (9 << 30) // 4, sector) for slot in range(count)]

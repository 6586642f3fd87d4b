# SPDX-License-Identifier: GPL-2.0-or-later
"""Builds Perch for the guests: an install tree of the release preset, with the kernel module, and what tests alone need."""

import shutil
import subprocess
import tempfile
from pathlib import Path

import debs
import images

TOP = Path(__file__).resolve().parent.parent
FOR_TESTS = "usr/lib/perch-lab/tests"
"""Below the guest's root: the module dm-powercut and the program torture (tests/qemu/powercut)."""


class BuildError(Exception):
    """Perch did not build; the text ends with what the failing command printed."""


def build_programs() -> Path:
    """Install what building needs, build, and install below build/guest-tree; returns that directory.

    The tree is replaced in one step, so that a guest being started meanwhile sees the old or the new one.
    """
    debs.install(TOP / "packaging" / "build-deps.txt")
    debs.install(TOP / "qemu-images" / "packages.txt")
    print("Building Perch", flush=True)
    _run(["cmake", "--preset", "release"])
    _run(["cmake", "--build", "--preset", "release"])
    final = TOP / "build" / "guest-tree"
    with tempfile.TemporaryDirectory(dir=TOP / "build", prefix="guest-tree-") as work:
        fresh, old = Path(work) / "new", Path(work) / "old"
        fresh.mkdir()
        _run(["env", f"DESTDIR={fresh}", "cmake", "--install", "build/release", "--strip"])
        version = images.fast_kernel()
        updates = fresh / "usr/lib/modules" / version / "updates"
        updates.mkdir(parents=True)
        shutil.copy(build_module(version, TOP / "kmod", "dm-perch"), updates)
        _build_for_tests(version, fresh / FOR_TESTS)
        if final.exists():
            final.rename(old)
        fresh.rename(final)
        shutil.rmtree(old, ignore_errors=True)
    return final


def _build_for_tests(version: str, directory: Path) -> None:
    sources = TOP / "tests" / "qemu" / "powercut"
    directory.mkdir(parents=True)
    shutil.copy(build_module(version, sources, "dm-powercut"), directory)
    _run(["g++", "-std=c++20", "-O2", "-Wall", "-Wextra", "-Werror", "-static", "-s", str(sources / "torture.cpp"), "-o",
          str(directory / "torture")])


def build_module(version: str, sources: Path, name: str) -> Path:
    """Build a kernel module against the headers of a Debian kernel, or the kernel that was given; its file."""
    given = images.given_kernel()
    if given:
        headers = given / "build"
    else:
        debs.install_packages([f"linux-headers-{version}"])
        headers = Path("/lib/modules") / version / "build"
    work = TOP / "build" / f"{name}-{version}"
    # Kbuild writes beside the sources. What has not changed keeps its time, and is not compiled again.
    shutil.copytree(sources, work, dirs_exist_ok=True)
    _run(["make", "-C", str(headers), f"M={work}", "W=1", "modules"])
    return work / f"{name}.ko"


def _run(command: list[str]) -> None:
    result = subprocess.run(command, cwd=TOP, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, text=True, errors="replace", check=False)
    if result.returncode:
        raise BuildError(f"`{' '.join(command)}` failed:\n{result.stdout[-8000:]}")

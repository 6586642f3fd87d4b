# SPDX-License-Identifier: GPL-2.0-or-later
"""What watching costs on a machine with 64 drives and 64 VDs: how soon perchcli answers, how much memory perchd needs,
how often it wakes up when nothing happens. Prints its figures; docs/figures.md has those of a run."""

import statistics
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "clients"))

from sim import directory, machine  # noqa: E402, F401

RUNS = 21
SHOW_MILLISECONDS = 50
MEMORY_MIB = 64
WAKEUPS_A_MINUTE = 10


def milliseconds(daemon, *words) -> float:
    """The median time of a command from its start to its end."""
    took = []
    for _ in range(RUNS):
        begun = time.monotonic()
        result = daemon.perchcli(*words)
        took.append(1000 * (time.monotonic() - begun))
        assert result.returncode == 0 and len(result.stdout) > 1000, result.stderr
    return statistics.median(took)


def from_status(process: subprocess.Popen, task: str, field: str) -> int:
    """A number from /proc."""
    for line in Path(f"/proc/{process.pid}/{task}/status").read_text(encoding="ascii").splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1])
    raise AssertionError(f"no {field}")


def wakeups(process: subprocess.Popen) -> int:
    """How often its threads have gone to sleep so far."""
    return sum(from_status(process, f"task/{task.name}", "voluntary_ctxt_switches")
               for task in Path(f"/proc/{process.pid}/task").iterdir())


def test_64_drives_and_64_vds(machine):  # noqa: F811
    daemon = machine("--sim-drives=64x3.2T")
    daemon.script("speed 100000x")
    for group in range(16):
        first = 4 * group
        names = ",".join(f"g{group}v{number}" for number in range(4))
        result = daemon.perchcli("/c0", "add", "vd", "r5", f"drives=0:{first}-{first + 3}",
                                 "size=500G,500G,500G,all", f"name={names}")
        assert result.returncode == 0, result.stdout
    daemon.wait_until(lambda shown: len(shown["vds"]) == 64 and all(
        row["state"] == "Optimal" and row["consistent"] and row["operation"] is None for row in shown["vds"]),
        "end of every resync")
    daemon.script("speed 1x")
    figures = {"perchcli show all, ms": (milliseconds(daemon, "show", "all"), SHOW_MILLISECONDS),
               "perchcli /c0 show all, ms": (milliseconds(daemon, "/c0", "show", "all"), SHOW_MILLISECONDS),
               "perchcli /c0/vall show all, ms": (milliseconds(daemon, "/c0/vall", "show", "all"), SHOW_MILLISECONDS),
               "perchd, most memory so far, MiB": (from_status(daemon.process, "", "VmHWM") / 1024, MEMORY_MIB)}
    # What is measured is a minute in which nobody asks for anything.
    before = wakeups(daemon.process)
    time.sleep(60)
    figures["perchd, wake-ups in an idle minute"] = (wakeups(daemon.process) - before, WAKEUPS_A_MINUTE)
    print()
    for name, (value, limit) in figures.items():
        print(f"bench    {name}: {value:.1f} (below {limit})")
    assert not {name: value for name, (value, limit) in figures.items() if value >= limit}

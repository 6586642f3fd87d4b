# SPDX-License-Identifier: GPL-2.0-or-later
"""perchd is killed with SIGKILL in the middle of things and started again: it ends in a correct state each time, and a
device left suspended is resumed. (tests/sim stops it at every single step; here the kernel is real.)"""

import random
import time

import conftest

CREATE = "perchcli /c0 add vd r5 drives=0:0-2 name=kill"


def kill_during(perch, command: str, seconds: float) -> None:
    """Start a command and kill perchd that much later."""
    running = perch.machine.spawn(command)
    time.sleep(seconds)
    perch.kill_daemon()
    running.wait()


def drives_usable(perch) -> bool:
    """No drive may be lost to an operation that was interrupted."""
    return all(row["state"] in ("Unconfigured", "Configured") for row in perch.snapshot()["drives"])


def test_killed_during_create_and_delete(boot, perch_of):
    """Old state or new state; the same command afterwards always works."""
    machine = boot(drives=conftest.drives(3))
    perch = perch_of(machine)
    chosen = random.Random(20261130)
    outcomes = set()
    for attempt in range(5):
        kill_during(perch, CREATE, chosen.uniform(0.1, 2.5) * machine.slowness)
        perch.start_daemon()
        assert drives_usable(perch), attempt
        outcomes.add(("create", perch.vd() is not None))
        perch.ok("/c0 add vd r5 drives=0:0-2 name=kill")
        assert perch.vd()["state"] == "Optimal"
        assert machine.run("test -b /dev/perch/kill").rc == 0
        kill_during(perch, "perchcli /c0/v1 del force", chosen.uniform(0.1, 1.5) * machine.slowness)
        perch.start_daemon()
        outcomes.add(("delete", perch.vd() is not None))
        if perch.vd():
            assert perch.vd()["state"] == "Optimal"
            perch.ok("/c0/v1 del force")
        assert perch.snapshot()["vds"] == []
        assert machine.run("dmsetup ls").out.strip() == "No devices found"
        assert drives_usable(perch), attempt
    assert len(outcomes) >= 2, outcomes


def test_killed_during_rebuild(boot, perch_of):
    """The rebuild goes on without perchd and is confirmed by the next one; nothing is trusted early."""
    machine = boot(drives=conftest.drives(4))
    perch = perch_of(machine)
    perch.ok("/c0 add vd r5 drives=0:0-2 name=kill")
    perch.wait_idle()
    machine.run("yes perch | head -c 64M | dd of=/dev/perch/kill bs=1M oflag=direct iflag=fullblock 2>/dev/null",
                check=True)
    before = machine.run("head -c 64M /dev/perch/kill | md5sum", check=True).out
    perch.ok("/c0/e0/s2 set offline force")
    kill_during(perch, "perchcli /c0/e0/s3 insert dg=0 array=0 row=2", 1.0 * machine.slowness)
    perch.start_daemon()
    status = perch.member_status(2)
    if status != "Rebuild":
        assert status == "Offline"
        # Killed before or in the middle of the insert: repeating it, or going on from it, works.
        on_new = any(row["slot"] == 3 and row["state"] == "Configured" for row in perch.snapshot()["drives"])
        perch.ok("/c0/e0/s3 start rebuild" if on_new else "/c0/e0/s3 insert dg=0 array=0 row=2")
    for _ in range(3):
        assert perch.vd()["state"] == "Degraded"
        perch.kill_daemon()
        perch.start_daemon()
        if perch.vd()["state"] == "Optimal":
            break
    perch.wait_state("Optimal")
    assert perch.member_status(2) == "Online"
    # What was rebuilt is right: another member goes, and the new one serves.
    perch.ok("/c0/e0/s0 set offline force")
    machine.run("echo 3 >/proc/sys/vm/drop_caches; blockdev --flushbufs /dev/perch/kill")
    assert machine.run("head -c 64M /dev/perch/kill | md5sum", check=True).out == before


def test_suspended_device_is_resumed(boot, perch_of):
    """What a perchd killed between suspend and resume leaves behind: of a VD, or of a member on dm-raid."""
    machine = boot(drives=conftest.drives(3))
    perch = perch_of(machine)
    perch.ok("/c0 add vd r5 drives=0:0-2 name=kill size=64M")
    perch.ok("/c0 add vd r5 drives=0:0-2 name=old size=64M engine=dm-raid")
    member = machine.run("dmsetup ls | awk '/_data/ {print $1; exit}'", check=True).out.strip()
    for number, name in enumerate(("perch-kill", member), 1):
        perch.kill_daemon()
        machine.run(f"dmsetup suspend {name}", check=True)
        assert "SUSPENDED" in machine.run(f"dmsetup info {name}").out
        perch.start_daemon()
        assert "ACTIVE" in machine.run(f"dmsetup info {name}").out
        for vd in ("kill", "old"):
            machine.run(f"dd if=/dev/perch/{vd} of=/dev/null bs=1M count=8 iflag=direct 2>/dev/null", 60, check=True)
        assert sum("left suspended" in text for text in perch.events()) == number

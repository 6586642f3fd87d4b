# SPDX-License-Identifier: GPL-2.0-or-later
"""Drives that go and come back, in the ways this slice handles: noticed, shown, never trusted without a rebuild."""

import conftest


PIECES = ("i=0; while [ $i -lt 512 ]; do if dd if=/dev/perch/{0} of=/tmp/piece bs=64k count=1 skip=$i iflag=direct "
          "2>/dev/null; then sort -u /tmp/piece; else echo error; fi; i=$((i + 1)); done")
"""What the first 32 MiB of a VD say, or that they cannot be read, by pieces of 64 KiB."""
DIRTY = ("set -- $(dmsetup table perch-{0}); shift 11; "
         "dd if=/dev/block/$1 bs=512 skip=$3 count=8 iflag=direct 2>/dev/null | tail -c +65 | tr -d '\\0'")
"""What is not zero of the first page of a VD's dirty map, on its first member."""


def test_returned_member_is_rebuilt_not_trusted(boot, perch_of):
    """By surprise and in order."""
    machine = boot(drives=conftest.drives(3))
    perch = perch_of(machine)
    perch.ok("/c0 add vd r5 drives=0:0-2 name=back")
    write = "yes {} | head -c 32M | dd of=/dev/perch/back bs=1M oflag=direct iflag=fullblock 2>/dev/null"
    for how in ("pull", "eject"):
        perch.wait_idle()
        machine.run(write.format("old" + how), check=True)
        getattr(machine, how)(1)
        perch.wait_state("Degraded")
        assert perch.member_status(1) == "Missing"
        # Written while it is away: what it holds is stale now.
        machine.run(write.format("new" + how), check=True)
        fresh = machine.run("head -c 32M /dev/perch/back | md5sum", check=True).out
        machine.insert(1)
        perch.wait("the member to be seen again", lambda: perch.member_status(1) == "Offline")
        assert perch.vd()["state"] == "Degraded"
        assert "start rebuild" in machine.run("perchcli show").out.split("CLI Version")[0]
        perch.ok("/c0/e0/s1 start rebuild watch", 900)
        perch.wait_state("Optimal")
        perch.ok("/c0/e0/s0 set offline force")
        machine.run("echo 3 >/proc/sys/vm/drop_caches; blockdev --flushbufs /dev/perch/back")
        assert machine.run("head -c 32M /dev/perch/back | md5sum", check=True).out == fresh
        perch.ok("/c0/e0/s0 start rebuild watch", 900)
        perch.wait_state("Optimal")


def test_stop_rebuild_and_set_online(boot, perch_of):
    machine = boot(drives=conftest.drives(3))
    perch = perch_of(machine)
    perch.ok("/c0 add vd r5 drives=0:0-2 name=stop")
    perch.wait_idle()
    perch.ok("/c0/e0/s2 set offline force")
    assert perch.vd()["survives"] == 0
    rc, text = perch.error("/c0/e0/s0 set offline force")
    assert rc == 203 and "survives 0" in text
    perch.ok("/c0/e0/s2 set online")
    assert perch.member_status(2) == "Rebuild", "an offline member is rebuilt, not trusted"
    perch.ok("/c0/e0/s2 stop rebuild")
    assert perch.member_status(2) == "Offline"
    perch.ok("/c0/e0/s2 start rebuild watch", 900)
    assert perch.wait_state("Optimal")["survives"] == 1


def test_two_members_gone(boot, perch_of):
    """Beyond redundancy the VD is Offline with the drives named, show still answers, and nothing lies. When the drive
    that was lost last is back, it serves again what it did before; the one lost first holds old data, and is rebuilt. What was
    being written without it, and cannot be told from parity any more, is errors until it is written again."""
    machine = boot(drives=conftest.drives(3))
    perch = perch_of(machine)
    perch.ok("/c0 add vd r5 drives=0:0-2 name=gone size=256M")
    perch.wait_idle()
    write = "yes {} | head -c 32M | dd of=/dev/perch/gone bs=1M oflag=direct iflag=fullblock {} 2>/dev/null"
    machine.run(write.format("rest", "seek=128"), check=True)
    rest = "dd if=/dev/perch/gone bs=1M skip=128 count=32 iflag=direct 2>/dev/null | md5sum"
    untouched = machine.run(rest, check=True).out
    machine.run(write.format("old", ""), check=True)
    # Idle for long enough, a region is known to be in order.
    perch.wait("regions to be clean", lambda: machine.run(DIRTY.format("gone"), check=True).out == "")
    machine.pull(0)
    perch.wait_state("Degraded")
    machine.run(write.format("new", ""), check=True)
    machine.pull(1)
    perch.wait_state("Offline")
    shown = machine.run("perchcli show")
    assert shown.rc == 0 and "Offline" in shown.out.split("CLI Version")[0]
    assert machine.run("dd if=/dev/perch/gone of=/dev/null bs=1M count=64 iflag=direct 2>/dev/null", 120).rc != 0
    machine.insert(0)
    perch.wait("the first one to be seen", lambda: any(
        row["slot"] == 0 and row["status"] != "Missing" for row in perch.snapshot()["drives"]))
    assert perch.vd()["state"] == "Offline"
    machine.insert(1)
    perch.wait_state("Degraded")
    assert perch.member_status(0) != "Online"
    assert perch.vd()["survives"] == 0
    assert machine.run(rest, check=True).out == untouched
    # New data, or an error; nothing else.
    pieces = machine.run(PIECES.format("gone"), 600, check=True).out.split()
    assert set(pieces) <= {"new", "error"} and "new" in pieces, set(pieces)
    perch.ok("/c0/e0/s0 start rebuild watch", 900)
    perch.wait_idle()
    pieces = machine.run(PIECES.format("gone"), 600, check=True).out.split()
    assert set(pieces) <= {"new", "error"} and "new" in pieces, set(pieces)
    machine.run(write.format("now", ""), check=True)
    perch.ok("/c0/e0/s2 set offline force")
    machine.run("echo 3 >/proc/sys/vm/drop_caches; blockdev --flushbufs /dev/perch/gone")
    assert machine.run("dd if=/dev/perch/gone bs=1M count=32 iflag=direct 2>/dev/null | sort -u", check=True).out == "now\n"
    assert machine.run(rest, check=True).out == untouched


def test_hung_drive_does_not_hang_show(boot, perch_of):
    machine = boot(drives=conftest.drives(4))
    perch = perch_of(machine)
    machine.hang(3)
    for _ in range(3):
        assert machine.run("perchcli /c0/eall/sall show", 60).rc == 0
    perch.ok("/c0 add vd r5 drives=0:0-2 name=other", 300)

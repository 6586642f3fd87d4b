# SPDX-License-Identifier: GPL-2.0-or-later
"""The module of the kernel target is not there: nothing runs a VD in another way, and everybody says what to do."""

import conftest

MODULE = "/usr/lib/modules/$(uname -r)/updates/dm-perch.ko"


def test_missing_module(boot, perch_of):
    machine = boot(drives=conftest.drives(6))
    perch = perch_of(machine)
    perch.ok("/c0 add vd r5 drives=0:0-2 name=mine size=64M")
    perch.wait_idle()
    machine.run("printf precious | dd of=/dev/perch/mine bs=512 conv=sync oflag=direct 2>/dev/null", check=True)
    perch.stop()
    machine.run(f"rmmod dm_perch && mv {MODULE} /tmp && depmod -a", check=True)
    done = machine.run("perch-assemble")
    assert done.rc == 1 and "dm-perch is not there" in done.out and "modprobe dm-perch" in done.out, done.out
    perch.start_daemon()
    vd = perch.vd()
    assert vd["state"] == "Offline" and "dm-perch is not there" in vd["state_reason"], vd
    assert "dm-perch is not there" in machine.run("perchcli show").out
    assert machine.run("dmsetup ls").out.strip() == "No devices found"
    # A new one is refused, with the other engine's name; with that it is made.
    _, text = perch.error("/c0 add vd r5 drives=0:3-5 name=other size=64M")
    assert "dm-perch is not there" in text and "engine=dm-raid" in text, text
    assert all(row["state"] == "Unconfigured" for row in perch.snapshot()["drives"] if row["slot"] >= 3)
    perch.ok("/c0 add vd r5 drives=0:3-5 name=other size=64M engine=dm-raid")
    # It comes back, and so does the VD, by itself or by the next command.
    machine.run(f"mv /tmp/dm-perch.ko {MODULE} && depmod -a", check=True)
    machine.run("perchcli /c0 show all >/dev/null; perchcli /c0/v2 set name=others", check=True)
    perch.wait_state("Optimal", timeout=600)
    assert machine.run("head -c 8 /dev/perch/mine").out == "precious"

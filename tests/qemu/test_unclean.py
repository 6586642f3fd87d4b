# SPDX-License-Identifier: GPL-2.0-or-later
"""The machine dies while it writes. dm-raid alone does not make parity right again; Perch must, and must not claim that
the VD survives a drive before it has. md is the judge."""

import conftest


def test_parity_is_right_again_after_an_unclean_stop(boot, perch_of):
    machine = boot(drives=conftest.drives(3))
    perch = perch_of(machine)
    perch.ok("/c0 add vd r5 drives=0:0-2 name=crash")
    perch.wait_idle()
    assert perch.vd()["survives"] == 1
    load = machine.spawn("fio --name=load --filename=/dev/perch/crash --rw=randwrite --bs=4k --ioengine=libaio "
                         "--iodepth=32 --direct=1 --time_based --runtime=600 --output-format=terse")
    written = "awk '$3 == \"nvme0n1\" {print $10}' /proc/diskstats"
    begun = int(machine.run(written).out)
    perch.wait("fio to write", lambda: int(machine.run(written).out) > begun + 8192)
    machine.kill()
    machine.restart()
    perch = perch_of(machine)
    vd = perch.wait("the VD", perch.vd)
    assert not vd["consistent"] and vd["survives"] == 0
    assert any("not stopped cleanly" in text for text in perch.events() + [machine.console()])
    # Killed in the middle of the resync, the daemon does not take it as done.
    perch.kill_daemon()
    perch.start_daemon()
    perch.wait("parity to be known again", lambda: perch.vd()["consistent"], 900)
    assert perch.vd()["survives"] == 1
    members = perch.members("crash")
    perch.stop()
    perch.assemble_with_md(members)
    assert perch.md_check() == 0
    perch.stop_md(len(members))
    # A clean stop: nothing to do at the next start.
    machine.run("perch-assemble", check=True)
    perch.start_daemon()
    assert perch.vd()["consistent"] and perch.vd()["survives"] == 1

# SPDX-License-Identifier: GPL-2.0-or-later
"""A Debian with systemd: the VD comes back at boot by udev rule and unit alone, without the daemon."""

import conftest


def test_boot_without_the_daemon(boot, perch_of):
    machine = boot("full", drives=conftest.drives(4))
    perch = perch_of(machine)
    perch.ok("/c0 add vd r5 drives=0:0-3 name=root2")
    machine.run("mkfs.ext4 -q /dev/perch/root2 && mkdir -p /srv/data && "
                "echo '/dev/perch/root2 /srv/data ext4 defaults 0 2' >>/etc/fstab && mount /srv/data && "
                "echo precious >/srv/data/file && sync", 300, check=True)
    perch.wait_idle()
    machine.run("systemctl disable --now perchd.service", check=True)
    machine.reboot()
    assert machine.run("systemctl is-active perchd").rc != 0
    assert machine.run("findmnt -no SOURCE /srv/data").out.strip() in ("/dev/mapper/perch-root2", "/dev/perch/root2")
    assert machine.run("cat /srv/data/file").out.strip() == "precious"
    links = machine.run("ls -l /dev/disk/by-id/").out
    assert "perch-" in links
    assert machine.run("systemctl is-system-running --wait", 300).out.strip() in ("running", "degraded")

    # One member away: it waits, starts degraded, and says so.
    machine.run("systemctl enable perchd.service", check=True)
    machine.stop()
    machine.remove(2)
    machine.restart()
    perch = perch_of(machine)
    vd = perch.wait_state("Degraded")
    assert vd["survives"] == 0
    assert perch.member_status(2) == "Missing"
    assert machine.run("cat /srv/data/file").out.strip() == "precious"
    assert any("Degraded" in text for text in perch.events())

# SPDX-License-Identifier: GPL-2.0-or-later
"""A Debian with systemd, LVM and md: VDs come back at boot by udev rule and unit alone, without the daemon, whatever
their content looks like and although a drive has lost its partition table."""

import base64
import gzip
from pathlib import Path

import conftest
import lookalikes

FILL = ("(base64 -d | gzip -d; dd if={perch} bs=1M count=9 2>/dev/null) >/tmp/piece && "
        "size=$(blockdev --getsize64 {vd}) && while cat /tmp/piece; do :; done 2>/dev/null | "
        "dd of={vd} bs=1M count=$((size >> 20)) iflag=fullblock oflag=direct 2>/dev/null; "
        "head -c $(stat -c %s /tmp/piece) {vd} | cmp - /tmp/piece")


def fill_with_lookalikes(machine, vd: str, other_drive: str) -> str:
    """Fill a VD with what other programs, and Perch on another drive, write at the beginning of theirs; its hash."""
    content = base64.encodebytes(gzip.compress(b"".join(lookalikes.AREAS))).decode()
    machine.run(FILL.format(vd=vd, perch=other_drive), 1200, stdin=content, check=True)
    return machine.run(f"md5sum <{vd}", 600, check=True).out


def check_nobody_claims(machine, slots: range) -> None:
    """No program but Perch has taken the drives in `slots` for its own, or finds anything in their partitions."""
    assert "active" not in machine.run("cat /proc/mdstat", check=True).out  # nor "inactive"
    assert machine.run("pvs --noheadings", check=True).out.strip() == ""
    for slot in slots:
        drive = machine.device(slot)
        # One partition, Perch's; in it nothing that libblkid (udev, mount, wipefs) knows; above it only Perch.
        above = set(machine.run(f"lsblk -nro NAME {drive}", check=True).out.split()) - {Path(drive).name, f"{Path(drive).name}p1"}
        assert all(name.startswith("perch_") or name in ("perch-odd", "perch-root2") for name in above), above
        assert machine.run(f"blkid -p -o value -s PART_ENTRY_TYPE {drive}p1").out.strip() == \
            "50455243-4852-4149-4454-4d454d424552", slot
        assert machine.run(f"blkid -p -o value -s TYPE {drive}p1; wipefs -n {drive}p1").out.strip() == "", slot


def test_boot_without_the_daemon(boot, perch_of):
    machine = boot("full", drives=conftest.drives(6))
    perch = perch_of(machine)
    perch.ok("/c0 add vd r1 drives=0:4-5 name=odd")
    perch.wait_idle()
    odd = fill_with_lookalikes(machine, "/dev/perch/odd", f"{machine.device(4)}p1")
    check_nobody_claims(machine, range(4, 6))
    perch.ok("/c0/v1 start cc watch", 900)
    assert perch.vd(1)["mismatches"] == 0
    # Both copies of one drive's partition table are lost.
    device = machine.device(5)
    machine.run(f"for place in 0 $(($(blockdev --getsize64 {device}) / 1048576 - 1)); do "
                f"dd if=/dev/zero of={device} bs=1M count=1 seek=$place conv=notrunc 2>/dev/null; done", check=True)
    perch.ok("/c0 add vd r5 drives=0:0-3 name=root2")
    machine.run("mkfs.ext4 -q /dev/perch/root2 && mkdir -p /srv/data && "
                "echo '/dev/perch/root2 /srv/data ext4 defaults 0 2' >>/etc/fstab && mount /srv/data && "
                "echo precious >/srv/data/file && sync", 300, check=True)
    perch.wait_idle(2)
    machine.run("systemctl disable --now perchd.service", check=True)
    machine.reboot()
    assert machine.run("systemctl is-active perchd").rc != 0
    assert machine.run("findmnt -no SOURCE /srv/data").out.strip() in ("/dev/mapper/perch-root2", "/dev/perch/root2")
    assert machine.run("cat /srv/data/file").out.strip() == "precious"
    links = machine.run("ls -l /dev/disk/by-id/").out
    assert "perch-" in links
    assert machine.run("systemctl is-system-running --wait", 300).out.strip() in ("running", "degraded")
    check_nobody_claims(machine, range(0, 6))
    assert machine.run("md5sum </dev/perch/odd", 600, check=True).out == odd

    # One member away: it waits, starts degraded, and says so.
    machine.run("systemctl enable perchd.service", check=True)
    machine.stop()
    machine.remove(2)
    machine.restart()
    perch = perch_of(machine)
    vd = perch.wait_state("Degraded", 2)
    assert vd["survives"] == 0
    perch.wait_state("Optimal", 1)
    assert vd["members"][2]["status"] == "Missing"
    assert machine.run("cat /srv/data/file").out.strip() == "precious"
    assert any("Degraded" in text for text in perch.events())

# SPDX-License-Identifier: GPL-2.0-or-later
"""md as the oracle: it assembles a VD's members without Perch and must find the same data and right parity. The
control shows that the oracle can fail: one flipped byte is reported."""

import conftest
import pytest

FILL = ("fio --name=fill --filename={device} --rw=write --bs=1M --ioengine=libaio --iodepth=4 --direct=1 "
        "--randrepeat=1 --randseed={seed} --refill_buffers --end_fsync=1 --output-format=terse --terse-version=3")


def digest(machine, device: str) -> str:
    """A hash of a whole device, read from the medium."""
    return machine.run(f"blockdev --flushbufs {device}; md5sum <{device}", 1200, check=True).out.split()[0]


@pytest.mark.parametrize("sector", [512, 4096])
def test_md_reads_the_same_data_and_right_parity(boot, perch_of, sector):
    machine = boot(drives=conftest.drives(4, sector))
    perch = perch_of(machine)
    perch.ok("/c0 add vd r5 drives=0:0-2 name=oracle strip=64")
    perch.wait_idle()
    seed = 7 + sector
    machine.run(FILL.format(device="/dev/perch/oracle", seed=seed), 1200, check=True)
    # A rebuilt member must be as good as one that was there from the start.
    perch.ok("/c0/e0/s1 set offline force")
    machine.run("dd if=/dev/urandom of=/dev/perch/oracle bs=64k count=64 seek=1000 oflag=direct 2>/dev/null", check=True)
    perch.ok("/c0/e0/s3 insert dg=0 array=0 row=1 watch", 1200)
    perch.wait_state("Optimal")
    through_perch = digest(machine, "/dev/perch/oracle")
    members = perch.members("oracle")
    perch.stop()

    md = perch.assemble_with_md(members)
    assert digest(machine, md) == through_perch
    assert perch.md_check() == 0

    # The control: a byte in the middle of one member, behind md's back.
    machine.run(f"printf '\\245' | dd of={members[1].device} bs=1 seek={(members[1].start + 4321) * 512 + 7} "
                "conv=notrunc 2>/dev/null; sync", check=True)
    machine.run("echo 3 >/proc/sys/vm/drop_caches")
    assert perch.md_check() > 0
    perch.stop_md(len(members))

# SPDX-License-Identifier: GPL-2.0-or-later
"""The kernel target, every level, by hand: parity made from nothing, seeded random data, as many members lost as the level
allows, writes without them, rebuilt, checked; then md as the oracle, with the flipped byte that it must find."""

import conftest
import pytest
from perch import Perch
from target import MODULE, Vd
from test_levels import FILL, LEVELS, digest

DROPPED = ("raid1", "raid6")
"""Levels whose members are dropped by message, and stay in their slots; others' are pulled."""
VERIFY = ("fio --name=mix --filename={device} --rw=randrw --bsrange={block}-256k --blockalign={block} --ioengine=libaio "
          "--iodepth=16 --direct=1 --verify=crc32c --verify_state_save=0 --size=8M --randseed={seed} "
          "--output-format=terse --terse-version=3")


@pytest.mark.parametrize("sector", [512])
def test_every_level_on_the_target(boot, sector):
    machine = boot(drives=conftest.drives(8, sector), append="perch.assemble=no perch.daemon=no")
    machine.run(f"insmod {MODULE}", check=True)
    for level in LEVELS:
        one_level(machine, level, sector)
        print(level.name, "done", flush=True)
    machine.run("rmmod dm_perch", check=True)


def one_level(machine, level, sector: int) -> None:
    """As the file says."""
    first, last = map(int, level.slots.split("-"))
    vd = Vd(machine, int(level.name.removeprefix("raid")), list(range(first, last + 1)), per_span=level.per_span,
            strip=level.strip * 2, block=sector)
    mib = vd.sectors >> 11
    vd.create(dirty=True)
    vd.start()
    vd.wait_optimal()
    assert machine.run(FILL.format(device=vd.device, seed=sector), 1200).rc == 0
    mixed = machine.run(VERIFY.format(device=vd.device, seed=sector, block=sector), 1200)
    assert mixed.rc == 0, mixed.out
    written = digest(machine, vd.device, mib)
    if level.lost:
        for slot in level.lost:
            if level.name in DROPPED:
                machine.run(f"dmsetup message {vd.name} 0 fail {slot - first}", check=True)
            else:
                machine.pull(slot)
        assert written == digest(machine, vd.device, mib), level.name
        mixed = machine.run(VERIFY.format(device=vd.device, seed=sector + 1, block=sector), 1200)
        assert mixed.rc == 0, mixed.out
        letter = "-" if level.name in DROPPED else "D"
        assert [vd.health()[slot - first] for slot in level.lost] == [letter] * len(level.lost)
        written = digest(machine, vd.device, mib)
        for slot in level.lost:
            if level.name not in DROPPED:
                machine.insert(slot)
            vd.replace(slot - first, slot)
        vd.start()
        assert all(letter in "aA" for letter in vd.health()), vd.status()
        vd.wait_optimal()
        assert written == digest(machine, vd.device, mib), level.name
        machine.run(f"dmsetup message {vd.name} 0 check", check=True)
        vd.wait("the check to end", lambda words: words[3] == "idle")
        assert vd.status()[5] == "0", "mismatches"
    vd.stop()
    judge_by_md(machine, vd, level, written, mib)


def judge_by_md(machine, vd: Vd, level, written: str, mib: int) -> None:
    """md reads the same, finds nothing to complain of, and finds a byte that is flipped."""
    md = Perch(machine)
    device = md.assemble_with_md(vd.members(), level.name, level.per_span, level.strip)
    assert digest(machine, device, mib) == written, f"{level.name}: md reads other data"
    if level.lost:
        assert md.md_check() == 0, level.name
    member = vd.members()[1]
    machine.run(f"printf '\\245' | dd of={member.device} bs=1 seek={(member.start + 4321) * 512 + 7} "
                "conv=notrunc 2>/dev/null; sync; echo 3 >/proc/sys/vm/drop_caches", check=True)
    assert md.md_check() > 0 if level.lost else digest(machine, device, mib) != written, level.name
    md.stop_md(len(vd.slots))

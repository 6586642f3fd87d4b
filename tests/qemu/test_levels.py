# SPDX-License-Identifier: GPL-2.0-or-later
"""Every level on a real kernel, one boot per sector size, some on dm-raid: filled with seeded random data, as many members lost as the
level allows, read back, rebuilt, checked; then md as the oracle: it assembles the members without Perch and must find
the same data and right parity. The control shows that the oracle can fail: one flipped byte is reported."""

from dataclasses import dataclass

import conftest
import pytest

FILL = ("fio --name=fill --filename={device} --rw=write --bs=1M --ioengine=libaio --iodepth=4 --direct=1 "
        "--randrepeat=1 --randseed={seed} --refill_buffers --end_fsync=1 --output-format=terse --terse-version=3")
SIZE = "16M"
"""Of each VD: enough for many rows of every level, small enough for emulated parity."""


@dataclass
class Level:
    """One level as it is tested: its drives by slot, and the slots that are lost at once."""

    name: str
    slots: str
    lost: list[int]
    per_span: int = 0
    strip: int = 64
    shared: bool = False
    """There is a second VD in the drive group (512), which what befalls the first one must not touch."""


LEVELS = [Level("raid0", "0-2", []), Level("raid1", "0-1", [0], shared=True), Level("raid10", "0-3", [1, 2]),
          Level("raid5", "0-3", [2], strip=16), Level("raid6", "0-4", [0, 3], shared=True),
          Level("raid50", "0-5", [1, 3], 3), Level("raid60", "0-7", [0, 1, 5, 7], 4, 128, shared=True)]
ON_DM_RAID = ("raid0", "raid10", "raid5", "raid60")
"""A striped device, mirrors, parity, and spans below a striped device."""


def digest(machine, device: str, mib: int) -> str:
    """A hash of the beginning of a device, read from the medium."""
    return machine.run(f"blockdev --flushbufs {device}; head -c {mib}M {device} | md5sum", 1200,
                       check=True).out.split()[0]


@pytest.mark.parametrize("sector", [512, 4096])
def test_every_level(boot, perch_of, sector):
    machine = boot(drives=conftest.drives(8, sector))
    perch = perch_of(machine)
    for level in LEVELS:
        one_level(machine, perch, level, sector)
        print(level.name, "done", flush=True)


def test_dm_raid(boot, perch_of):
    machine = boot(drives=conftest.drives(8))
    perch = perch_of(machine)
    for level in LEVELS:
        if level.name in ON_DM_RAID:
            one_level(machine, perch, level, 512, "dm-raid")
            print(level.name, "done", flush=True)


def one_level(machine, perch, level: Level, sector: int, engine: str = "perch") -> None:
    """Create, fill, lose, read, rebuild, check, let md read, delete."""
    spans = f"pdperarray={level.per_span}" if level.per_span else ""
    sizes = {"a": SIZE, **({"b": "8M"} if level.shared and sector == 512 else {})}
    for name, size in sizes.items():
        perch.ok(f"/c0 add vd {level.name} drives=0:{level.slots} {spans} strip={level.strip} name={name} size={size} "
                 f"engine={engine}")
    vds = {row["name"]: row for row in perch.snapshot()["vds"]}
    assert set(vds) == set(sizes)
    assert {(row["group"], row["level"].lower(), row["block_bytes"], row["engine"]) for row in vds.values()} \
        == {(0, level.name, sector, engine)}
    first, numbers = vds["a"]["id"], [row["id"] for row in vds.values()]
    mib = vds["a"]["size_bytes"] >> 20

    def content() -> list[str]:
        return [digest(machine, f"/dev/perch/{name}", mib if name == "a" else 8) for name in sizes]

    for seed, (name, row) in enumerate(vds.items(), sector):
        perch.wait_idle(row["id"])
        fill = machine.run(FILL.format(device=f"/dev/perch/{name}", seed=seed), 1200)
        assert fill.rc == 0, fill.out
    written = content()
    if level.lost:
        assert perch.vd(first)["survives"] >= 1
        for slot in level.lost:
            machine.pull(slot)
        for number in numbers:
            perch.wait(f"v{number} to miss its members", lambda number=number: len(
                [row for row in perch.vd(number)["members"] if row["status"] == "Missing"]) == len(level.lost))
        assert perch.vd(first)["state"] in ("Degraded", "PartiallyDegraded")
        assert written == content(), level.name
        # Written while they are away: what they hold is stale when they come back.
        machine.run("dd if=/dev/urandom of=/dev/perch/a bs=64k count=64 seek=100 oflag=direct 2>/dev/null", check=True)
        written[0] = digest(machine, "/dev/perch/a", mib)
        for slot in level.lost:
            machine.insert(slot)
        for slot in level.lost:
            perch.wait(f"s{slot} to be seen again", lambda slot=slot: any(
                row["slot"] == slot and row["status"] == "Offline" for row in perch.snapshot()["drives"]))
            perch.ok(f"/c0/e0/s{slot} start rebuild")
        for number in numbers:
            perch.wait_state("Optimal", number, 900)
        assert written == content(), level.name
        perch.ok(f"/c0/v{first} start cc watch", 900)
        assert perch.vd(first)["mismatches"] == 0, level.name
    members = perch.members("a")
    perch.stop()

    md = perch.assemble_with_md(members, level.name, level.per_span, level.strip)
    assert digest(machine, md, mib) == written[0], f"{level.name}: md reads other data"
    if level.lost:
        assert perch.md_check() == 0, level.name
    # The control: a byte in the middle of one member, behind md's back.
    machine.run(f"printf '\\245' | dd of={members[1].device} bs=1 seek={(members[1].start + 4321) * 512 + 7} "
                "conv=notrunc 2>/dev/null; sync; echo 3 >/proc/sys/vm/drop_caches", check=True)
    assert perch.md_check() > 0 if level.lost else digest(machine, md, mib) != written[0], level.name
    perch.stop_md(len(members))

    # Perch's own check finds the same byte (md's check below it: one level will do), and the VDs go without a trace.
    perch.start_daemon()
    for number in numbers:
        perch.wait_state("Optimal", number)
    if level.name == "raid50":
        perch.ok(f"/c0/v{first} start cc watch", 900)
        assert perch.vd(first)["mismatches"] > 0, level.name
    for number in numbers:
        perch.ok(f"/c0/v{number} del force")
    assert machine.run("dmsetup ls").out.strip() == "No devices found"

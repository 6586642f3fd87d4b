# SPDX-License-Identifier: GPL-2.0-or-later
"""Power cuts under the kernel target, whose members are drives in memory behind one volatile cache (powercut/): any legal
part of what was not flushed is gone. `torture` knows of each sector what may be there. Two controls: drives that
acknowledge flushes and ignore them are found out, and so is a wrong parity block.

PERCH_CUTS: how many cuts for each level."""

import os
import random

import pytest
from perch import Perch
from programs import FOR_TESTS
from target import Vd

CUTS = int(os.environ.get("PERCH_CUTS", "1"))
SHAPES = {"raid0": (0, 3, 0), "raid1": (1, 2, 0), "raid10": (10, 4, 0), "raid5": (5, 4, 0), "raid6": (6, 5, 0),
          "raid50": (50, 6, 3), "raid60": (60, 8, 4)}
LOSES = {"raid1": 1, "raid10": 1, "raid5": 1, "raid6": 2, "raid50": 1, "raid60": 2}
"""Members that are lost at the cut, of one span."""
TORTURE = f"/{FOR_TESTS}/torture"
MEMBER_SECTORS, DATA_SECTORS = 24576, 8192
SEED = 20261201


class Bench:
    """Drives that lose power together, and a VD on them."""

    def __init__(self, machine, level: str):
        self.machine, self.level = machine, level
        number, count, per_span = SHAPES[level]
        names = [f"cut{row}" for row in range(count)]
        self.run(" && ".join(f"echo 0 {MEMBER_SECTORS} powercut | dmsetup create {name}" for name in names), check=True)
        self.names = names
        self.vd = Vd(machine, number, [f"/dev/mapper/{name}" for name in names], per_span=per_span, strip=32,
                     sectors=DATA_SECTORS, region=1024, name="vd")
        self.vd.create(dirty=True)
        self.vd.start()
        self.random = random.Random(f"{SEED} {level}")
        self.run("rm -f /tmp/state; dd if=/dev/zero of=/dev/mapper/vd bs=1M oflag=direct 2>/dev/null; sync")
        self.vd.wait_optimal()

    def run(self, command: str, timeout: float = 300, check: bool = False):
        """A command in the guest."""
        return self.machine.run(command, timeout, check=check)

    def cut(self) -> str:
        """Load, until power is lost at some moment; power is back afterwards, and the VD stopped. What the load did."""
        seed = self.random.randrange(1, 1 << 31)
        done = self.cut_during(f"{TORTURE} run {self.vd.device} /tmp/state {seed}", "true", seed)
        assert "in flight" in done, done
        return done

    def cut_during(self, load: str, after: str, seed: int, ready: str = "true") -> str:
        """The same with any load that ends by itself then, and has come so far that `ready` is true; `after`: before the VD is
        removed."""
        # Not a wait for anything: the moment of the cut.
        seconds = self.random.uniform(0.2, 1.5) * self.machine.slowness
        return self.run(f"{load} >/tmp/load 2>&1 & until {ready}; do sleep 0.1; done; sleep {seconds:.2f}; "
                        f"dmsetup message cut0 0 cut {seed}; wait; cat /tmp/load; {after}; dmsetup remove --retry {self.vd.name} 2>/dev/null; dmsetup message cut0 0 restore",
                        check=True).out.strip()

    def check(self, errors: bool = False) -> str:
        """Every sector holds what it may hold; what `torture` says."""
        done = self.run(f"{TORTURE} check {self.vd.device} /tmp/state {'errors' if errors else ''}")
        assert done.rc == 0, f"{self.level}: {done.out}"
        return done.out.strip()

    def check_parity(self) -> None:
        """The target's own check finds nothing."""
        self.run(f"dmsetup message {self.vd.name} 0 check", check=True)
        self.vd.wait("the check to end", lambda words: words[3] == "idle")
        assert self.vd.status()[5] == "0", self.vd.status()

    def remove(self) -> None:
        """All of it."""
        self.vd.stop()
        self.run("; ".join(f"dmsetup remove --retry {name}" for name in self.names), check=True)


@pytest.fixture
def machine(boot):
    """A guest with the test's module in it."""
    guest = boot(append="perch.assemble=no perch.daemon=no")
    guest.run(f"modprobe dm-perch; insmod /{FOR_TESTS}/dm-powercut.ko", check=True)
    return guest


def test_power_cut_optimal(machine):
    for level in SHAPES:
        bench = Bench(machine, level)
        for cut in range(CUTS):
            load = bench.cut()
            bench.vd.start()
            first = bench.check()
            if level != "raid0":
                bench.vd.wait_optimal()
                bench.check()
                bench.check_parity()
            print(f"{level} cut {cut}: {load}; {first}", flush=True)
        if level not in ("raid0", "raid1", "raid10"):
            judge_by_md(bench)
        bench.remove()


def test_power_cut_degraded(machine):
    """Members are lost at the cut itself: what only they and doubtful parity held are errors, and nothing is wrong; with the
    members replaced all ends Optimal. Then the same with members lost before the load: these find what was
    acknowledged."""
    for level, count in LOSES.items():
        bench = Bench(machine, level)
        for cut in range(CUTS):
            lost = bench.random.sample(range(SHAPES[level][2] or (2 if level == "raid10" else len(bench.names))), count)
            load = bench.cut()
            bench.vd.start(without=lost)
            first = bench.check(errors=True)
            rebuild(bench, lost)
            print(f"{level} cut {cut} without {lost}: {load}; {first}", flush=True)
        bench.remove()


def rebuild(bench: Bench, lost: list[int]) -> None:
    """New members in their places; what was lost for good stays an error until it is written."""
    for row in lost:
        bench.run(f"dd if=/dev/urandom of={bench.vd.devices[row]} bs=1M oflag=direct 2>/dev/null; sync")
        bench.vd.replace(row)
    bench.vd.start()
    bench.vd.wait_optimal()
    bench.check(errors=True)
    bench.check_parity()
    bench.run(f"dd if=/dev/zero of={bench.vd.device} bs=256k oflag=direct 2>/dev/null; sync; rm /tmp/state")
    bench.check()
    assert bench.vd.status()[6] == "0", bench.vd.status()


def judge_by_md(bench: Bench) -> None:
    """md finds parity right, and a byte that is flipped."""
    bench.vd.stop()
    md = Perch(bench.machine)
    members = bench.vd.members()
    md.assemble_with_md(members, bench.level, bench.vd.per_span, bench.vd.strip // 2)
    assert md.md_check() == 0, bench.level
    bench.run(f"printf '\\245' | dd of={members[1].device} bs=1 seek={(members[1].start + 4321) * 512 + 7} "
              "conv=notrunc 2>/dev/null; sync; echo 3 >/proc/sys/vm/drop_caches", check=True)
    assert md.md_check() > 0, bench.level
    md.stop_md(len(members))
    bench.vd.start()


FILES = ("i=0; while head -c $((RANDOM + 1)) /dev/urandom >/mnt/$i && sync /mnt/$i && md5sum /mnt/$i >>/tmp/sums; do "
         "i=$((i + 1)); done")
"""Files, each of them noted when it is durable, until that fails."""


def test_power_cut_filesystem(machine):
    """ext4 comes back with all that was synced, and nothing in it is out of order."""
    for level in ("raid10", "raid5", "raid6"):
        bench = Bench(machine, level)
        bench.run(f"mkfs.ext4 -q -b 4096 {bench.vd.device}", check=True)
        for cut in range(CUTS):
            bench.run(f"mount {bench.vd.device} /mnt && rm -f /mnt/[0-9]* /tmp/sums && sync", check=True)
            bench.cut_during(f"bash -c '{FILES}'", "umount /mnt", 1 + cut, "[ -s /tmp/sums ] && [ $(wc -l </tmp/sums) -ge 10 ]")
            bench.vd.start()
            checked = bench.run(f"wc -l </tmp/sums && mount {bench.vd.device} /mnt && md5sum --quiet -c /tmp/sums && "
                                f"umount /mnt && e2fsck -fn {bench.vd.device} 2>&1")
            assert checked.rc == 0, f"{level}: {checked.out}"
            bench.vd.wait_optimal()
            bench.check_parity()
            print(f"{level} cut {cut}: {checked.out.split()[0]} files", flush=True)
        bench.remove()


def test_power_cut_control(machine):
    """Drives that lie about flushes are found out: the check can fail."""
    bench = Bench(machine, "raid5")
    bench.run("dmsetup message cut0 0 lie", check=True)
    for _ in range(10):
        bench.cut()
        bench.vd.start()
        if bench.vd.status()[0] == "failed" or bench.run(f"{TORTURE} check {bench.vd.device} /tmp/state").rc == 1:
            return
    raise AssertionError("ten cuts, and nobody noticed that flushes were ignored")

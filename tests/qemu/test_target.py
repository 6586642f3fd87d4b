# SPDX-License-Identifier: GPL-2.0-or-later
"""The kernel target by hand, without perchd: which tables it refuses and what it says, what it is when its members do not make
a VD, its messages, and suspending, resuming and reloading it again and again under load. Members are drives in memory."""

import pytest
from programs import FOR_TESTS
from target import BAD, DATA, MAP, SUPERBLOCK, Vd

DRIVES = 4
CYCLES = 60
LOAD = ("fio --name=load --filename={device} --rw=randrw --bsrange=512-256k --blockalign=512 --ioengine=libaio --iodepth=16 "
        "--direct=1 --verify=crc32c --verify_state_save=0 --size=8M --time_based --runtime={seconds} "
        "--output-format=terse --terse-version=3")


@pytest.fixture
def vd(boot):
    """A RAID5 that was never started, on drives in memory."""
    machine = boot(append="perch.assemble=no perch.daemon=no")
    machine.run(f"modprobe dm-perch; insmod /{FOR_TESTS}/dm-powercut.ko", check=True)
    for row in range(DRIVES):
        machine.run(f"echo 0 24576 powercut | dmsetup create mem{row}", check=True)
    return Vd(machine, 5, [f"/dev/mapper/mem{row}" for row in range(DRIVES)], sectors=8192, strip=32, region=1024)


def test_target(vd):
    refused_tables(vd)
    no_vd(vd)
    vd.create(dirty=True)
    vd.start()
    vd.wait_optimal()
    messages(vd)
    cycles(vd)
    vd.stop()
    vd.machine.run(f"for row in $(seq 0 {DRIVES - 1}); do dmsetup remove --retry mem$row; done; "
                   "rmmod dm_perch && rmmod dm_powercut", check=True)


def refused_tables(vd) -> None:
    """Each with a word of what the kernel says."""
    machine, good = vd.machine, vd.table().split()
    member = f"{vd.devices[0]} {SUPERBLOCK} {MAP} {BAD} {DATA}".split()

    def changed(word: int, to: str) -> list[str]:
        return [*good[:word], to, *good[word + 1:]]

    bad = [(changed(3, "4"), "level"), (changed(4, "0"), "numbers"), (changed(4, "300"), "numbers"),
           (changed(6, "24"), "shape"), (changed(6, "4096"), "numbers"), (changed(7, "8193"), "shape"),
           (changed(8, "16"), "region"), (changed(8, "1000"), "region"), (changed(9, "1024"), "block"),
           (changed(1, "8192"), "length"), (changed(10, "5d"), "UUID"), (changed(10, "x" * 32), "UUID"),
           (good[:-1], "four sectors"), ([*good, "-"], "more words"), (changed(11, "/dev/none"), "cannot be opened"),
           (changed(15, "90000000"), "too small"), (changed(13, "2056"), "overlap"), (changed(15, "16388"), "whole blocks"),
           (good[:3], "level"), ([*good[:11], *member], "four sectors")]
    for words, reason in bad:
        machine.run("dmesg -c >/dev/null")
        done = machine.run(f"dmsetup create {vd.name}", stdin=" ".join(words) + "\n")
        said = machine.run("dmesg -c").out
        assert done.rc != 0 and reason in said, (words, said)
    assert vd.name not in machine.run("dmsetup ls").out.split()


def no_vd(vd) -> None:
    """Members that are none: the device is there, says why, and all of its I/O is an error."""
    vd.start()
    assert vd.machine.run(f"dmsetup status {vd.name}").out.split(None, 3)[3].strip() \
        == "failed no member was ever part of the VD"
    for command in ("dd if={} of=/dev/null count=1 iflag=direct", "dd if=/dev/zero of={} count=1 oflag=direct"):
        assert vd.machine.run(command.format(vd.device)).rc != 0
    assert vd.machine.run(f"dmsetup message {vd.name} 0 check").rc != 0
    vd.create()
    vd.start(without=[0, 2])
    assert "more members are missing" in vd.machine.run(f"dmsetup status {vd.name}").out
    vd.stop()


def messages(vd) -> None:
    """Those that there are, in any case; others are errors."""
    for good in ("check", "REPAIR", "patrol", "idle"):
        vd.machine.run(f"dmsetup message {vd.name} 0 {good}", check=True)
    for bad in ("", "checks", "check now", "fail", "fail 4", "fail -1", "fail one"):
        assert vd.machine.run(f"dmsetup message {vd.name} 0 {bad}").rc != 0, bad
    vd.wait("all to end", lambda words: words[3] == "idle")


def cycles(vd) -> None:
    """The VD stops and starts under load, which notices nothing; clean each time."""
    load = vd.machine.spawn(LOAD.format(device=vd.device, seconds=round(20 * vd.machine.slowness)))
    loop = (f"i=0; while [ $i -lt {CYCLES} ]; do dmsetup suspend {{flags}} {vd.name} && {{between}} dmsetup resume {vd.name} "
            "|| exit 1; i=$((i + 1)); done")
    vd.machine.run(loop.format(flags="", between=""), 1200, check=True)
    vd.machine.run(loop.format(flags="--noflush", between=""), 1200, check=True)
    vd.machine.run(f"dmsetup table {vd.name} >/tmp/table", check=True)
    vd.machine.run(loop.format(flags="", between=f"dmsetup load {vd.name} /tmp/table &&"), 1200, check=True)
    done = load.wait()
    assert done.rc == 0, done.out
    vd.wait_optimal()
    vd.machine.run(f"dmsetup message {vd.name} 0 check", check=True)
    vd.wait("the check to end", lambda words: words[3] == "idle")
    assert vd.status()[5] == "0"

# SPDX-License-Identifier: GPL-2.0-or-later
"""The main job, done and checked on a real kernel: `lab demo`. The QEMU tests play the same story."""

import shutil
import sys
import time
from typing import Callable

import cache
import guest
import programs
from perch import Perch

PULLED, REPLACEMENT, USED, ODD = 3, 4, 7, 6
"""Slots: the drive that is pulled, the one that takes its place, one that carries ext4, one with another sector size."""

MOUNT = "/mnt/data"


class Story:
    """Plays the story in a guest; `say` gets what a spectator would see, piece by piece."""

    def __init__(self, machine: guest.Guest, say: Callable[[str], None], sector: int = 512, files: str = "."):
        """files: the part of /files that is copied, for a shorter play."""
        self.files = files
        self.machine = machine
        self.perch = Perch(machine)
        self.say = say
        self.sector = sector
        self.begun = time.monotonic()
        self.checks = 0
        self.failed: list[str] = []

    # What every step uses

    def title(self, text: str) -> None:
        """Begin a step."""
        seconds = time.monotonic() - self.begun
        self.say(f"\n=== {text}  ({seconds // 60:.0f}:{seconds % 60:02.0f})\n")

    def check(self, what: str, good: bool) -> None:
        """Count one check."""
        self.checks += 1
        if not good:
            self.failed.append(what)
        self.say(f"    [{'ok' if good else 'FAILED'}] {what}\n")

    def show(self, command: str, timeout: float = 600, stdin: str | None = None, tty: bool = False) -> guest.Result:
        """Run a command in the guest, showing it and its output as it comes."""
        self.say(f"\n# {command}\n")
        return self.machine.run(command, timeout, self.say, stdin=stdin, tty=tty)

    def files_are_right(self, when: str) -> None:
        """Compare all files on the VD with their checksums, from the medium and not from memory."""
        self.machine.run("sync; echo 3 >/proc/sys/vm/drop_caches")
        result = self.show(f"cd {MOUNT} && grep -F '  {self.files}/' /files/SHA256SUMS >/tmp/sums && "
                           "sha256sum --quiet -c /tmp/sums && wc -l </tmp/sums && echo all checksums right")
        self.check(f"all files have the right checksums {when}", result.rc == 0)

    # The steps

    def play(self) -> None:
        """All of it, in order."""
        self.list_drives()
        self.refuse_used_drive()
        self.create()
        self.fill()
        self.pull_under_load()
        self.rebuild()
        self.reboot()
        self.read_with_md_alone()
        self.delete()

    def list_drives(self) -> None:
        """Eight drives by slot: one with another sector size, one carrying ext4."""
        self.title("Eight drives, listed by slot")
        self.perch.wait("perchd to answer", self.perch.answers)
        self.show("perchcli /c0/eall/sall show")
        drives = {row["slot"]: row for row in self.perch.snapshot()["drives"]}
        self.check("eight drives in slots 0 to 7", sorted(drives) == list(range(8)))
        other = 4096 if self.sector == 512 else 512
        self.check(f"s{ODD} has sectors of {other} bytes, s0 of {self.sector}",
                   drives[ODD]["logical_block_bytes"] == other
                   and drives[0]["logical_block_bytes"] == self.sector)
        self.check(f"s{USED} carries ext4 and is shown as JBOD",
                   drives[USED]["state"] == "JBOD" and "ext4" in drives[USED]["content"])

    def refuse_used_drive(self) -> None:
        """A drive with data is refused, and the refusal says why."""
        self.title("A drive with data on it is refused")
        written = f"awk '$3 == \"{self.machine.device(USED).split('/')[-1]}\" {{print $10}}' /proc/diskstats"
        before = self.machine.run(written, check=True).out
        result = self.show(f"perchcli /c0 add vd r5 drives=0:4,5,{USED}")
        self.check(f"refused because s{USED} carries an ext4 file system",
                   result.rc == 200 and "ext4" in result.out and "force" in result.out)
        self.check("not one sector of it was written",
                   before.strip() == self.machine.run(written, check=True).out.strip() != "")

    def create(self) -> None:
        """A RAID5 of four."""
        self.title("Four drives become a RAID5 virtual drive")
        result = self.show("perchcli /c0 add vd r5 drives=0:0-3 name=data")
        self.check("the VD was created", result.rc == 0)
        self.check("it runs as /dev/perch/data", self.machine.run("test -b /dev/perch/data").rc == 0)

    def fill(self) -> None:
        """A file system with real files on it."""
        self.title("A file system with several hundred MiB of real files")
        self.check("mkfs.ext4", self.show("mkfs.ext4 -q /dev/perch/data").rc == 0)
        self.check("the files are copied", self.show(
            f"mkdir -p {MOUNT} && mount /dev/perch/data {MOUNT} && cd /files && cp -a --parents {self.files} {MOUNT}/ && "
            f"sync && df -h {MOUNT}").rc == 0)
        self.say("\nParity of the new VD is made consistent in the background; when that is done it survives a drive.\n")
        self.perch.wait_idle()
        self.show("perchcli /c0/v1 show")
        self.check("it survives one drive failure now", self.perch.vd()["survives"] == 1)
        self.files_are_right("on the optimal VD")

    def pull_under_load(self) -> None:
        """A drive is pulled by surprise while fio writes and verifies."""
        self.title(f"fio writes and verifies; s{PULLED} is pulled out by surprise")
        command = (f"fio --name=load --filename={MOUNT}/fio.dat --size=48M --rw=randwrite --bs=16k --ioengine=libaio "
                   "--iodepth=8 --direct=1 --verify=crc32c --do_verify=1 --output-format=terse --terse-version=3")
        self.say(f"\n# {command} &\n")
        load = self.machine.spawn(command)
        sectors = "awk '$3 ~ /^nvme0n1$/ {print $10}' /proc/diskstats"
        begun = int(self.machine.run(sectors).out)
        self.perch.wait("fio to write", lambda: int(self.machine.run(sectors).out) > begun + 2048)
        self.check("fio is still writing", load.running())
        self.say(f"\n(pulling s{PULLED})\n")
        self.machine.pull(PULLED)
        self.perch.wait_state("Degraded")
        result = self.show("perchcli show")
        self.check("show begins with what is wrong, names the drive, and says what to do",
                   f"s{PULLED} (SN" in result.out.split("CLI Version")[0] and "insert dg=0 array=0 row=3" in result.out)
        vd = self.perch.vd()
        self.check("it survives 0 more failures now", vd["survives"] == 0)
        self.check("the missing member keeps its row, slot and serial number",
                   self.perch.member_status(3) == "Missing" and "Missing" in self.machine.run(
                       f"perchcli /c0/e0/s{PULLED} show").out)
        done = load.wait()
        self.check("fio finished without an error: every block it wrote reads back", done.rc == 0)
        result = self.show("perchcli /c0/e0/s1 set offline force")
        self.check("taking a second drive away is refused", result.rc == 203)

    def rebuild(self) -> None:
        """Rebuild onto another drive."""
        self.title(f"s{REPLACEMENT} takes its place")
        result = self.show(f"perchcli /c0/e0/s{ODD} insert dg=0 array=0 row=3")
        self.check(f"s{ODD}, with another sector size, is refused", result.rc == 202)
        result = self.show(f"perchcli /c0/e0/s{REPLACEMENT} insert dg=0 array=0 row=3 watch", 1800, tty=True)
        self.check("the rebuild showed percent and time left", "%" in result.out and "left" in result.out)
        self.check("the rebuild is done", result.rc == 0 and self.perch.wait_state("Optimal")["survives"] == 1)
        self.files_are_right("after the rebuild")

    def reboot(self) -> None:
        """The VD comes back by itself."""
        self.title("Reboot")
        self.machine.run(f"umount {MOUNT}", check=True)
        self.say("\n(rebooting)\n")
        self.machine.reboot()
        self.perch.wait("perchd to answer", self.perch.answers)
        self.show("perchcli /c0/vall show")
        vd = self.perch.vd()
        self.check("v1 is back under the same name, Optimal", vd["name"] == "data" and vd["state"] == "Optimal")
        self.check("it was clean: no resync", vd["operation"] is None)
        mounted = self.show(f"mkdir -p {MOUNT} && mount /dev/perch/data {MOUNT}")
        self.check("its file system mounts", mounted.rc == 0)
        self.files_are_right("after the reboot")

    def read_with_md_alone(self) -> None:
        """Read without Perch."""
        self.title("Perch is stopped; md alone reads the same drives")
        members = self.perch.members("data")
        self.machine.run(f"umount {MOUNT}", check=True)
        self.perch.stop()
        self.check("no device of Perch is left", "perch" not in self.machine.run("dmsetup ls").out)
        md = self.perch.assemble_with_md(members)
        self.show("cat /proc/mdstat")
        self.check("md's array mounts", self.show(f"mount -o ro {md} {MOUNT}").rc == 0)
        self.files_are_right("read by md")
        self.machine.run(f"umount {MOUNT}", check=True)
        self.perch.stop_md(len(members))
        self.machine.run("perch-assemble", check=True)
        self.perch.start_daemon()
        self.check("Perch takes over again", self.perch.wait_state("Optimal")["name"] == "data")

    def delete(self) -> None:
        """Deletion asks, and refuses a VD in use."""
        self.title("Deletion: refused while in use, asked for on a terminal")
        self.machine.run(f"mount /dev/perch/data {MOUNT}", check=True)
        result = self.show("perchcli /c0/v1 del force")
        self.check("refused while it is mounted, even with force", result.rc == 201)
        self.machine.run(f"umount {MOUNT}", check=True)
        result = self.show("perchcli /c0/v1 del", stdin="no\n", tty=True)
        self.check("'no' deletes nothing", result.rc == 212 and self.perch.vd() is not None)
        result = self.show("perchcli /c0/v1 del", stdin="yes\n", tty=True)
        self.check("'yes' deletes it", result.rc == 0 and self.perch.vd() is None)
        self.check("its drives are free again",
                   all(row["state"] == "Unconfigured" for row in self.perch.snapshot()["drives"]
                       if row["slot"] in (0, 1, 2, REPLACEMENT)))


def drives(sector: int = 512) -> list[guest.DriveSpec]:
    """The story's drives: the lab's set, or the same with the two sector sizes exchanged."""
    specs = guest.default_drives()
    for spec in specs:
        if sector == 4096:
            spec.sector = 512 if spec.sector == 4096 else 4096
    return specs


def say(piece: str) -> None:
    """Print output as it comes."""
    sys.stdout.write(piece)
    sys.stdout.flush()


def main(arguments: list[str]) -> int:
    """`lab demo`: exit status 0 if every check holds."""
    if arguments:
        print("usage: lab demo\nBuilds Perch, boots a machine with eight NVMe drives and plays the whole story in it.")
        return 0 if arguments[0] in ("-h", "--help") else 2
    begun = time.monotonic()
    tree = programs.build_programs()
    directory = cache.root() / "demo"
    say("Starting the machine\n")
    with guest.Guest.start(directory, programs=tree, files=True, drives=drives()) as machine:
        story = Story(machine, say)
        try:
            story.play()
            problems = machine.console_problems()
            story.check("the kernel has nothing to complain about", not problems)
            for line in problems:
                say(f"    {line}\n")
        finally:
            minutes = (time.monotonic() - begun) / 60
            say(f"\n{story.checks} checks, {len(story.failed)} failed, {minutes:.1f} minutes\n")
            for what in story.failed:
                say(f"failed: {what}\n")
    shutil.rmtree(directory, ignore_errors=True)
    return 1 if story.failed else 0

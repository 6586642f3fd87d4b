# SPDX-License-Identifier: GPL-2.0-or-later
"""Perch in a guest, as the demo and the tests use it: its command line, its waits, and md as a second reader."""

import json
import re
import time
from dataclasses import dataclass

import guest

CONTROLLER = "/c0"


class PerchError(Exception):
    """Perch did something else than was expected; the text says what."""


@dataclass
class Member:
    """Where one member of a VD keeps its data: a device of the guest, and sectors of 512 bytes on it."""

    device: str
    start: int
    sectors: int


class Perch:
    """Perch's programs in a running guest."""

    def __init__(self, machine: guest.Guest):
        self.machine = machine

    def cli(self, command: str, timeout: float = 300) -> tuple[int, dict]:
        """Run `perchcli COMMAND J`: its exit status and the first controller's answer."""
        # Progress goes to standard error.
        result = self.machine.run(f"perchcli {command} J 2>/dev/null", timeout)
        try:
            return result.rc, json.loads(result.out)["Controllers"][0]
        except (ValueError, KeyError, IndexError) as error:
            raise PerchError(f"`perchcli {command} J` answered (status {result.rc}):\n{result.out}") from error

    def ok(self, command: str, timeout: float = 300) -> dict:
        """As cli(), for a command that must succeed: its response data."""
        rc, answer = self.cli(command, timeout)
        if rc != 0:
            raise PerchError(f"`perchcli {command}` failed with {rc}: {json.dumps(answer, indent=1)}")
        return answer.get("Response Data", {})

    def error(self, command: str) -> tuple[int, str]:
        """As cli(), for a command that must fail: its status and all that it says."""
        rc, answer = self.cli(command)
        if rc == 0:
            raise PerchError(f"`perchcli {command}` succeeded, and it must not")
        return rc, json.dumps(answer["Command Status"])

    def snapshot(self) -> dict:
        """The whole model, as perchd serves it."""
        result = self.machine.run("curl -s --max-time 60 --unix-socket /run/perch/perchd.sock "
                                  "http://perch/redfish/v1/Oem/Perch/Snapshot", check=True)
        return json.loads(result.out)

    def vd(self, number: int = 1) -> dict | None:
        """One VD of the snapshot."""
        return next((row for row in self.snapshot()["vds"] if row["id"] == number), None)

    def member_status(self, row: int) -> str:
        """How a member of v1 does: Online, Missing, Rebuild …"""
        return self.vd()["members"][row]["status"]

    def wait(self, what: str, condition, timeout: float = 300):
        """Wait until condition() is true; its value. Fails after `timeout` seconds (scaled by the guest's slowness)."""
        deadline = time.monotonic() + timeout * self.machine.slowness
        while True:
            value = condition()
            if value:
                return value
            if time.monotonic() > deadline:
                raise PerchError(f"waited {timeout:.0f} s for {what}; perchcli show:\n"
                                 + self.machine.run("perchcli show; dmsetup status; tail -20 /var/log/perchd.log").out)
            time.sleep(0.3)

    def answers(self) -> bool:
        """Whether perchd answers."""
        return self.machine.run("perchcli show ctrlcount").rc == 0

    def wait_state(self, state: str, number: int = 1, timeout: float = 300) -> dict:
        """Wait until a VD is Optimal, Degraded or Offline."""
        return self.wait(f"v{number} to be {state}",
                         lambda: (row := self.vd(number)) and row["state"] == state and row, timeout)

    def wait_idle(self, number: int = 1, timeout: float = 600) -> None:
        """Wait until parity is known to match and nothing runs."""
        self.wait(f"v{number} to be idle",
                  lambda: (row := self.vd(number)) and row["operation"] is None and row["consistent"], timeout)

    def events(self) -> list[str]:
        """The texts of all events, oldest first."""
        result = self.machine.run("perchcli /c0 show events J", check=True)
        return re.findall(r'"Event Description" : "(.*)"', result.out)

    # The daemon

    def kill_daemon(self) -> None:
        """SIGKILL perchd and wait until it is gone."""
        self.machine.run("pid=$(pidof perchd) && kill -9 $pid && while [ -d /proc/$pid ]; do sleep 0.05; done")

    def start_daemon(self) -> None:
        """Start perchd again, as an init would, and wait until it answers."""
        self.machine.run("setsid /usr/sbin/perchd </dev/null >>/var/log/perchd.log 2>&1 &")
        self.wait("perchd to answer", self.answers)

    def stop(self) -> None:
        """End perchd and stop all VDs: Perch is out of the way."""
        self.machine.run("pid=$(pidof perchd) && kill $pid && while [ -d /proc/$pid ]; do sleep 0.05; done")
        self.machine.run("perch-assemble --stop", check=True)

    # Without Perch

    def members(self, name: str) -> list[Member]:
        """Where the members of a running VD lie, by row, from the kernel's tables."""
        tables = dict(line.split(": ", 1) for line in
                      self.machine.run("dmsetup table", check=True).out.strip().splitlines())
        numbers = {}
        for line in self.machine.run("dmsetup info -c --noheadings -o name,major,minor", check=True).out.split():
            dm_name, major, minor = line.split(":")
            numbers[f"{major}:{minor}"] = dm_name
        words = tables[f"perch-{name}"].split()
        devices = words[words.index("raid") + 3 + int(words[words.index("raid") + 2]) + 1:]
        found = []
        for data in devices[1::2]:
            _, sectors, _, partition, offset = tables[numbers[data]].split()
            node = self.machine.run(f"readlink -f /dev/block/{partition}", check=True).out.strip()
            found.append(Member(node, int(offset), int(sectors)))
        return found

    def assemble_with_md(self, members: list[Member], chunk_kib: int = 64) -> str:
        """Let md alone run the members of a stopped VD as RAID5, left-symmetric, taken as consistent; its device.

        md writes its superblock (format 1.0, at the end) into a scratch tail behind each member's data, so nothing
        of Perch's changes.
        """
        run = self.machine.run
        parts = []
        run("modprobe loop", check=True)
        for row, member in enumerate(members):
            run(f"truncate -s 1M /tmp/tail{row} && losetup /dev/loop{row} /tmp/tail{row}", check=True)
            run(f"printf '%s\\n' '0 {member.sectors} linear {member.device} {member.start}' "
                f"'{member.sectors} 2048 linear /dev/loop{row} 0' | dmsetup create oracle{row}", check=True)
            parts.append(f"/dev/mapper/oracle{row}")
        run(f"mdadm --create /dev/md0 --run --assume-clean --metadata=1.0 --bitmap=none --level=5 "
            f"--layout=left-symmetric --chunk={chunk_kib}K --size={members[0].sectors // 2}K "
            f"--raid-devices={len(parts)} {' '.join(parts)} </dev/null", check=True)
        return "/dev/md0"

    def md_check(self) -> int:
        """md's own parity check over the whole array: sectors that do not match."""
        self.machine.run("echo max >/sys/block/md0/md/sync_max; echo 2000000 >/sys/block/md0/md/sync_speed_max; "
                         "echo check >/sys/block/md0/md/sync_action", check=True)
        self.machine.run("while [ $(cat /sys/block/md0/md/sync_action) != idle ]; do sleep 0.2; done",
                         1200, check=True)
        return int(self.machine.run("cat /sys/block/md0/md/mismatch_cnt", check=True).out)

    def stop_md(self, count: int) -> None:
        """Stop what assemble_with_md() made."""
        self.machine.run("mdadm --stop /dev/md0", check=True)
        for row in range(count):
            self.machine.run(f"dmsetup remove --retry oracle{row}; losetup -d /dev/loop{row}; rm /tmp/tail{row}")

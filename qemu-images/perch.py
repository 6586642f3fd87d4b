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
        found = []
        for partition, offset, sectors in _data_places(tables, numbers, f"perch-{name}"):
            node = self.machine.run(f"readlink -f /dev/block/{partition}", check=True).out.strip()
            found.append(Member(node, offset, sectors))
        return found

    def assemble_with_md(self, members: list[Member], level: str = "raid5", per_span: int = 0,
                         chunk_kib: int = 64) -> str:
        """Let md alone run the members of a stopped VD, taken as consistent; the device with the VD's data.

        md writes its superblock (format 1.0, at the end) into a scratch tail behind each member's data, so nothing
        of Perch's changes. RAID50 and 60 are md arrays per span below a striped device.
        """
        run = self.machine.run
        parts = []
        run("modprobe loop; modprobe raid0; true", check=True)
        for row, member in enumerate(members):
            run(f"truncate -s 1M /tmp/tail{row} && losetup /dev/loop{row} /tmp/tail{row} && "
                f"printf '%s\\n' '0 {member.sectors} linear {member.device} {member.start}' "
                f"'{member.sectors} 2048 linear /dev/loop{row} 0' | dmsetup create oracle{row}", check=True)
            parts.append(f"/dev/mapper/oracle{row}")
        span_level, layout, parity = MD_LEVELS[level]
        per_span = per_span if level in ("raid50", "raid60") else len(parts)
        arrays = []
        for first in range(0, len(parts), per_span):
            array = f"/dev/md{len(arrays)}"
            # RAID0 knows no component size: its data begins at the same place all the same.
            size = "" if level == "raid0" else f"--assume-clean --bitmap=none --size={members[0].sectors // 2}K"
            run(f"mdadm --create {array} --run --metadata=1.0 --level={span_level} {layout} {size} "
                f"{'' if level == 'raid1' else f'--chunk={chunk_kib}K'} "
                f"--raid-devices={per_span} {' '.join(parts[first:first + per_span])} </dev/null", check=True)
            arrays.append(array)
        if len(arrays) == 1:
            return arrays[0]
        data = members[0].sectors * (per_span - parity)
        chunk = chunk_kib * 2 * (per_span - parity)
        stripes = " ".join(f"{array} 0" for array in arrays)
        run(f"echo '0 {data * len(arrays)} striped {len(arrays)} {chunk} {stripes}' | dmsetup create oracle-top",
            check=True)
        return "/dev/mapper/oracle-top"

    def md_arrays(self) -> list[str]:
        """The md arrays that run: md0 …"""
        return self.machine.run("cd /sys/block; ls -d md*").out.split()

    def md_check(self) -> int:
        """md's own check over all its arrays: sectors that do not match."""
        mismatches = 0
        for array in self.md_arrays():
            base = f"/sys/block/{array}/md"
            self.machine.run(f"echo max >{base}/sync_max; echo 2000000 >{base}/sync_speed_max; "
                             f"echo check >{base}/sync_action", check=True)
            self.machine.run(f"while [ $(cat {base}/sync_action) != idle ]; do sleep 0.2; done", 1200, check=True)
            mismatches += int(self.machine.run(f"cat {base}/mismatch_cnt", check=True).out)
        return mismatches

    def stop_md(self, count: int) -> None:
        """Stop what assemble_with_md() made."""
        self.machine.run("dmsetup info oracle-top >/dev/null 2>&1 && dmsetup remove --retry oracle-top")
        for array in self.md_arrays():
            self.machine.run(f"mdadm --stop /dev/{array}", check=True)
        for row in range(count):
            self.machine.run(f"dmsetup remove --retry oracle{row}; losetup -d /dev/loop{row}; rm /tmp/tail{row}")


MD_LEVELS = {"raid0": ("raid0", "", 0), "raid1": ("raid1", "", 0), "raid10": ("raid10", "--layout=n2", 0),
             "raid5": ("raid5", "--layout=left-symmetric", 1), "raid50": ("raid5", "--layout=left-symmetric", 1),
             "raid6": ("raid6", "--layout=ddf-N-continue", 2), "raid60": ("raid6", "--layout=ddf-N-continue", 2)}
"""How mdadm names each level's array of one span: level, layout, members' worth of parity."""


def _data_places(tables: dict[str, str], numbers: dict[str, str], name: str) -> list[tuple[str, int, int]]:
    """Partition, first sector and sectors of the data of a VD's members, by row. None may be absent."""
    words = tables[name].split()
    if words[2] == "perch":
        return [(words[member], int(words[member + 4]), int(words[7])) for member in range(11, len(words), 5)]
    linear = [tables[data].split() for data in _data_devices(tables, numbers, name)]
    return [(partition, int(offset), int(sectors)) for _, sectors, _, partition, offset in linear]


def _data_devices(tables: dict[str, str], numbers: dict[str, str], name: str) -> list[str]:
    """The linear devices that hold the data of a device, by row: below raid, or striped, or striped over raid."""
    words = tables[name].split()
    if words[2] == "striped":
        below = [numbers[number] for number in words[5::2]]
        return below if tables[below[0]].split()[2] == "linear" else \
            [part for span in below for part in _data_devices(tables, numbers, span)]
    options = int(words[4])
    return [numbers[number] for number in words[6 + options + 1::2]]

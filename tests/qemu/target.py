# SPDX-License-Identifier: GPL-2.0-or-later
"""VDs on the kernel target alone: members are written and tables made here, with none of Perch's programs."""

import base64
import struct
import time

from perch import Member

UUID = bytes(range(0x10, 0x20))
SUPERBLOCK, MAP, BAD, DATA = 2048, 4096, 6144, 16384
"""Where they begin on each member, in sectors of 512 bytes."""
COPY_STRIDE = 1024
SUPERBLOCK_BYTES = 16384
IN_SYNC, ABSENT = 2, 1
CLEAN = 1


def crc32c(data: bytes) -> int:
    """As the format stores it."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def sealed(data: bytearray) -> bytes:
    """With its checksum, which is at 8 in every structure of the format."""
    data[8:12] = bytes(4)
    data[8:12] = struct.pack("<I", crc32c(bytes(data)))
    return bytes(data)


class Vd:
    """A VD on these devices. `sectors`: of each member's data."""

    def __init__(self, machine, level: int, devices: list[str], *, per_span: int = 0, strip: int = 128, sectors: int = 16384,
                 region: int = 2048, block: int = 512, name: str = "vd"):
        self.machine, self.level, self.devices, self.name = machine, level, list(devices), name
        self.per_span = per_span or len(devices)
        self.strip, self.member_sectors, self.region, self.block = strip, sectors, region, block
        self.instances = [index + 1 for index in range(len(devices))]
        self.device = f"/dev/mapper/{name}"

    @property
    def sectors(self) -> int:
        """Of the VD."""
        spans = len(self.devices) // self.per_span
        data = {0: len(self.devices), 1: 1, 10: len(self.devices) // 2, 5: self.per_span - 1, 6: self.per_span - 2,
                50: (self.per_span - 1) * spans, 60: (self.per_span - 2) * spans}[self.level]
        return data * self.member_sectors

    def superblock(self, row: int, epoch: bool) -> bytes:
        """Of a member that is part of the first epoch, or of none yet."""
        data = bytearray(SUPERBLOCK_BYTES)
        struct.pack_into("<8sII24x16sQQ16xQ", data, 0, b"PERCHSUP", 0, 1, UUID, self.instances[row], 0, 1)
        struct.pack_into("<QQQ", data, 96, int(epoch), int(epoch), 0)
        members = len(self.devices)
        struct.pack_into("<IIIIIIII", data, 144, row, members, self.per_span, self.level, 1, 0, self.strip * 512, self.block)
        struct.pack_into("<QQQQ", data, 176, self.member_sectors * 512, self.sectors * 512, self.region * 512, DATA * 512)
        struct.pack_into("<I", data, 344, members)
        for other in range(members):
            struct.pack_into("<Q8xQHB", data, 8192 + 32 * other, self.instances[other] if epoch else 0, 0, other,
                             IN_SYNC if epoch else ABSENT)
        return sealed(data)

    def _write(self, row: int, sector: int, data: bytes) -> None:
        self.machine.run(f"base64 -d | dd of={self.devices[row]} bs=4096 seek={sector // 8} conv=notrunc,fsync "
                         "2>/dev/null", stdin=base64.encodebytes(data).decode(), check=True)

    def create(self, dirty: bool = False) -> None:
        """Write all members. `dirty`: every region is to be resynced."""
        page = bytearray(4096)
        struct.pack_into("<8sII16s", page, 0, b"PERCHMAP", 0, 0, UUID)
        if dirty:
            page[64:] = b"\x55" * (4096 - 64)
        for row in range(len(self.devices)):
            self._write(row, SUPERBLOCK, self.superblock(row, True))
            self._write(row, SUPERBLOCK + COPY_STRIDE, bytes(SUPERBLOCK_BYTES))
            self._write(row, MAP, sealed(page))
            for half in (BAD, BAD + COPY_STRIDE):
                self._write(row, half, bytes(4096))

    def replace(self, row: int) -> None:
        """Make the device of a row a new member, to be rebuilt: its metadata are zeroed first."""
        self.instances[row] = max(self.instances) + 1
        self.machine.run(f"dd if=/dev/zero of={self.devices[row]} bs=1M count={DATA >> 11} conv=notrunc,fsync 2>/dev/null",
                         check=True)
        self._write(row, SUPERBLOCK, self.superblock(row, False))

    def table(self, without: list[int] = ()) -> str:
        """The target's table line; `without`: rows that are not there."""
        members = ["-" if row in without else f"{device} {SUPERBLOCK} {MAP} {BAD} {DATA}"
                   for row, device in enumerate(self.devices)]
        return (f"0 {self.sectors} perch {self.level} {len(self.devices)} {self.per_span} {self.strip} {self.member_sectors} "
                f"{self.region} {self.block} {UUID.hex()} {' '.join(members)}")

    def start(self, without: list[int] = ()) -> None:
        """Load the table and resume: also in the place of one that runs."""
        exists = self.machine.run(f"dmsetup info {self.name} >/dev/null 2>&1").rc == 0
        load = f"dmsetup load {self.name} /tmp/table && dmsetup resume {self.name}" if exists \
            else f"dmsetup create {self.name} /tmp/table"
        self.machine.run(f"echo '{self.table(without)}' >/tmp/table && {load}", check=True)

    def stop(self) -> None:
        """Remove the device, which marks the VD clean."""
        self.machine.run(f"dmsetup remove --retry {self.name}", check=True)

    def status(self) -> list[str]:
        """The words of the target's status."""
        return self.machine.run(f"dmsetup status {self.name}", check=True).out.split()[3:]

    def health(self) -> str:
        """A letter for each member."""
        return self.status()[1]

    def wait(self, what: str, condition, timeout: float = 300) -> None:
        """Until condition(words of the status) is true."""
        deadline = time.monotonic() + timeout * self.machine.slowness
        while not condition(words := self.status()):
            assert words[0] != "failed" and time.monotonic() < deadline, f"waited for {what}: {words}"
            time.sleep(0.3)

    def wait_optimal(self) -> None:
        """Until all members are in sync, and parity matches."""
        self.wait("all members to be in sync and parity to match",
                  lambda words: set(words[1]) == {"A"} and words[4] == "synced" and words[3] == "idle", 900)

    def members(self) -> list[Member]:
        """Where the data of each member is, for md."""
        return [Member(device, DATA, self.member_sectors) for device in self.devices]

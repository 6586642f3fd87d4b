# SPDX-License-Identifier: GPL-2.0-or-later
"""Bytes that other software takes for its own: what the data in a VD may look like to whoever probes a member drive.

Each of AREAS is one area of 256 KiB with one kind of thing in it, where its owner would look when the area were the
beginning of a device. Magic numbers and places are those that libblkid 2.38, mdadm 4.2 and lvm2 2.03 look for."""

import struct
import uuid
import zlib

AREA = 256 << 10
ID = uuid.UUID("11111111-2222-4333-8444-555555555555")


def area(*pieces: tuple[int, bytes]) -> bytes:
    """An area with those pieces at those offsets."""
    content = bytearray(AREA)
    for offset, piece in pieces:
        content[offset:offset + len(piece)] = piece
    return bytes(content)


def xfs() -> bytes:
    """A log full of record headers; no superblock in front, so that the VD itself stays nobody's."""
    header = struct.pack(">IIII", 0xFEEDBABE, 1, 2, 32768) + bytes(288) + struct.pack(">I", 1) + ID.bytes
    return area(*((offset, header) for offset in range(0, AREA, 4096)),
                *((offset, struct.pack(">4sIQ", b"XFSB", 4096, 65536)) for offset in range(2048, AREA, 4096)))


def zfs() -> bytes:
    """A vdev label: 128 uberblocks behind its name-value list."""
    return area(*((128 * 1024 + n * 1024, struct.pack("<QQQQQ", 0x00BAB10C, 5000, 7 + n, 99, 1700000000))
                  for n in range(128)))


def md(minor: int) -> bytes:
    """Superblocks of md 1.x, each naming its own place in this area, with right checksums."""
    def superblock(place: int) -> bytes:
        raw = bytearray(struct.pack("<IIII16s32sQIIQII", 0xA92B4EFC, 1, 0, 0, ID.bytes, b"lookalike:0", 1700000000,
                                    1, 0, 2048, 0, 2).ljust(256, b"\0"))
        raw[128:192] = struct.pack("<QQQQIIQ", 2048, 1 << 21, place // 512, 0, 0, 0, 0).ljust(64, b"\0")
        raw += bytes(4)
        total = sum(struct.unpack(f"<{len(raw) // 4}I", raw))
        raw[216:220] = struct.pack("<I", (total & 0xFFFFFFFF) + (total >> 32) & 0xFFFFFFFF)
        return bytes(raw)
    places = {0: range(AREA - 8192, AREA, 4096), 1: range(0, AREA, 65536), 2: range(4096, AREA, 65536)}[minor]
    return area(*((place, superblock(place)) for place in places))


def gpt(block: int) -> bytes:
    """A protective MBR and a partition table with one partition, with right checksums."""
    entry = uuid.UUID("0fc63daf-8483-4772-8e79-3d69d8477de4").bytes_le + ID.bytes_le + \
        struct.pack("<QQQ", 2048, 65535, 0) + "stolen".encode("utf-16-le").ljust(72, b"\0")
    entries = entry.ljust(128 * 128, b"\0")

    def header(own: int, other: int, table: int) -> bytes:
        raw = struct.pack("<8sIIIIQQQQ16sQIII", b"EFI PART", 0x10000, 92, 0, 0, own, other, 40, 65535, ID.bytes_le,
                          table, 128, 128, zlib.crc32(entries))
        return raw[:16] + struct.pack("<I", zlib.crc32(raw)) + raw[20:]
    mbr = bytes(446) + struct.pack("<BBBBBBBBII", 0, 0, 2, 0, 0xEE, 255, 255, 255, 1, 0xFFFFFFFF) + bytes(48) + b"\x55\xaa"
    last = AREA // block - 1
    return area((0, mbr), (block, header(1, last, 2)), (2 * block, entries), (AREA - block, header(last, 1, last - 32)))


AREAS = [
    xfs(), zfs(), md(0), md(1), md(2), gpt(512), gpt(4096),
    # BlueStore; LVM; LUKS; btrfs; ext4; what dm-raid and md write beside the data.
    area(*((offset, b"bluestore block device\n" + str(ID).encode() + b"\n") for offset in range(0, AREA, 4096))),
    area(*((offset, b"LABELONE" + struct.pack("<QII8s", 1, 0, 32, b"LVM2 001")) for offset in range(512, AREA, 4096))),
    area(*((offset, b"LUKS\xba\xbe\0\x02") for offset in range(0, AREA, 16384))),
    area((65536 + 64, b"_BHRfS_M"), (1024 + 56, b"\x53\xef")),
    area(*((offset, b"DmRd" + struct.pack("<IIII", 0, 4, 0, 9)) for offset in range(0, AREA, 8192)),
         *((offset, b"bitm" + struct.pack("<I", 4) + ID.bytes) for offset in range(4096, AREA, 8192))),
]

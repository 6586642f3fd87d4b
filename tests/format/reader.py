#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Reads what Perch wrote on a drive, by docs/on-disk-format.md alone: no code is shared with Perch.

usage: reader.py DRIVE

Prints the partition table's state, the label, the configuration and the superblock, dirty map and bad ranges of each
member on that drive as JSON. DRIVE is an image or a block device with the logical block size that its label says; it is
only read. What is damaged or refused is listed under "problems"; exit status 0 if there is a label and nothing is.
"""

import binascii
import json
import struct
import sys
import uuid

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
UNIT = 4 * KIB
PARTITION_TYPE = uuid.UUID("50455243-4852-4149-4454-4d454d424552")
FRONT = GIB
SLOT, SLOTS_AT, EXTENTS_AT = 4 * MIB, MIB, 9 * MIB
LEVELS = {0: "raid0", 1: "raid1", 5: "raid5", 6: "raid6", 10: "raid10", 50: "raid50", 60: "raid60"}
OWNERS = {1: "perch", 2: "dm-raid"}
STATES = {1: "absent", 2: "in sync", 3: "rebuilding", 4: "failed"}
TASKS = {1: "rebuild", 2: "resync", 3: "check", 4: "patrol read", 5: "reshape"}
REASONS = {1: "lost", 2: "undefined"}


class Empty(Exception):
    """Nothing was ever written there."""


class Damaged(Exception):
    """Something is there and does not check."""


class Newer(Exception):
    """Written by a later version; nothing else may count in its stead."""


def make_crc_table() -> list[int]:
    """Remainders of all bytes by Castagnoli's polynomial, reflected."""
    table = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
        table.append(value)
    return table


CRC_TABLE = make_crc_table()


def crc32c(data: bytes) -> int:
    """CRC32C of the bytes."""
    value = 0xFFFFFFFF
    for byte in data:
        value = CRC_TABLE[(value ^ byte) & 0xFF] ^ value >> 8
    return value ^ 0xFFFFFFFF


def uuid_at(data: bytes, place: int) -> str:
    """The 16 bytes there as text."""
    return str(uuid.UUID(bytes=data[place:place + 16]))


def u32(data: bytes, place: int) -> int:
    """A 32-bit number."""
    return struct.unpack_from("<I", data, place)[0]


def u64(data: bytes, place: int) -> int:
    """A 64-bit number."""
    return struct.unpack_from("<Q", data, place)[0]


def check(data: bytes, magic: bytes, what: str) -> None:
    """Magic, and the checksum at byte 8."""
    if not any(data):
        raise Empty(f"no {what}")
    if data[:8] != magic:
        raise Damaged(f"no {what}, but something else in its place")
    if crc32c(data[:8] + bytes(4) + data[12:]) != u32(data, 8):
        raise Damaged(f"the {what}'s checksum does not match")


def demand(good: bool, what: str) -> None:
    """A rule of the format."""
    if not good:
        raise Damaged(what)


class Drive:
    """A drive, read in whole units."""

    def __init__(self, path: str):
        self.file = open(path, "rb")  # closed with the program
        self.size = self.file.seek(0, 2)

    def read(self, offset: int, length: int) -> bytes:
        """Exactly that many bytes."""
        self.file.seek(offset)
        data = self.file.read(length)
        if len(data) != length:
            raise Damaged(f"the drive ends before {offset + length}")
        return data


def newest(copies: list, counter) -> object:
    """Of two copies, each a function that decodes it, the valid one that counts."""
    found, troubles = [], []
    for copy in copies:
        try:
            found.append(copy())
        except (Empty, Damaged) as trouble:
            troubles.append(trouble)
    if not found:
        raise next((trouble for trouble in troubles if isinstance(trouble, Damaged)), troubles[0])
    return max(found, key=counter)


# --- the drive


def gpt_copy(drive: Drive, block: int, lba: int) -> dict | None:
    """Perch's partition by one copy of the table; {} when that copy has none, None when it is damaged."""
    try:
        header = drive.read(lba * block, block)
        size = u32(header, 12)
        entries_at, count, entry_size, entries_crc = struct.unpack_from("<QIII", header, 72)
        if header[:8] != b"EFI PART" or not 92 <= size <= block or u64(header, 24) != lba or \
                binascii.crc32(header[:16] + bytes(4) + header[20:size]) != u32(header, 16) or \
                entry_size < 128 or not 0 < count * entry_size <= MIB:
            return None
        entries = drive.read(entries_at * block, count * entry_size)
    except Damaged:
        return None
    if binascii.crc32(entries) != entries_crc:
        return None
    if uuid.UUID(bytes_le=entries[:16]) != PARTITION_TYPE:
        return {}
    first, last = struct.unpack_from("<QQ", entries, 32)
    return {"offset": first * block, "bytes": (last - first + 1) * block}


def read_table(drive: Drive, block: int) -> dict:
    """Which copies are whole, and Perch's partition."""
    mbr = drive.read(0, 512)
    protective = mbr[510:] == b"\x55\xaa" and any(
        mbr[place + 4] == 0xEE and u32(mbr, place + 8) == 1 for place in range(446, 510, 16))
    primary = gpt_copy(drive, block, 1) if protective else None
    backup = gpt_copy(drive, block, drive.size // block - 1)
    return {"primary": primary is not None, "backup": backup is not None,
            "partition": (primary if primary is not None else backup) or None}


def label_places(drive: Drive) -> list[int]:
    """Offsets of label A, then of label B for each coercion."""
    places = [FRONT + UNIT]
    for slack, step in ((256 * MIB, GIB), (MIB, 128 * MIB), (MIB, MIB)):
        end = (drive.size - slack) // step * step
        if end >= FRONT + EXTENTS_AT + MIB:
            places.append(end - MIB + UNIT)
    return places


def decode_label(data: bytes) -> dict:
    """A label's 4096 bytes."""
    check(data, b"PERCHLBL", "label")
    if u32(data, 12) > 1 or u64(data, 32):
        raise Newer("the label was written by a newer version")
    label = {"controller": uuid_at(data, 40), "drive": uuid_at(data, 56), "device_bytes": u64(data, 72),
             "partition": {"offset": u64(data, 80), "bytes": u64(data, 88)}, "logical_block_bytes": u32(data, 96)}
    offset, size = label["partition"]["offset"], label["partition"]["bytes"]
    demand(label["logical_block_bytes"] in (512, 4096), "the label's block size")
    demand((u32(data, 100), u64(data, 104), u64(data, 112), u64(data, 120)) == (2, SLOT, SLOTS_AT, EXTENTS_AT),
           "the label's layout")
    demand(offset % MIB == 0 and size % MIB == 0 and size > EXTENTS_AT + MIB and offset + size <= label["device_bytes"],
           "the label's partition")
    return label


def read_label(drive: Drive) -> dict:
    """Label A, else the only label B."""
    places = label_places(drive)
    try:
        return decode_label(drive.read(places[0], UNIT))
    except (Empty, Damaged) as trouble:
        first = trouble
    found = []
    for place in places[1:]:
        try:
            found.append(decode_label(drive.read(place, UNIT)))
        except (Empty, Damaged):
            pass
    if not found:
        raise first
    demand(all(label == found[0] for label in found), "labels that contradict each other")
    return found[0]


# --- the configuration


def read_slot(drive: Drive, offset: int) -> dict:
    """The text in one slot, as an object."""
    header = drive.read(offset, UNIT)
    check(header, b"PERCHCFG", "configuration")
    if u32(header, 12) > 1 or u64(header, 16):
        raise Newer("the configuration was written by a newer version")
    length = u64(header, 80)
    demand(length <= SLOT - UNIT, "the configuration's length")
    text = drive.read(offset + UNIT, length)
    demand(crc32c(text) == u32(header, 88), "the configuration's checksum does not match")
    try:
        configuration = json.loads(text)
    except ValueError as error:
        raise Damaged(f"the configuration is no JSON: {error}") from error
    demand(configuration["sequence"] == u64(header, 24) and configuration["id"] == uuid_at(header, 32) and
           configuration["controller"] == uuid_at(header, 64),
           "the configuration's header and text disagree")
    return configuration


# --- a member's extents


def decode_superblock(data: bytes) -> dict:
    """A superblock's 16 KiB."""
    check(data, b"PERCHSUP", "superblock")
    if u32(data, 12) > 1 or u64(data, 32):
        raise Newer("the superblock was written by a newer version")
    row, members, per_span, level, owner, flags, strip, block = struct.unpack_from("<8I", data, 144)
    data_bytes, vd_bytes, region, data_offset, reshape = struct.unpack_from("<5Q", data, 176)
    demand(0 < members <= 256 and row < members and per_span and members % per_span == 0, "the superblock's members")
    demand(level in LEVELS and owner in OWNERS and flags < 4, "the superblock's level, owner or flags")
    tasks = [struct.unpack_from("<IIQ", data, 216 + 16 * number) for number in range(8)]
    count = u32(data, 344)
    demand(count <= 256 and all(kind in (0, *TASKS) for kind, _, _ in tasks), "the superblock's entries")
    entries = []
    for number in range(count):
        place = 8192 + 32 * number
        recovered, member_row, state, member_flags = struct.unpack_from("<QHBB", data, place + 16)
        demand(state in STATES and member_row < members and member_flags < 2, "a member of the superblock")
        entries.append({"row": member_row, "instance": uuid_at(data, place), "state": STATES[state],
                        "log_ignored": bool(member_flags & 1), "recovered_bytes": recovered})
    return {
        "vd": uuid_at(data, 40), "instance": uuid_at(data, 56), "controller": uuid_at(data, 72),
        "update_counter": u64(data, 88),
        "epoch": {"number": u64(data, 96), "nonce": uuid_at(data, 104), "parent": uuid_at(data, 120)},
        "log_generation": u64(data, 136), "row": row, "member_count": members, "per_span": per_span,
        "level": LEVELS[level], "owner": OWNERS[owner], "clean": bool(flags & 1), "tombstone": bool(flags & 2),
        "strip_bytes": strip, "block_bytes": block, "data_bytes": data_bytes, "vd_bytes": vd_bytes,
        "region_bytes": region, "data_offset": data_offset, "reshape_position": reshape,
        "tasks": [{"kind": TASKS[kind], "row": None if task_row == 0xFFFFFFFF else task_row, "bytes": cursor}
                  for kind, task_row, cursor in tasks if kind],
        "members": entries}


def read_superblock(drive: Drive, extent: int) -> dict | None:
    """The copy that counts; None: none yet."""
    places = [extent, extent + 512 * KIB]
    try:
        return newest([lambda place=place: decode_superblock(drive.read(place, 16 * KIB)) for place in places],
                      lambda superblock: superblock["update_counter"])
    except Empty:
        return None
    except Damaged:
        # Only a first write that was cut off leaves copy 0 damaged and copy 1 empty.
        if not any(drive.read(places[1], 16 * KIB)):
            return None
        raise


def decode_map_page(data: bytes, vd: str, number: int) -> bytes:
    """The bits of a page of the dirty map."""
    check(data, b"PERCHMAP", "map page")
    demand(u32(data, 12) == number and uuid_at(data, 16) == vd, "another VD's page")
    return data[64:]


def read_dirty_map(drive: Drive, extent: int, vd: str, regions: int) -> dict:
    """How many regions this member's map calls dirty, and how many pages count as dirty because they do not check."""
    per_page = 16128
    dirty, unusable = 0, 0
    for number in range((regions + per_page - 1) // per_page):
        here = min(per_page, regions - number * per_page)
        try:
            bits = decode_map_page(drive.read(extent + number * UNIT, UNIT), vd, number)
        except (Empty, Damaged):
            unusable += 1
            dirty += here
            continue
        dirty += sum(bits[region // 4] >> region % 4 * 2 & 1 for region in range(here))
    return {"regions": regions, "dirty": dirty, "unusable_pages": unusable}


def decode_bad_page(data: bytes, vd: str, number: int) -> tuple[int, list]:
    """Counter and ranges of a page."""
    if not any(data):
        return 0, []
    check(data, b"PERCHBAD", "page of bad ranges")
    count = u32(data, 40)
    demand(u32(data, 12) == number and uuid_at(data, 16) == vd and count <= 252, "another VD's page")
    ranges = [struct.unpack_from("<QII", data, 64 + 16 * place) for place in range(count)]
    demand(all(sectors and reason in REASONS for _, sectors, reason in ranges), "a bad range")
    return u64(data, 32), [{"first_sector": first, "sectors": sectors, "reason": REASONS[reason]}
                           for first, sectors, reason in ranges]


def read_bad_ranges(drive: Drive, extent: int, vd: str) -> list:
    """All ranges of this member's list."""
    ranges = []
    for number in range(128):
        places = [extent + number * UNIT, extent + 512 * KIB + number * UNIT]
        ranges += newest([lambda place=place: decode_bad_page(drive.read(place, UNIT), vd, number)
                          for place in places], lambda page: page[0])[1]
    return sorted(ranges, key=lambda row: row["first_sector"])


def read_member(drive: Drive, partition: int, vd: dict, member: dict, problems: list) -> dict:
    """What this drive's member of a VD says of itself."""
    extents = {extent["type"]: partition + extent["offset"] for extent in member["extents"]}
    result = {"vd": vd["uuid"], "instance": member["instance"], "superblock": None, "dirty_map": None,
              "bad_ranges": None}
    try:
        superblock = result["superblock"] = read_superblock(drive, extents["superblock"])
        if superblock is None:
            return result
        if (superblock["vd"], superblock["instance"]) != (vd["uuid"], member["instance"]):
            problems.append(f"VD {vd['name']}: the superblock is from another assignment")
            return result
        if superblock["region_bytes"] and "dirty-map" in extents:
            regions = -(-superblock["data_bytes"] // superblock["region_bytes"])
            result["dirty_map"] = read_dirty_map(drive, extents["dirty-map"], vd["uuid"], regions)
        if "bad-ranges" in extents:
            result["bad_ranges"] = read_bad_ranges(drive, extents["bad-ranges"], vd["uuid"])
    except (Damaged, Newer) as trouble:
        problems.append(f"VD {vd['name']}: {trouble}")
    return result


def read_drive(path: str) -> dict:
    """All that is on a drive."""
    drive = Drive(path)
    problems = []
    result = {"table": None, "label": None, "configuration": None, "members": [], "problems": problems}
    try:
        label = result["label"] = read_label(drive)
        partition = label["partition"]
        table = result["table"] = read_table(drive, label["logical_block_bytes"])
        if not (table["primary"] and table["backup"]):
            problems.append("the partition table is damaged")
        if table["partition"] not in (None, partition):
            problems.append("the partition table was edited")
        slots = [partition["offset"] + SLOTS_AT + number * SLOT for number in range(2)]
        configuration = result["configuration"] = newest(
            [lambda slot=slot: read_slot(drive, slot) for slot in slots], lambda text: text["sequence"])
    except Empty:
        return result
    except (Damaged, Newer) as trouble:
        problems.append(str(trouble))
        return result
    for vd in configuration["vds"]:
        for member in vd["members"]:
            if member["drive"] == label["drive"]:
                result["members"].append(read_member(drive, partition["offset"], vd, member, problems))
    return result


def main() -> int:
    """Print what is on the drive that the command line names."""
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        print(__doc__, file=sys.stderr)
        return 2
    result = read_drive(sys.argv[1])
    print(json.dumps(result, indent=1))
    return 0 if result["label"] and not result["problems"] else 1


if __name__ == "__main__":
    sys.exit(main())

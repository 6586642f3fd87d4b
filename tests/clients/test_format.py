# SPDX-License-Identifier: GPL-2.0-or-later
"""The on-disk format, read by a program that shares no code with Perch and was written from docs/on-disk-format.md.

The committed golden files, which the C++ code reads and writes, are laid out on an image; what tests/format/reader.py
makes of it must be what they say.
"""

import binascii
import json
import pathlib
import struct
import subprocess
import sys
import uuid

import pytest

TESTS = pathlib.Path(__file__).resolve().parents[1]
GOLDEN = TESTS / "unit" / "golden"
READER = TESTS / "format" / "reader.py"
sys.path.insert(0, str(READER.parent))

import reader  # noqa: E402

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
ROW = 2  # of the member that the golden superblock is


def from_hex(name):
    """A golden dump: "# size N", then rows of an offset and bytes; zeros are left out."""
    data = bytearray()
    for line in (GOLDEN / name).read_text().splitlines():
        if line.startswith("# size "):
            data = bytearray(int(line.split()[2].rstrip(";")))
        elif line and not line.startswith("#"):
            place, *values = line.split("|")[0].split()
            data[int(place, 16):int(place, 16) + len(values)] = bytes.fromhex("".join(values))
    assert data
    return data


def sealed(data, place=8):
    """The checksum made right after an edit."""
    struct.pack_into("<I", data, place, 0)
    struct.pack_into("<I", data, place, reader.crc32c(data))
    return data


def gpt(size, block, first, length):
    """The first and last blocks of a GPT with one partition of Perch's type, by the UEFI specification."""
    last = size // block - 1
    entry = uuid.UUID("50455243-4852-4149-4454-4d454d424552").bytes_le + uuid.uuid4().bytes + \
        struct.pack("<QQQ", first // block, (first + length) // block - 1, 0) + "perch".encode("utf-16-le").ljust(72, b"\0")
    entries = entry.ljust(128 * 128, b"\0")
    guid = uuid.uuid4().bytes

    def header(own, other, entries_at):
        data = bytearray(struct.pack("<8sIIIIQQQQ16sQIII", b"EFI PART", 0x10000, 92, 0, 0, own, other, 6 + 16 * KIB // block,
                                     last - 1 - 16 * KIB // block, guid, entries_at, 128, 128, binascii.crc32(entries)))
        struct.pack_into("<I", data, 16, binascii.crc32(data))
        return bytes(data).ljust(block, b"\0")

    mbr = bytearray(block)
    mbr[446:462] = struct.pack("<8BII", 0, 0, 2, 0, 0xEE, 255, 255, 255, 1, min(last, 0xFFFFFFFF))
    mbr[510:512] = b"\x55\xaa"
    backup_entries = last - len(entries) // block
    return bytes(mbr) + header(1, last, 2) + entries, entries + header(last, 1, backup_entries)


class Image:
    """A sparse drive with everything that Perch writes."""

    def __init__(self, path):
        self.path = path
        label = from_hex("label-v1.hex")
        self.text = (GOLDEN / "configuration-v1.json").read_bytes()
        self.configuration = json.loads(self.text)
        self.vd = self.configuration["vds"][0]
        self.member = self.vd["members"][ROW]
        # The golden files are of different drives; this one is that of the superblock.
        label[56:72] = uuid.UUID(self.member["drive"]).bytes
        self.label = sealed(label)
        self.size = struct.unpack_from("<Q", label, 72)[0]
        self.partition, self.length = struct.unpack_from("<QQ", label, 80)
        with open(path, "wb") as file:
            file.truncate(self.size)
        front, back = gpt(self.size, 4096, self.partition, self.length)
        self.put(0, front)
        self.put(self.size - len(back), back)
        self.put(self.partition + 4096, self.label)
        self.put(self.partition + self.length - MIB + 4096, self.label)
        self.put(self.slot(0), from_hex("config-header-v1.hex") + self.text)
        self.superblock = from_hex("superblock-v1.hex")
        self.put(self.extent("superblock"), self.superblock)

    def put(self, offset, data):
        with open(self.path, "r+b") as file:
            file.seek(offset)
            file.write(data)

    def slot(self, number):
        return self.partition + MIB + number * 4 * MIB

    def extent(self, kind):
        return self.partition + next(row["offset"] for row in self.member["extents"] if row["type"] == kind)

    def put_slot(self, number, **changes):
        """Another state of the configuration."""
        configuration = {**self.configuration, **changes}
        text = json.dumps(configuration).encode()
        header = from_hex("config-header-v1.hex")
        struct.pack_into("<Q", header, 24, configuration["sequence"])
        struct.pack_into("<QI", header, 80, len(text), reader.crc32c(text))
        self.put(self.slot(number), sealed(header) + text)

    def put_superblock(self, copy, counter, flags=None):
        data = bytearray(self.superblock)
        struct.pack_into("<Q", data, 88, counter)
        if flags is not None:
            struct.pack_into("<I", data, 164, flags)
        self.put(self.extent("superblock") + copy * 512 * KIB, sealed(data))

    def read(self, status=0):
        """What the program prints, and its exit status."""
        result = subprocess.run([sys.executable, str(READER), str(self.path)], capture_output=True, text=True, check=False)
        assert result.stderr == ""
        assert result.returncode == status, result.stdout
        return json.loads(result.stdout)


@pytest.fixture
def image(tmp_path):
    return Image(tmp_path / "drive")


def test_crc32c_is_castagnolis():
    assert reader.crc32c(b"123456789") == 0xE3069283


def test_everything_on_a_drive_is_read(image):
    seen = image.read()
    assert seen["table"] == {"primary": True, "backup": True, "partition": {"offset": GIB, "bytes": 2979 * GIB}}
    assert seen["label"] == {
        "controller": "c0c0c0c0-0001-4002-8003-000000000004", "drive": image.member["drive"],
        "device_bytes": 3200631791616, "partition": {"offset": GIB, "bytes": 2979 * GIB}, "logical_block_bytes": 4096}
    assert seen["configuration"] == image.configuration
    assert seen["problems"] == []
    [member] = seen["members"]
    superblock = member["superblock"]
    assert superblock["vd"] == image.vd["uuid"] and superblock["instance"] == image.member["instance"]
    assert superblock["epoch"] == {"number": 12, "nonce": "e0000000-0000-4000-8000-00000000000c",
                                   "parent": "e0000000-0000-4000-8000-00000000000b"}
    assert (superblock["level"], superblock["owner"], superblock["clean"], superblock["tombstone"]) == \
        ("raid6", "perch", True, False)
    assert (superblock["row"], superblock["member_count"], superblock["per_span"]) == (ROW, 4, 4)
    assert (superblock["update_counter"], superblock["log_generation"]) == (77, 9)
    assert (superblock["data_bytes"], superblock["vd_bytes"], superblock["data_offset"], superblock["region_bytes"]) == \
        (900 * GIB, 1800 * GIB, 280 * MIB, 4 * MIB)
    assert superblock["tasks"] == [{"kind": "rebuild", "row": 3, "bytes": 17 * GIB},
                                   {"kind": "patrol read", "row": None, "bytes": 5 * GIB}]
    assert [(row["row"], row["state"], row["log_ignored"], row["recovered_bytes"]) for row in superblock["members"]] == \
        [(0, "in sync", True, 0), (1, "absent", False, 0), (2, "in sync", False, 0), (3, "rebuilding", False, 17 * GIB),
         (3, "failed", True, 0)]
    assert member["dirty_map"] is None and member["bad_ranges"] is None


def test_the_dirty_map_and_the_bad_ranges(image):
    vd = uuid.UUID(image.vd["uuid"]).bytes
    # The golden VD has neither.
    image.member["extents"] += [{"type": kind, "offset": 2 * GIB + number * MIB, "bytes": MIB}
                                for number, kind in enumerate(("dirty-map", "bad-ranges"))]
    image.put_slot(1, sequence=image.configuration["sequence"] + 1)
    # 900 GiB in regions of 4 MiB, and no page of the map was ever written.
    [member] = image.read()["members"]
    assert member["dirty_map"] == {"regions": 230400, "dirty": 230400, "unusable_pages": 15}
    assert member["bad_ranges"] == []
    for page in range(15):
        data = bytearray(struct.pack("<8sII16s", b"PERCHMAP", 0, page, vd).ljust(4096, b"\0"))
        # Of the second page region 5: dirty. Of the third, region 2: never written.
        if page == 1:
            data[64 + 1] = 1 << 2
        if page == 2:
            data[64] = 2 << 4
        image.put(image.extent("dirty-map") + page * 4096, sealed(data))
    for half, counter, ranges in ((0, 3, [(2048, 8, 1)]), (1, 4, [(2048, 8, 1), (64, 1, 2)])):
        data = bytearray(struct.pack("<8sII16sQI", b"PERCHBAD", 0, 7, vd, counter, len(ranges)).ljust(4096, b"\0"))
        for number, row in enumerate(ranges):
            struct.pack_into("<QII", data, 64 + 16 * number, *row)
        image.put(image.extent("bad-ranges") + half * 512 * KIB + 7 * 4096, sealed(data))
    [member] = image.read()["members"]
    assert member["dirty_map"] == {"regions": 230400, "dirty": 1, "unusable_pages": 0}
    newer = [{"first_sector": 64, "sectors": 1, "reason": "undefined"},
             {"first_sector": 2048, "sectors": 8, "reason": "lost"}]
    assert member["bad_ranges"] == newer
    # The newer half torn: the older one counts.
    image.put(image.extent("bad-ranges") + 512 * KIB + 7 * 4096 + 100, b"x")
    assert image.read()["members"][0]["bad_ranges"] == newer[1:]


def test_the_newest_valid_copy_counts(image):
    sequence = image.configuration["sequence"]
    image.put_slot(1, sequence=sequence + 1, jbods=["nguid.new"])
    image.put_superblock(1, 78, flags=3)
    seen = image.read()
    assert seen["configuration"]["sequence"] == sequence + 1
    assert seen["members"][0]["superblock"]["tombstone"] is True
    # Torn in the middle, both.
    image.put(image.slot(1) + 4096 + 50, b"\0\0\0")
    image.put(image.extent("superblock") + 512 * KIB + 9000, b"x")
    seen = image.read()
    assert seen["configuration"]["sequence"] == sequence
    assert seen["members"][0]["superblock"]["tombstone"] is False


def test_a_first_superblock_that_was_cut_off_is_none_and_damage_is_damage(image):
    image.put(image.extent("superblock") + 9000, b"x")
    assert image.read()["members"][0]["superblock"] is None
    image.put(image.extent("superblock") + 512 * KIB, b"x")
    assert "superblock" in image.read(1)["problems"][0]


def test_a_label_is_found_without_a_table_and_without_its_front_copy(image):
    image.put(0, bytes(MIB))
    image.put(image.size - MIB, bytes(MIB))
    image.put(image.partition, bytes(MIB))
    seen = image.read(1)
    assert seen["label"]["drive"] == image.member["drive"]
    assert seen["table"]["partition"] is None
    assert seen["configuration"] == image.configuration
    assert seen["problems"] == ["the partition table is damaged"]


@pytest.mark.parametrize("what", ["label", "configuration", "superblock"])
def test_a_newer_version_is_refused_though_the_other_copy_is_not(image, what):
    if what == "label":
        struct.pack_into("<Q", image.label, 32, 1)
        image.put(image.partition + 4096, sealed(image.label))
    elif what == "configuration":
        header = from_hex("config-header-v1.hex")
        struct.pack_into("<I", header, 12, 2)
        image.put(image.slot(1), sealed(header))
    else:
        struct.pack_into("<I", image.superblock, 12, 2)
        image.put(image.extent("superblock") + 512 * KIB, sealed(image.superblock))
    seen = image.read(1)
    assert [what in problem and "newer" in problem for problem in seen["problems"]] == [True]
    assert what != "label" or seen["label"] is None
    assert what == "superblock" or seen["configuration"] is None


def test_nothing_on_an_empty_drive(tmp_path):
    path = tmp_path / "drive"
    path.touch()
    with open(path, "wb") as file:
        file.truncate(3 * GIB)
    result = subprocess.run([sys.executable, str(READER), str(path)], capture_output=True, text=True, check=False)
    assert result.returncode == 1
    assert json.loads(result.stdout) == {"table": None, "label": None, "configuration": None, "members": [], "problems": []}

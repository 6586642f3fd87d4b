# SPDX-License-Identifier: GPL-2.0-or-later
"""Which shared libraries an x86-64 ELF file asks for."""

import struct
from pathlib import Path

PT_LOAD, PT_DYNAMIC = 1, 2
DT_NULL, DT_NEEDED, DT_STRTAB = 0, 1, 5


def is_elf(path: Path) -> bool:
    """Whether `path` is a regular ELF file (following links)."""
    if not path.is_file():
        return False
    with open(path, "rb") as handle:
        return handle.read(4) == b"\x7fELF"


def needed(path: Path) -> list[str]:
    """The DT_NEEDED names of an ELF64 little-endian file; empty for a static one."""
    data = path.read_bytes()
    if data[:6] != b"\x7fELF\x02\x01":
        raise ValueError(f"{path}: not a 64-bit little-endian ELF file")
    offset, = struct.unpack_from("<Q", data, 32)
    size, count = struct.unpack_from("<HH", data, 54)
    loads, dynamic = [], None
    for index in range(count):
        kind, _, start, address, _, length, _, _ = struct.unpack_from("<IIQQQQQQ", data, offset + index * size)
        if kind == PT_LOAD:
            loads.append((address, start, length))
        elif kind == PT_DYNAMIC:
            dynamic = (start, length)
    if dynamic is None:
        return []
    entries = []
    for position in range(dynamic[0], dynamic[0] + dynamic[1], 16):
        tag, value = struct.unpack_from("<QQ", data, position)
        if tag == DT_NULL:
            break
        entries.append((tag, value))
    strings = next(value for tag, value in entries if tag == DT_STRTAB)
    base = next(start + strings - address for address, start, length in loads if address <= strings < address + length)
    names = []
    for tag, value in entries:
        if tag == DT_NEEDED:
            names.append(data[base + value:data.index(b"\0", base + value)].decode())
    return names

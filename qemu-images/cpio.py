# SPDX-License-Identifier: GPL-2.0-or-later
"""Write initramfs archives (cpio "newc"), everything owned by root, without needing to be root."""

import os
import stat
from pathlib import Path


class Archive:
    """An archive being written to `path`; use as a context manager."""

    def __init__(self, path: Path):
        self._file = open(path, "wb")
        self._inode = 0
        self._seen: set[str] = set()

    def __enter__(self):
        return self

    def __exit__(self, kind, value, traceback):
        if kind is None:
            self._write("TRAILER!!!", 0, b"")
            self._file.write(bytes(-self._file.tell() % 512))
        self._file.close()

    def __contains__(self, name: str) -> bool:
        return name.strip("/") in self._seen

    def directory(self, name: str, mode: int = 0o755) -> None:
        """Add a directory and its parents; one that is there already is left alone."""
        self._add(name, stat.S_IFDIR | mode, b"")

    def symlink(self, name: str, target: str) -> None:
        """Add a symbolic link, unless the name is taken."""
        self._add(name, stat.S_IFLNK | 0o777, os.fsencode(target))

    def file(self, name: str, data: bytes, mode: int = 0o644) -> None:
        """Add a regular file, unless the name is taken."""
        self._add(name, stat.S_IFREG | mode, data)

    def copy(self, name: str, source: Path) -> None:
        """Add the file, link or directory (itself, not what is in it) at `source`."""
        mode = source.lstat().st_mode
        if stat.S_ISLNK(mode):
            self.symlink(name, os.readlink(source))
        elif stat.S_ISDIR(mode):
            self.directory(name, stat.S_IMODE(mode))
        elif stat.S_ISREG(mode):
            self.file(name, source.read_bytes(), stat.S_IMODE(mode))
        else:
            raise ValueError(f"{source}: neither a file, a link nor a directory")

    def _add(self, name: str, mode: int, data: bytes) -> None:
        name = name.strip("/")
        if not name or name in self._seen:
            return
        self._seen.add(name)
        parent = os.path.dirname(name)
        if parent:
            self.directory(parent)
        self._write(name, mode, data)

    def _write(self, name: str, mode: int, data: bytes) -> None:
        self._inode += 1
        raw = os.fsencode(name) + b"\0"
        fields = (self._inode, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(raw), 0)
        header = b"070701" + b"".join(b"%08X" % field for field in fields)
        self._file.write(header + raw + bytes(-(len(header) + len(raw)) % 4))
        self._file.write(data + bytes(-len(data) % 4))

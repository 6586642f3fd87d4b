# SPDX-License-Identifier: GPL-2.0-or-later
"""The cache of built images, outside the source tree.

An entry is a directory ``<root>/<name>-<key>`` whose key is a hash of everything that goes in.
It is built in a temporary directory and renamed, so an interrupted build leaves nothing that looks
finished; a lock per name makes concurrent runs wait for one build instead of doing it twice.
"""

import contextlib
import fcntl
import hashlib
import os
import shutil
import tempfile
import time
from pathlib import Path

KEEP_SECONDS = 24 * 3600
"""An entry nobody used for this long is removed when its successor is built."""


def root() -> Path:
    """The cache directory: $PERCH_CACHE, else ~/.cache/perch. Created when missing."""
    path = Path(os.environ.get("PERCH_CACHE") or Path.home() / ".cache" / "perch").absolute()
    path.mkdir(parents=True, exist_ok=True)
    return path


@contextlib.contextmanager
def locked(path: Path):
    """Hold an exclusive lock on `path` (a file, created when missing); waits for other holders."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "a", encoding="ascii") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def key_of(*parts) -> str:
    """A short hash of strings, bytes, and files (pathlib.Path: their content and name)."""
    digest = hashlib.sha256()
    for part in parts:
        if isinstance(part, Path):
            data = part.name.encode() + b"\0" + part.read_bytes()
        elif isinstance(part, bytes):
            data = part
        else:
            data = str(part).encode()
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()[:16]


def entry(name: str, key: str, build) -> Path:
    """The directory of cache entry `name`-`key`; ``build(directory)`` fills it when it is missing."""
    final = root() / f"{name}-{key}"
    if not final.is_dir():
        with locked(root() / f".lock-{name}"):
            if not final.is_dir():
                _remove_leftovers(name)
                partial = Path(tempfile.mkdtemp(prefix=f".partial-{name}-", dir=root()))
                try:
                    build(partial)
                    partial.chmod(0o755)
                    partial.rename(final)
                finally:
                    shutil.rmtree(partial, ignore_errors=True)
    os.utime(final)
    return final


def _remove_leftovers(name: str) -> None:
    """Remove interrupted builds of `name` (the caller holds its lock) and long unused entries."""
    for path in root().glob(f".partial-{name}-*"):
        shutil.rmtree(path, ignore_errors=True)
    for path in root().glob(f"{name}-*"):
        if time.time() - path.stat().st_mtime > KEEP_SECONDS:
            shutil.rmtree(path, ignore_errors=True)

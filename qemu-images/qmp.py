# SPDX-License-Identifier: GPL-2.0-or-later
"""QEMU's machine protocol, as far as the guests need it."""

import fcntl
import json
import os
import socket
from pathlib import Path

REPLY_SECONDS = 120
"""QEMU's main loop may be held up for long on a busy host."""


class QmpError(Exception):
    """QEMU refused a command, or is not there."""


def connect(path: Path) -> socket.socket:
    """A connected unix stream socket; the path may be longer than the 107 bytes sun_path holds."""
    directory = os.open(path.parent, os.O_PATH | os.O_DIRECTORY)
    try:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.connect(f"/proc/self/fd/{directory}/{path.name}")
        except OSError:
            connection.close()
            raise
        return connection
    finally:
        os.close(directory)


class Qmp:
    """One conversation; a context manager.

    QEMU serves one client at a time, and the lab's second terminal is another process, so
    conversations are short and take turns by a lock file beside the socket.
    """

    def __init__(self, path: Path):
        self._path = path

    def __enter__(self):
        self._lock = open(self._path.with_suffix(".lock"), "a", encoding="ascii")
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        try:
            self._socket = connect(self._path)
        except OSError as error:
            self._lock.close()
            raise QmpError(f"QEMU does not answer on {self._path}: {error.strerror}") from error
        self._socket.settimeout(REPLY_SECONDS)
        self._stream = self._socket.makefile("rw", encoding="utf-8")
        self._receive()
        self.execute("qmp_capabilities")
        return self

    def __exit__(self, kind, value, traceback):
        self._stream.close()
        self._socket.close()
        self._lock.close()

    def execute(self, command: str, **arguments):
        """Run one command and return its result. Names with "-" are passed with "_"."""
        arguments = {name.replace("_", "-"): value for name, value in arguments.items()}
        return self.execute_raw(command, arguments)

    def execute_raw(self, command: str, arguments: dict):
        """Run one command with `arguments` exactly as given."""
        json.dump({"execute": command, "arguments": arguments}, self._stream)
        self._stream.write("\n")
        self._stream.flush()
        while True:
            reply = self._receive()
            if "error" in reply:
                raise QmpError(f"QEMU refused {command}: {reply['error']['desc']}")
            if "return" in reply:
                return reply["return"]

    def devices(self) -> set[str]:
        """The ids of the devices that exist."""
        listing = self.execute("qom-list", path="/machine/peripheral")
        return {item["name"] for item in listing if item["type"].startswith("child<")}

    def _receive(self) -> dict:
        line = self._stream.readline()
        if not line:
            raise QmpError("QEMU ended")
        return json.loads(line)

# SPDX-License-Identifier: GPL-2.0-or-later
"""Runs commands in a guest through its virtio-serial ports; the other side is the script `agent`."""

import base64
import codecs
import fcntl
import os
import select
import threading
import time
from collections.abc import Callable
from pathlib import Path

import qmp

PORTS = 8
CONTROL = 0
"""The port that only kills what runs on another one, so that it is always soon free."""
KEPT = 3
"""So many connections a process keeps for itself; the rest is left to other processes."""


class ChannelError(Exception):
    """The guest did not do what the protocol wants."""


class Busy(ChannelError):
    """Every port is in use."""


class Timeout(ChannelError):
    """A command took too long and was killed; `output` is what it had printed."""

    def __init__(self, text: str, output: str):
        super().__init__(text)
        self.output = output


def _encode(text: str) -> bytes:
    return base64.b64encode(text.encode())


class _Port:
    """One port, reserved for this process and connected."""

    def __init__(self, directory: Path, number: int, wait: bool):
        """Raises BlockingIOError when another process or thread has the port and `wait` is not set."""
        self.number = number
        self._lock = open(directory / f"agent{number}.lock", "a", encoding="ascii")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            self.socket = qmp.connect(directory / f"agent{number}.sock")
        except OSError:
            self._lock.close()
            raise
        self.buffer = b""

    def close(self) -> None:
        self.socket.close()
        self._lock.close()

    def read(self, seconds: float) -> bool:
        """Add what arrives within `seconds` to the buffer; false when nothing did."""
        if not select.select([self.socket], [], [], max(seconds, 0))[0]:
            return False
        data = self.socket.recv(65536)
        if not data:
            raise ChannelError("QEMU ended")
        self.buffer += data
        return True


class Channels:
    """The ports of the guest whose sockets are in `directory`."""

    def __init__(self, directory: Path, check: Callable[[], None]):
        """`check` is called about once a second while a command runs; it raises to give up."""
        self._directory = directory
        self._check = check
        self._idle: list[_Port] = []
        self._guard = threading.Lock()

    def disconnect(self) -> None:
        """Drop the idle connections (the guest restarts, or this process is done with it)."""
        with self._guard:
            for port in self._idle:
                port.close()
            self._idle.clear()

    def run(self, command: str, seconds: float, begin_seconds: float, on_output: Callable[[str], None] | None = None,
            stdin: str | None = None, on_start: Callable[[Callable[[], None]], None] | None = None) -> tuple[int, str]:
        """Run a shell command line; its exit status and output (stdout and stderr together).

        `seconds` limits the command, `begin_seconds` how long the guest may take to begin it.
        `on_output` receives the output as it comes. `on_start` receives a function that kills it.
        """
        port = self._acquire(begin_seconds)
        healthy = False
        try:
            token = self._begin(port, command, stdin, begin_seconds)
            if on_start:
                on_start(lambda: self._kill(port.number, begin_seconds))
            result = self._follow(port, token, seconds, begin_seconds, on_output)
            healthy = True
            return result
        except KeyboardInterrupt:
            self._kill(port.number, begin_seconds)
            raise
        finally:
            with self._guard:
                if healthy and len(self._idle) < KEPT:
                    self._idle.append(port)
                else:
                    port.close()

    def _acquire(self, begin_seconds: float) -> _Port:
        with self._guard:
            if self._idle:
                return self._idle.pop()
        deadline = time.monotonic() + begin_seconds
        while True:
            for number in range(PORTS):
                if number == CONTROL:
                    continue
                try:
                    return _Port(self._directory, number, wait=False)
                except BlockingIOError:
                    continue
                except OSError as error:
                    raise ChannelError(f"the guest's QEMU does not run ({error.strerror})") from error
            if time.monotonic() > deadline:
                raise Busy(f"{PORTS - 1} commands run in this guest; wait for one to end")
            time.sleep(0.05)

    def _begin(self, port: _Port, command: str, stdin: str | None, begin_seconds: float) -> str:
        """Send the command; what an earlier client left running on this port is killed first."""
        token = os.urandom(8).hex()
        request = b"%s %s %s\n" % (token.encode(), _encode(command or ":"), _encode(stdin) if stdin else b"-")
        port.socket.sendall(request)
        marker = b"\036%s:begin\n" % token.encode()
        started = time.monotonic()
        killed = port.number == CONTROL
        while marker not in port.buffer:
            port.read(0.5)
            waited = time.monotonic() - started
            if waited > begin_seconds:
                raise ChannelError(f"the guest's agent {port.number} did not answer within {waited:.0f} s")
            self._check()
            if not killed and waited > begin_seconds / 4:
                self._kill(port.number, begin_seconds)
                killed = True
        port.buffer = port.buffer.partition(marker)[2]
        return token

    def _follow(self, port: _Port, token: str, seconds: float, begin_seconds: float, on_output) -> tuple[int, str]:
        marker = b"\036%s:" % token.encode()
        deadline = time.monotonic() + seconds
        late = False
        text = ""
        decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        while True:
            ready, found, rest = port.buffer.partition(marker)
            if not found:
                # Hold back what may be the start of the marker.
                held = port.buffer.rfind(b"\036")
                cut = held if held >= 0 and len(port.buffer) - held < len(marker) else len(port.buffer)
                ready, port.buffer = port.buffer[:cut], port.buffer[cut:]
            if ready:
                piece = decoder.decode(ready)
                text += piece
                if on_output:
                    on_output(piece)
            if found:
                port.buffer = found + rest
                if b"\n" in rest:
                    break
            if not port.read(min(1.0, deadline - time.monotonic())):
                self._check()
            if time.monotonic() > deadline:
                if late:
                    break
                late = True
                deadline = time.monotonic() + begin_seconds
                self._kill(port.number, begin_seconds)
        if late:
            raise Timeout(f"killed after {seconds:.0f} s", text)
        status, _, port.buffer = rest.partition(b"\n")
        return int(status), text

    def _kill(self, number: int, begin_seconds: float) -> None:
        """Kill the process group that runs on port `number`."""
        control = _Port(self._directory, CONTROL, wait=True)
        try:
            command = f"kill -s KILL -- -$(cat /run/perch-agent/{number}.pid)"
            token = self._begin(control, command, None, begin_seconds)
            self._follow(control, token, begin_seconds, begin_seconds, None)
        finally:
            control.close()

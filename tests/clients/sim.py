# SPDX-License-Identifier: GPL-2.0-or-later
"""A simulated machine for tests: perchd --engine=sim in a directory of its own, and a FIFO for what happens to it.

    from sim import directory, machine, simulation  # noqa: F401  (fixtures; they need each other)

    def test_a_pulled_drive(simulation):                        # eight drives of 3.2 TB
        assert simulation.perchcli("/c0", "add", "vd", "r5", "drives=0:0-3").returncode == 0
        simulation.script("pull 2")
        simulation.wait_until(lambda shown: shown["vds"][0]["state"] == "Degraded", "a degraded VD")

    def test_two_kinds_of_drives(machine):
        daemon = machine("--sim-drives=4x3.2T,4x1.92T:4k")

What script() says is carried out before the next request that perchd takes; what follows from it comes in its time, so
wait for it. `speed 1000x` makes rebuilds a matter of seconds. The lines are in perchd(8).
"""

import array
import fcntl
import os
import signal
import termios
import time

import pytest
from test_socket import PATIENCE, SNAPSHOT, Perchd, directory, program  # noqa: F401  (directory is a fixture)


class Simulation(Perchd):
    """One perchd --engine=sim. `socket`, `get`, `request`, `perchcli` and `said` are Perchd's."""

    def __init__(self, place, *options):
        super().__init__(place)
        self.options = options
        self.fifo = self.directory / "script"
        if not self.fifo.exists():
            os.mkfifo(self.fifo)

    def command(self, *extra):
        return [program("perchd"), "--engine=sim", "--socket", self.socket, "--sim-script", str(self.fifo),
                *self.options, *extra]

    def answers(self):
        # The first look at the drives is done, so that what is asked for next finds them.
        return super().answers() and self.snapshot()["generation"] > 0

    def script(self, *lines):
        """Let these lines happen, in their order. Returns once perchd has read them."""
        with open(self.fifo, "wb", buffering=0) as fifo:
            fifo.write("".join(line + "\n" for line in lines).encode())
        # The loop takes the FIFO's lines and requests one after the other.
        deadline = time.monotonic() + PATIENCE
        while self._unread() and time.monotonic() < deadline:
            time.sleep(0.005)
        self.get("/redfish/v1/")

    def _unread(self):
        fifo = os.open(self.fifo, os.O_RDONLY | os.O_NONBLOCK)
        try:
            left = array.array("i", [0])
            fcntl.ioctl(fifo, termios.FIONREAD, left)
            return left[0]
        finally:
            os.close(fifo)

    def snapshot(self):
        """The whole picture, now."""
        return self.get(SNAPSHOT)[2]

    def wait_until(self, condition, what):
        """The first picture of which `condition` is true."""
        deadline = time.monotonic() + PATIENCE
        shown = self.snapshot()
        while not condition(shown):
            if time.monotonic() > deadline:
                raise AssertionError(f"in {PATIENCE} s there was no {what}: {shown}\n{self.said()}")
            shown = self.get(f"{SNAPSHOT}?after={shown['generation']}")[2]
        return shown

    def end(self):
        """As a shutdown: VDs are stopped in order."""
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(timeout=PATIENCE) == 0, self.said()

    def kill(self):
        """As a power cut, for drives that --sim-dir keeps."""
        self.process.kill()
        self.process.wait()


@pytest.fixture
def machine(directory):  # noqa: F811
    """Starts simulations: machine(*options). Each has a directory of its own below the test's."""
    started = []

    def start(*options, place=None):
        place = place or os.path.join(directory, str(len(started)))
        os.makedirs(place, exist_ok=True)
        daemon = Simulation(place, *options)
        started.append(daemon)
        return daemon.start()

    yield start
    for daemon in started:
        alive = daemon.process.poll() is None
        status = daemon.process.returncode
        if alive:
            daemon.end()
        assert alive or status in (0, -signal.SIGKILL), daemon.said()
        assert "ERROR: " not in daemon.said(), daemon.said()
        assert "runtime error:" not in daemon.said(), daemon.said()


@pytest.fixture
def simulation(machine):
    """Eight drives of 3.2 TB in slots 0 to 7."""
    return machine("--sim-drives=8x3.2T")

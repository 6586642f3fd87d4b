# SPDX-License-Identifier: GPL-2.0-or-later
"""A running guest: QEMU with emulated NVMe drives in hot-plug slots, and what one does to it.

Times are in seconds. A `timeout` is meant for the machine this was developed on and is stretched by
the guest's measured slowness. Everything about a guest is in its directory, so that another process
can `attach` to it.
"""

import json
import os
import random
import re
import select
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import cache
import channel
import hotplug
import images
import machine
import qmp
from machine import GIB, DriveSpec, MediaError, default_drives, drive_nodes

__all__ = ["GIB", "DriveSpec", "Guest", "GuestError", "MediaError", "Result", "Running", "default_drives"]

BOOT_SECONDS = 300
LOOP_SECONDS = 0.4
"""What the loop that measures slowness takes on the machine this was developed on, idle."""

CONSOLE_PROBLEMS = re.compile(
    r"\bBUG:|KASAN|KCSAN|UBSAN|WARNING:|possible circular|possible recursive|inconsistent lock state|"
    r"INFO: task .* blocked|INFO: rcu|soft lockup|hard LOCKUP|\bOops\b|general protection|Kernel panic|"
    r"kernel BUG at|Unable to handle|bad page|refcount_t:")


class GuestError(Exception):
    """Something about the guest went wrong; the text says what."""


@dataclass
class Result:
    """What a command in the guest did."""

    rc: int
    out: str


class Running:
    """A command that runs in the guest in the background."""

    def __init__(self, guest: "Guest", command: str, timeout: float, on_output, stdin, tty):
        self.command = command
        self.output = ""
        self._kill: Callable[[], None] | None = None
        self._result: Result | None = None
        self._error: Exception | None = None

        def collect(piece: str) -> None:
            self.output += piece
            if on_output:
                on_output(piece)

        def started(kill: Callable[[], None]) -> None:
            self._kill = kill
            begun.set()

        def work() -> None:
            try:
                self._result = guest.run(command, timeout, collect, stdin=stdin, tty=tty, on_start=started)
            except Exception as error:  # handed to wait()
                self._error = error
            finally:
                begun.set()

        begun = threading.Event()
        self._thread = threading.Thread(target=work, daemon=True)
        self._thread.start()
        begun.wait()

    def running(self) -> bool:
        """Whether it has not ended yet."""
        return self._thread.is_alive()

    def wait(self) -> Result:
        """Wait for its end (the timeout given to spawn() applies)."""
        self._thread.join()
        if self._error:
            raise self._error
        return self._result

    def kill(self) -> None:
        """Kill it, with all its children that stayed in its process group."""
        if self._kill and self.running():
            self._kill()
        self._thread.join()


class Guest:
    """See the module's text. Create one with start() or attach()."""

    def __init__(self, directory: Path):
        self.directory = directory
        self._channels = channel.Channels(directory, self._check)
        self._process: subprocess.Popen | None = None

    # Life cycle

    @classmethod
    def start(cls, directory: Path, kind: str = "fast", drives: list[DriveSpec] | None = None, *,
              programs: Path | None = None, files: bool = False, smp: int = 2, memory_mib: int = 1536,
              append: str = "", slots: int = machine.DEFAULT_SLOTS) -> "Guest":
        """Boot a new guest and wait until it is up. Removes what an earlier guest left in `directory`.

        programs: the install tree (DESTDIR) of our programs. files: attach the disk of real files, at
        /files. append: more kernel command line.
        """
        directory = Path(directory).absolute()
        drives = default_drives() if drives is None else drives
        if not 1 <= slots <= machine.MAX_SLOTS or any(not 0 <= drive.slot < slots for drive in drives):
            raise GuestError(f"slots are 0 to {slots - 1}, of at most {machine.MAX_SLOTS}")
        directory.mkdir(parents=True, exist_ok=True)
        guest = cls(directory)
        if guest.is_running():
            raise GuestError(f"a guest is already running in {directory}")
        for path in directory.iterdir():
            if path.suffix in (".img", ".qcow2", ".log", ".json", ".sock"):
                path.unlink()
        boot = {"fast": images.fast, "full": images.full}[kind](programs)
        disks = {serial: str(path) for serial, path in boot.disks.items()}
        if files:
            disks["perch-files"] = str(images.files())
        guest._write_state({
            "kind": kind, "kernel": str(boot.kernel), "initrd": str(boot.initrd), "disks": disks, "smp": smp,
            "memory_mib": memory_mib, "append": append, "slots": slots, "pid": 0, "slowness": 1.0,
            "drives": [asdict(drive) for drive in drives]})
        for drive in drives:
            guest._make_image(drive)
        if kind == "fast":
            images.empty_ext4(directory / "state.img", 64 << 20)
        else:
            images.copy_on_write(boot.disks["perch-root"], directory / "root.qcow2")
        guest._boot()
        return guest

    @classmethod
    def attach(cls, directory: Path) -> "Guest":
        """The guest that another process started in `directory`."""
        guest = cls(Path(directory).absolute())
        if not guest.is_running():
            raise GuestError(f"no guest is running in {directory}")
        return guest

    def __enter__(self):
        return self

    def __exit__(self, kind, value, traceback):
        self.kill()

    def is_running(self) -> bool:
        """Whether its QEMU runs."""
        return self._pidfd(close=True) is not None

    def restart(self, append: str | None = None) -> None:
        """Boot again on the same drives after kill() or stop(). append: replaces start()'s."""
        if self.is_running():
            raise GuestError("the guest is still running")
        if append is not None:
            self._update_state(append=append)
        self._boot()

    def reboot(self) -> None:
        """Reboot from inside, orderly, and wait until it is up again."""
        before = self._boot_id()
        self.run("(sleep 0.2; reboot) </dev/null >/dev/null 2>&1 &", 30)
        self._channels.disconnect()
        self._wait_until_up(different_from=before)

    def stop(self) -> None:
        """Power off from inside, orderly; wait for QEMU's end."""
        self.run("(sleep 0.2; poweroff) </dev/null >/dev/null 2>&1 &", 30)
        self.wait_for_end(180 * self.slowness)

    def kill(self) -> None:
        """SIGKILL QEMU: a crash of the guest. Completed writes survive."""
        handle = self._pidfd()
        if handle is not None:
            try:
                signal.pidfd_send_signal(handle, signal.SIGKILL)
            finally:
                os.close(handle)
            self.wait_for_end(60)
        self._channels.disconnect()

    def wait_for_end(self, seconds: float | None = None) -> None:
        """Wait until QEMU has ended; raises after `seconds`."""
        self._channels.disconnect()
        handle = self._pidfd()
        if handle is not None:
            try:
                if not select.select([handle], [], [], seconds)[0]:
                    raise GuestError(f"QEMU did not end within {seconds:.0f} s.\n{self._console_tail()}")
            finally:
                os.close(handle)
        if self._process:
            self._process.wait()
            self._process = None

    @property
    def slowness(self) -> float:
        """How much slower this guest is than on the machine this was developed on; at least 1."""
        return self._state()["slowness"]

    # Commands

    def run(self, command: str, timeout: float = 120, on_output: Callable[[str], None] | None = None, *,
            stdin: str | None = None, tty: bool = False, check: bool = False, on_start=None) -> Result:
        """Run a shell command line as root; its exit status and its output, stderr included.

        on_output: receives pieces of output as they come. tty: on a terminal of 120 columns. check: an
        exit status other than 0 is an error. Commands may run at the same time, from any thread or
        process; 7 in all. What it leaves in the background must not keep its output open.
        """
        if tty:
            quoted = command.replace("'", "'\\''")
            command = f"script -qec 'stty cols 120 rows 40; {quoted}' /dev/null"
        factor = self.slowness
        try:
            rc, out = self._channels.run(command, timeout * factor, 60 * factor, on_output, stdin, on_start)
        except channel.Timeout as error:
            raise GuestError(f"`{command}` was {error}; it had printed:\n{error.output[-2000:]}") from error
        except channel.ChannelError as error:
            raise GuestError(f"`{command}`: {error}\n{self._console_tail()}") from error
        if check and rc:
            raise GuestError(f"`{command}` exited with {rc}:\n{out}")
        return Result(rc, out)

    def spawn(self, command: str, timeout: float = 3600, on_output: Callable[[str], None] | None = None, *,
              stdin: str | None = None, tty: bool = False) -> Running:
        """Start a command and return once it has begun."""
        return Running(self, command, timeout, on_output, stdin, tty)

    # Drives

    def drives(self) -> list[DriveSpec]:
        """The drives that are in slots, by slot."""
        return sorted((DriveSpec(**drive) for drive in self._state()["drives"]), key=lambda drive: drive.slot)

    def drive(self, slot: int) -> DriveSpec:
        """The drive in `slot`."""
        slots = self._state()["slots"]
        if not 0 <= slot < slots:
            raise GuestError(f"there is no slot {slot}: slots are 0 to {slots - 1}")
        for drive in self.drives():
            if drive.slot == slot:
                return drive
        raise GuestError(f"slot {slot} is empty")

    def image(self, slot: int) -> Path:
        """The image file of the drive in `slot`."""
        return self._image(self.drive(slot).serial)

    def devices(self) -> dict[int, str]:
        """The guest's devices by slot, such as {3: "/dev/nvme3n1"}; without drives that the guest does not have."""
        found = {}
        for path in self.run(f"ls -d {hotplug.namespace(None)} 2>/dev/null").out.split():
            found[hotplug.slot_of(path)] = f"/dev/{path.split('/')[-1]}"
        return found

    def device(self, slot: int) -> str | None:
        """The guest's device of the drive in `slot`; None if the guest has none."""
        return self.devices().get(slot)

    def pull(self, slot: int) -> None:
        """Remove the drive by surprise, as pulling it out does: I/O in flight fails."""
        self.drive(slot)
        # With whole 16-bit accesses QEMU removes the drive; byte by byte it does not, see hang().
        self.run(hotplug.write_slot_control(slot, 2) + hotplug.gone(slot), check=True)
        self._forget(slot)

    def eject(self, slot: int) -> None:
        """Remove the drive in the orderly way, by the slot's attention button; takes some 7 s."""
        self.drive(slot)
        with self._qmp() as monitor:
            monitor.execute("device_del", id=f"slot{slot}")
        self._forget(slot)
        self.run(hotplug.gone(slot), check=True)

    def remove(self, slot: int) -> None:
        """Take the drive out while the guest is not running: it is missing at the next start."""
        if self.is_running():
            raise GuestError("the guest is running; use pull() or eject()")
        gone = self.drive(slot)
        self._change_drives(lambda drives: [drive for drive in drives if drive["slot"] != slot])
        self._update_state(removed={**self._state().get("removed", {}), str(slot): asdict(gone)})

    def hang(self, slot: int) -> None:
        """Make the drive answer nothing any more: I/O neither completes nor fails."""
        self.drive(slot)
        self.run(hotplug.write_slot_control(slot, 1), check=True)

    def insert(self, slot: int, blank: bool = False, spec: DriveSpec | None = None) -> DriveSpec:
        """Put a drive into an empty slot; wait until the guest and its udev have it.

        Without more the drive that was there last. blank: a new one of the same size and sector size,
        with a new serial number. spec: this one; if its serial number is known, with its old content.
        """
        state = self._state()
        if not 0 <= slot < state["slots"]:
            raise GuestError(f"there is no slot {slot}: slots are 0 to {state['slots'] - 1}")
        if any(drive["slot"] == slot for drive in state["drives"]):
            raise GuestError(f"slot {slot} already has a drive: {self.drive(slot).serial}")
        last = state.get("removed", {}).get(str(slot))
        if spec is None:
            spec = DriveSpec(**last) if last else DriveSpec(slot)
            if blank:
                number = state.get("blanks", 0) + 1
                self._update_state(blanks=number)
                spec = DriveSpec(slot, spec.size_bytes, spec.sector, f"PERCH{number:04d}{slot:04d}")
            elif not last:
                raise GuestError(f"slot {slot} never had a drive; insert a blank one (--blank)")
        spec.slot = slot
        if any(drive["serial"] == spec.serial for drive in state["drives"]):
            raise GuestError(f"the drive {spec.serial} is in another slot")
        # Powering the slot off, which follows a pull, would make QEMU remove the new drive.
        self.run(hotplug.powered_off(slot), check=True)
        self._make_image(spec)
        group, block, device = drive_nodes(spec)
        with self._qmp() as monitor:
            if group:
                monitor.execute_raw("object-add", group)
            monitor.execute_raw("blockdev-add", block)
            monitor.execute_raw("device_add", device)
        self._change_drives(lambda drives: [*drives, asdict(spec)])
        self.run(hotplug.filled(slot), check=True)
        return spec

    def flip_byte(self, slot: int, offset_bytes: int, mask: int = 0xFF) -> None:
        """Change one byte on the medium. The guest must not be using it, or not be running."""
        with open(self.image(slot), "r+b", buffering=0) as handle:
            old = os.pread(handle.fileno(), 1, offset_bytes)
            os.pwrite(handle.fileno(), bytes([old[0] ^ mask]), offset_bytes)

    # The console

    def console(self) -> str:
        """All that the guest printed on its serial console, over all boots."""
        return (self.directory / "console.log").read_text(encoding="utf-8", errors="replace")

    def console_problems(self) -> list[str]:
        """Lines of the console in which the kernel complains about itself."""
        return [line.strip() for line in self.console().splitlines() if CONSOLE_PROBLEMS.search(line)]

    def _console_tail(self) -> str:
        path = self.directory / "console.log"
        if not path.exists():
            return ""
        return f"The end of {path}:\n" + "\n".join(self.console().splitlines()[-15:])

    # The state file

    def _state(self) -> dict:
        try:
            return json.loads((self.directory / "state.json").read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}

    def _write_state(self, state: dict) -> None:
        with tempfile.NamedTemporaryFile("w", dir=self.directory, delete=False, encoding="utf-8") as handle:
            json.dump(state, handle, indent=1)
        os.rename(handle.name, self.directory / "state.json")

    def _update_state(self, **changes) -> None:
        with cache.locked(self.directory / "state.lock"):
            self._write_state({**self._state(), **changes})

    def _change_drives(self, change) -> None:
        with cache.locked(self.directory / "state.lock"):
            state = self._state()
            state["drives"] = change(state["drives"])
            self._write_state(state)

    def _forget(self, slot: int) -> None:
        """After a removal was asked for: wait until QEMU dropped the device, then drop its image."""
        gone = self.drive(slot)
        deadline = time.monotonic() + 60 * self.slowness
        with self._qmp() as monitor:
            while f"slot{slot}" in monitor.devices():
                if time.monotonic() > deadline:
                    raise GuestError(f"slot {slot}: the guest did not let go of the drive.\n{self._console_tail()}")
                time.sleep(0.05)
            group, block, _ = drive_nodes(gone)
            # The device leaves QEMU's tree before it lets go of its image, when its last request ended.
            while True:
                try:
                    monitor.execute("blockdev-del", node_name=block["node-name"])
                    break
                except qmp.QmpError as error:
                    if "is in use" not in str(error) or time.monotonic() > deadline:
                        raise
                time.sleep(0.05)
            if group:
                monitor.execute("object-del", id=group["id"])
        with cache.locked(self.directory / "state.lock"):
            state = self._state()
            state["drives"] = [drive for drive in state["drives"] if drive["slot"] != slot]
            state.setdefault("removed", {})[str(slot)] = asdict(gone)
            self._write_state(state)

    # QEMU

    def _qmp(self) -> qmp.Qmp:
        return qmp.Qmp(self.directory / "qmp.sock")

    def _pidfd(self, close: bool = False) -> int | None:
        """A pidfd of this guest's QEMU, or None; never of another process that got its number."""
        pid = self._state().get("pid")
        if not pid:
            return None
        try:
            handle = os.pidfd_open(pid)
        except ProcessLookupError:
            return None
        try:
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
            ours = f"guest={self.directory}".encode() in command
        except OSError:
            ours = False
        if close or not ours:
            os.close(handle)
        return handle if ours else None

    def _image(self, serial: str) -> Path:
        return self.directory / machine.image_name(serial)

    def _make_image(self, drive: DriveSpec) -> None:
        """Make the drive's image, unless it exists (a drive that was in a slot before)."""
        path = self._image(drive.serial)
        if path.exists():
            return
        if drive.content == "ext4":
            images.used_drive(path, drive.size_bytes)
            return
        with open(path, "wb") as handle:
            if drive.content == "random":
                source = random.Random(drive.serial)
                part = min(64 << 20, drive.size_bytes)
                handle.write(source.randbytes(part))
                handle.seek(drive.size_bytes - part)
                handle.write(source.randbytes(part))
            handle.truncate(drive.size_bytes)

    def _boot(self) -> None:
        for name in ("qmp.sock", "console.sock", *(f"agent{number}.sock" for number in range(channel.PORTS))):
            (self.directory / name).unlink(missing_ok=True)
        self._channels.disconnect()
        (self.directory / "console.log").touch()
        with open(self.directory / "qemu.log", "w", encoding="utf-8") as log:
            # Ends with the process that started it, however that ends.
            command = ["setpriv", "--pdeathsig", "KILL", "--", *machine.command(self.directory, self._state())]
            self._process = subprocess.Popen(command, cwd=self.directory, stdin=subprocess.DEVNULL, stdout=log,
                                             stderr=log, start_new_session=True)
        self._update_state(pid=self._process.pid, slowness=1.0)
        try:
            self._wait_until_up()
            self._update_state(slowness=self._measure_slowness())
        except BaseException:
            self.kill()
            raise

    def _wait_until_up(self, different_from: str = "") -> None:
        """Wait for the agent of the next boot."""
        deadline = time.monotonic() + BOOT_SECONDS * self.slowness
        while True:
            if time.monotonic() > deadline:
                raise GuestError(f"the guest did not boot within {BOOT_SECONDS * self.slowness:.0f} s.\n"
                                 f"{self._console_tail()}")
            self._check()
            try:
                rc, now = self._channels.run("cat /proc/sys/kernel/random/boot_id", 10, 5)
                if rc == 0 and now != different_from:
                    break
            except channel.ChannelError:
                self._channels.disconnect()
            time.sleep(0.1)
        if self._state()["kind"] == "full":
            self.run("systemctl is-system-running --wait", BOOT_SECONDS)

    def _boot_id(self) -> str:
        return self.run("cat /proc/sys/kernel/random/boot_id", check=True).out

    def _measure_slowness(self) -> float:
        """Run a fixed loop in the guest."""
        started = time.monotonic()
        self._channels.run("i=0; while [ $i -lt 20000 ]; do i=$((i + 1)); done", 120, 60)
        return max(1.0, (time.monotonic() - started) / LOOP_SECONDS)

    def _check(self) -> None:
        """Raise if the guest cannot answer any more."""
        if self._process and self._process.poll() is not None or not self._process and not self.is_running():
            log = self.directory / "qemu.log"
            raise GuestError(f"QEMU ended. {log.read_text(encoding='utf-8').strip()}\n{self._console_tail()}")
        with open(self.directory / "console.log", "rb") as handle:
            handle.seek(max(0, os.fstat(handle.fileno()).st_size - 4096))
            if b"end Kernel panic" in handle.read():
                raise GuestError(f"the guest's kernel panicked.\n{self._console_tail()}")

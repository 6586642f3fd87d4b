# SPDX-License-Identifier: GPL-2.0-or-later
"""Connects this terminal with the guest's shell on its serial console."""

import os
import select
import shutil
import signal
import sys
import termios
import tty

import guest
import qmp

DETACH = b"\x1d"  # Ctrl-]
EXIT = b"\033]777;perch-lab-exit\007"
"""What the guest's shell prints, invisibly, when the user leaves it."""


def attach(machine: guest.Guest) -> None:
    """Pass keys and output until Ctrl-], or the shell's end, or QEMU's (the user typed poweroff)."""
    connection = qmp.connect(machine.directory / "console.sock")
    _tell_size(machine)
    # The window's size changes are read from a pipe: a handler must not talk to the guest.
    wake_read, wake_write = os.pipe()
    os.set_blocking(wake_write, False)
    previous_handler = signal.signal(signal.SIGWINCH, lambda *_: None)
    previous_wake = signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
    tail = b""
    settings = termios.tcgetattr(sys.stdin)
    try:
        tty.setraw(sys.stdin)
        connection.sendall(b"\r")
        while True:
            ready, _, _ = select.select([sys.stdin, connection, wake_read], [], [])
            if connection in ready:
                data = connection.recv(65536)
                if not data:
                    return
                os.write(sys.stdout.fileno(), data)
                tail = (tail + data)[-len(EXIT):]
                if EXIT in tail or EXIT in data:
                    return
            if sys.stdin in ready:
                keys = os.read(sys.stdin.fileno(), 4096)
                before, found, _ = keys.partition(DETACH)
                if before:
                    connection.sendall(before)
                if found or not keys:
                    return
            if wake_read in ready:
                os.read(wake_read, 4096)
                _tell_size(machine)
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, settings)
        signal.set_wakeup_fd(previous_wake)
        signal.signal(signal.SIGWINCH, previous_handler)
        os.close(wake_read)
        os.close(wake_write)
        connection.close()


def _tell_size(machine: guest.Guest) -> None:
    """Tell the guest's terminal how large this one is."""
    size = shutil.get_terminal_size()
    machine.run(f"stty -F /dev/ttyS0 cols {size.columns} rows {size.lines}")

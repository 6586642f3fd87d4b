# SPDX-License-Identifier: GPL-2.0-or-later
"""Shell command lines, for the guest, about its hot-plug slots."""

FIRST_PORT_ADDRESS = 4
"""PCI device number of slot 0's root port on bus 0; the others follow."""
SLOT_CONTROL = 0x6C
"""Where QEMU's root ports have the PCI Express Slot Control register in their configuration space."""


def port(slot: int) -> str:
    """The sysfs directory of a slot's root port."""
    return f"/sys/bus/pci/devices/0000:00:{FIRST_PORT_ADDRESS + slot:02x}.0"


def namespace(slot: int | None) -> str:
    """A shell pattern for the guest's NVMe namespace in `slot`; None for any slot."""
    above = "/sys/bus/pci/devices/0000:00:*" if slot is None else port(slot)
    return f"{above}/0000:*/nvme/nvme*/nvme*n*"


def slot_of(path: str) -> int:
    """The slot of a path that namespace() matched."""
    return int(path.split("/0000:00:")[1][:2], 16) - FIRST_PORT_ADDRESS


def until(condition: str, failure: str) -> str:
    """A shell command line that waits for `condition`, a minute of polls."""
    return (f"tries=0; until {condition}; do tries=$((tries + 1)); "
            f"[ $tries -lt 600 ] || {{ echo '{failure}'; exit 1; }}; sleep 0.1; done; ")


def gone(slot: int) -> str:
    """A command that waits until the guest has no drive in `slot`."""
    condition = f"! ls -d {namespace(slot)} >/dev/null 2>&1"
    return until(condition, f"slot {slot}: the drive is still there") + "udevadm settle"


def filled(slot: int) -> str:
    """A command that waits until the guest has a drive in `slot`."""
    return until(f"ls -d {namespace(slot)} >/dev/null 2>&1", f"slot {slot}: no drive appeared") + "udevadm settle"


def powered_off(slot: int) -> str:
    """A command that waits until the guest has powered `slot` off, a second or more after a pull."""
    return until(f"[ $(od -An -tx1 -j{SLOT_CONTROL + 1} -N1 {port(slot)}/config) = 07 ]", f"slot {slot}: still powered")


def write_slot_control(slot: int, access_bytes: int) -> str:
    """A command that writes the port's Slot Control register (0x6c) twice: power off, then on again."""
    return (f"for word in '\\321\\027' '\\361\\021'; do printf \"$word\" | dd of={port(slot)}/config "
            f"bs={access_bytes} seek={SLOT_CONTROL // access_bytes} conv=notrunc 2>/dev/null; done; ")

# SPDX-License-Identifier: GPL-2.0-or-later
"""The machine that QEMU emulates: its drives, disks and slots as command line and QMP objects."""

import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path

import channel
import hotplug

GIB = 1 << 30
DEFAULT_SLOTS = 12
MAX_SLOTS = 20
DEFAULT_ACCELERATOR = "tcg,thread=multi,tb-size=64"
"""QEMU does not drop code that it translated before a reset; with a larger cache (in MiB) a reboot takes minutes."""
NEEDLESS_UNITS = ("e2scrub_reap.service", "nvmf-autoconnect.service", "systemd-binfmt.service")
"""Units of the full guest that only cost time."""


@dataclass
class MediaError:
    """A range that fails from the start: `sector` is in 512-byte units; `iotype` read or write."""

    sector: int
    iotype: str = "read"
    errno: int = 5
    once: bool = False


@dataclass
class DriveSpec:
    """One drive. The serial number names its image file in the guest's directory.

    content: None (zeros), "ext4" (the whole drive an ext4 with a few files) or "random" (seeded bytes
    in the first and last 64 MiB). Limits are bytes or operations per second, 0 for none.
    """

    slot: int
    size_bytes: int = 3 * GIB
    sector: int = 512
    serial: str = ""
    content: str | None = None
    read_bps: int = 0
    write_bps: int = 0
    total_iops: int = 0
    errors: list[MediaError] = field(default_factory=list)

    def __post_init__(self):
        self.serial = self.serial or f"PERCH{self.slot:08d}"
        self.errors = [MediaError(**error) if isinstance(error, dict) else error for error in self.errors]


def default_drives() -> list[DriveSpec]:
    """The lab's set: eight drives of 3 GiB, s6 with 4 KiB sectors, s7 used before (ext4)."""
    drives = [DriveSpec(slot) for slot in range(8)]
    drives[6].sector = 4096
    drives[7].content = "ext4"
    return drives


def image_name(serial: str) -> str:
    """The file that holds the drive with this serial number, in the guest's directory."""
    return f"drive-{serial}.img"


def drive_nodes(drive: DriveSpec) -> tuple[dict | None, dict, dict]:
    """The throttle group (or None), the block node and the device of `drive`, for QMP or the command line."""
    node = {"driver": "file", "filename": image_name(drive.serial), "discard": "unmap", "aio": "threads",
            "cache": {"direct": False, "no-flush": True}}
    if drive.errors:
        node = {"driver": "blkdebug", "discard": "unmap", "image": node,
                "inject-error": [{"event": "none", **asdict(error)} for error in drive.errors]}
    node = {"driver": "raw", "file": node, "discard": "unmap", "detect-zeroes": "unmap"}
    group = None
    limits = {"bps-read": drive.read_bps, "bps-write": drive.write_bps, "iops-total": drive.total_iops}
    if any(limits.values()):
        name = f"limits-{drive.serial}"
        group = {"qom-type": "throttle-group", "id": name,
                 "limits": {key: value for key, value in limits.items() if value}}
        node = {"driver": "throttle", "throttle-group": name, "file": node, "discard": "unmap"}
    node["node-name"] = f"drive-{drive.serial}"
    device = {"driver": "nvme", "id": f"slot{drive.slot}", "bus": f"port{drive.slot}", "serial": drive.serial,
              "drive": node["node-name"], "logical_block_size": drive.sector, "physical_block_size": drive.sector}
    return group, node, device


def command(directory: Path, state: dict) -> list[str]:
    """QEMU's command line, to be run in `directory`, from the state that Guest keeps."""
    # A /dev/kvm that opens may still not work (nested, sandboxed), so it is asked for, not found.
    accelerator = os.environ.get("PERCH_ACCEL", DEFAULT_ACCELERATOR)
    words = [
        "qemu-system-x86_64", "-name", f"guest={directory}", "-nodefaults", "-no-user-config", "-display", "none",
        "-machine", "q35", "-accel", accelerator, "-cpu", "max,la57=off",
        "-smp", str(state["smp"]), "-m", str(state["memory_mib"]),
        # Native PCIe hot plug: slots have their numbers, and a pull is possible.
        "-global", "ICH9-LPC.acpi-pci-hotplug-with-bridge-support=off",
        "-qmp", "unix:qmp.sock,server=on,wait=off",
        "-chardev", "socket,id=console,path=console.sock,server=on,wait=off,logfile=console.log,logappend=on",
        "-serial", "chardev:console",
        "-kernel", state["kernel"], "-initrd", state["initrd"], "-append", _kernel_command_line(state),
        "-device", "virtio-serial-pci,addr=0x1e,max_ports=16",
    ]
    for number in range(channel.PORTS):
        words += ["-chardev", f"socket,id=agent{number},path=agent{number}.sock,server=on,wait=off",
                  "-device", f"virtserialport,chardev=agent{number},name=perch.agent.{number}"]
    disks = {serial: {"driver": "raw", "read-only": True, "file": {"driver": "file", "filename": path}}
             for serial, path in state["disks"].items() if serial != "perch-root"}
    own = {"driver": "file", "cache": {"direct": False, "no-flush": True}}
    if state["kind"] == "full":
        disks = {"perch-root": {"driver": "qcow2", "file": {**own, "filename": "root.qcow2"}}, **disks}
    else:
        disks["perch-state"] = {"driver": "raw", "file": {**own, "filename": "state.img"}}
    for number, (serial, node) in enumerate(disks.items()):
        words += ["-blockdev", json.dumps({**node, "node-name": serial}),
                  "-device", f"virtio-blk-pci,addr={0x18 + number:#x},drive={serial},serial={serial}"]
    for slot in range(state["slots"]):
        words += ["-device", f"pcie-root-port,id=port{slot},chassis={slot + 1},slot={slot},"
                               f"addr={hotplug.FIRST_PORT_ADDRESS + slot:#x}"]
    for drive in (DriveSpec(**fields) for fields in state["drives"]):
        group, node, device = drive_nodes(drive)
        if group:
            words += ["-object", json.dumps(group)]
        words += ["-blockdev", json.dumps(node), "-device", json.dumps(device)]
    return words


def _kernel_command_line(state: dict) -> str:
    words = ["console=ttyS0", "loglevel=5", "mitigations=off", "tsc=reliable", "no_timer_check"]
    if state["kind"] == "full":
        words += ["root=/dev/vda", "rw", *(f"systemd.mask={unit}" for unit in NEEDLESS_UNITS)]
    return " ".join([*words, state["append"]]).strip()

# SPDX-License-Identifier: GPL-2.0-or-later
"""Try Perch on emulated NVMe drives: see --help."""

import argparse
import os
import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import cache  # noqa: E402
import debs  # noqa: E402
import guest  # noqa: E402
import images  # noqa: E402
import programs  # noqa: E402
import qmp  # noqa: E402
import terminal  # noqa: E402

COMMAND = os.environ.get("PERCH_LAB", "lab")
"""How the user called us."""

HELP = """\
Try Perch on emulated NVMe drives, in a virtual machine of its own.

  lab                  build Perch, start the machine, and give you its shell. It has eight drives of
                       3 GiB in slots 0 to 7 (slot 6 has 4 KiB sectors, slot 7 was used before), and
                       some 350 MiB of real files in /files. Ctrl-] or `poweroff` ends it.
  lab demo             play the whole story in it, with checks

While the machine runs, from another terminal:

  lab pull SLOT        pull a drive out by surprise
  lab eject SLOT       remove a drive in the orderly way (takes some 7 s)
  lab insert SLOT      put the drive back that was in this slot; --blank: a new, empty one
  lab drives           which drives are in which slots
  lab run COMMAND...   run a command in the machine
  lab stop             power it off
"""

BANNER = """\
Perch's lab. `perchcli show` is a good start; /files has files to copy; `poweroff` or Ctrl-] ends it.
From another terminal: {lab} pull 3 | eject 3 | insert 3 [--blank] | drives
"""

KNOWN_ERRORS = (guest.GuestError, images.ImageError, debs.PackageError, programs.BuildError, qmp.QmpError)


def directory() -> Path:
    """Where the lab's machine keeps its files."""
    return cache.root() / "lab"


def running() -> guest.Guest:
    """The lab's machine that another process runs."""
    try:
        return guest.Guest.attach(directory())
    except guest.GuestError:
        raise guest.GuestError(f"The lab does not run. Start it with {COMMAND}") from None


def start(options: argparse.Namespace) -> int:
    """Boot the machine and hand it to the user; with another stdin than a terminal, run that as a script."""
    if guest.Guest(directory()).is_running():
        raise guest.GuestError(f"The lab already runs. End it with {COMMAND} stop")
    tree = programs.build_programs()
    print(f"Starting a {options.kind} guest", flush=True)
    machine = guest.Guest.start(directory(), options.kind, programs=tree, files=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    signal.signal(signal.SIGHUP, lambda *_: sys.exit(129))
    with machine:
        if sys.stdin.isatty():
            print(BANNER.format(lab=COMMAND), flush=True)
            terminal.attach(machine)
            print("\r\nThe lab has ended.")
            return 0
        script = sys.stdin.read()
        return machine.run("sh", 3600, stream, stdin=script).rc if script else 0


def stream(piece: str) -> None:
    """Print output of the guest as it comes."""
    sys.stdout.write(piece)
    sys.stdout.flush()


def pull(options: argparse.Namespace) -> int:
    """lab pull"""
    machine = running()
    drive = machine.drive(options.slot)
    machine.pull(options.slot)
    print(f"Pulled {drive.serial} out of slot {options.slot}.")
    return 0


def eject(options: argparse.Namespace) -> int:
    """lab eject"""
    machine = running()
    drive = machine.drive(options.slot)
    machine.eject(options.slot)
    print(f"Ejected {drive.serial} from slot {options.slot}.")
    return 0


def insert(options: argparse.Namespace) -> int:
    """lab insert"""
    drive = running().insert(options.slot, options.blank)
    print(f"Put {drive.serial} into slot {drive.slot}.")
    return 0


def drives(_: argparse.Namespace) -> int:
    """lab drives"""
    machine = running()
    devices = machine.devices()
    print("slot  serial         size     sector  device in the guest")
    for drive in machine.drives():
        size = f"{drive.size_bytes / guest.GIB:g} GiB"
        print(f"{drive.slot:4}  {drive.serial:13}  {size:8} {drive.sector:6}  {devices.get(drive.slot, 'none')}")
    return 0


def run(options: argparse.Namespace) -> int:
    """lab run"""
    return running().run(" ".join(options.command), 24 * 3600, stream).rc


def stop(_: argparse.Namespace) -> int:
    """lab stop"""
    machine = running()
    try:
        machine.stop()
    except guest.GuestError as error:
        print(f"It does not power off, so it is killed. {error}", file=sys.stderr)
        machine.kill()
    return 0


def parse(arguments: list[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="lab", description=HELP, usage=argparse.SUPPRESS,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--full", dest="kind", action="store_const", const="full", default="fast",
                        help="use a full Debian with systemd (boots in some 40 s) in place of the small guest")
    parser.set_defaults(action=start)
    commands = parser.add_subparsers(metavar="COMMAND", help=argparse.SUPPRESS)
    for action in (pull, eject, insert):
        command = commands.add_parser(action.__name__, prog=f"lab {action.__name__}")
        command.add_argument("slot", type=int)
        command.set_defaults(action=action)
        if action is insert:
            command.add_argument("--blank", action="store_true")
    for action in (drives, stop):
        commands.add_parser(action.__name__, prog=f"lab {action.__name__}").set_defaults(action=action)
    command = commands.add_parser("run", prog="lab run")
    command.add_argument("command", nargs=argparse.REMAINDER)
    command.set_defaults(action=run)
    return parser.parse_args(arguments)


def main(arguments: list[str]) -> int:
    """Run one lab command; its exit status."""
    try:
        if arguments[:1] == ["demo"]:
            import demo
            return demo.main(arguments[1:])
        options = parse(arguments)
        return options.action(options)
    except KNOWN_ERRORS as error:
        print(f"lab: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Builds what the guests boot from, out of Debian packages, and caches it (see cache.py).

* ``fast(tree)``: kernel, initramfs (busybox, udev, md and dm tools, kernel modules, our programs) and a
  read-only disk with the heavier programs (fio, curl, nvme-cli, strace).
* ``full(tree)``: kernel, initrd and disk image of a Debian system with systemd and our programs.
* ``files()``: a read-only disk with a tree of real files and their checksums.

`tree` is what `cmake --install` put under DESTDIR; the shared libraries of its programs are added from
this host. Run as a program this builds all that does not need our programs.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import cache
import cpio
import debs
import elf

HERE = Path(__file__).resolve().parent
LIBRARIES = "usr/lib/x86_64-linux-gnu"
KERNEL = "linux-image-cloud-amd64"

FAST_PACKAGES = [
    KERNEL, "base-passwd", "bash", "bsdutils", "busybox-static", "coreutils", "curl", "dash", "dmsetup", "e2fsprogs",
    "fdisk", "fio", "gdisk", "kmod", "kpartx", "libstdc++6", "mdadm", "mount", "nvme-cli", "strace", "udev",
    "util-linux",
]

MODULES = [
    "brd", "configfs", "dm_crypt", "dm_delay", "dm_flakey", "dm_log_writes", "dm_mod", "dm_raid", "dm_snapshot",
    "dm_zero", "loop", "null_blk", "raid0", "raid1", "raid10", "raid456", "virtio_blk", "virtio_console", "virtio_pci",
]

# Programs of the initramfs by Debian's path, beyond busybox's, which they replace. The shell is one of
# them because Debian's busybox sh runs its own applets in preference to what is in PATH.
PROGRAMS = """
    bin/bash bin/dash
    bin/udevadm lib/systemd/systemd-udevd lib/udev/ata_id lib/udev/scsi_id
    bin/kmod bin/lsmod sbin/depmod sbin/insmod sbin/modinfo sbin/modprobe sbin/rmmod
    bin/dmesg bin/findmnt bin/lsblk bin/mount bin/umount bin/mountpoint sbin/blkid sbin/blockdev sbin/losetup
    sbin/wipefs sbin/blkdiscard sbin/sfdisk sbin/fdisk sbin/fsfreeze
    bin/flock bin/script bin/setsid bin/partx bin/lscpu bin/taskset bin/setpriv
    sbin/mke2fs sbin/mkfs.ext4 sbin/e2fsck sbin/fsck.ext4 sbin/resize2fs sbin/dumpe2fs sbin/tune2fs sbin/debugfs
    sbin/dmsetup sbin/kpartx sbin/mdadm sbin/sgdisk
    bin/b2sum bin/cksum bin/cp bin/date bin/dd bin/df bin/du bin/head bin/ls bin/md5sum bin/od bin/sha256sum
    bin/shuf bin/sort bin/stat bin/stdbuf bin/stty bin/sync bin/tail bin/timeout bin/truncate
""".split()

# The same for the disk of heavier programs; the initramfs has links to them.
TOOLS = ["bin/fio", "bin/curl", "sbin/nvme", "bin/strace"]

# mdadm's rule for automatic assembly (64-md-raid-assembly) is left out on purpose: the guest's
# drives carry arrays that only Perch or a test may start.
RULES = [
    "01-md-raid-creating", "50-udev-default", "55-dm", "56-dm-parts", "60-block", "60-kpartx",
    "60-persistent-storage", "60-persistent-storage-dm", "63-md-raid-arrays", "68-del-part-nodes", "80-drivers",
    "95-dm-notify",
]

OTHER_FILES = [
    "etc/mke2fs.conf", "lib/udev/kpartx_id", f"{LIBRARIES}/ld-linux-x86-64.so.2", "usr/lib64/ld-linux-x86-64.so.2",
    "usr/libexec/coreutils/libstdbuf.so",
]

# Groups that udev's rules and Perch name, beyond those of base-passwd.
EXTRA_GROUPS = ("input", "kvm", "render", "sgx", "perch")

FULL_PACKAGES = [
    KERNEL, "bsdutils", "curl", "dbus", "dmsetup", "e2fsprogs", "fdisk", "fio", "gdisk", "initramfs-tools", "iproute2",
    "kmod", "kpartx", "less", "lvm2", "mdadm", "nvme-cli", "parted", "procps", "strace", "systemd", "systemd-sysv", "udev",
    # What our programs are linked with.
    "libblkid1", "libboost-program-options1.74.0", "libdevmapper1.02.1", "libfdisk1", "libfmt9", "libnvme1",
    "libsqlite3-0", "libssl3", "libstdc++6", "libsystemd0", "libudev1",
]

FILES_PACKAGES = ["linux-image-amd64"]
FILES_BYTES = 350 << 20


class ImageError(Exception):
    """An image cannot be built; the text says what to do."""


@dataclass(frozen=True)
class Boot:
    """What QEMU boots: files, and disks by the serial number that the guest finds them by."""

    kernel: Path
    initrd: Path
    disks: dict[str, Path]


def _tool(*command, **options) -> subprocess.CompletedProcess:
    """Run a host program, also one in /sbin; its output only shows when it fails."""
    environment = {**os.environ, "PATH": os.environ.get("PATH", "") + ":/usr/sbin:/sbin", "LC_ALL": "C.UTF-8"}
    try:
        result = subprocess.run([str(word) for word in command], env=environment, stdin=subprocess.DEVNULL, text=True,
                                capture_output=True, check=False, **options)
    except FileNotFoundError as error:
        raise ImageError(f"{command[0]} is not installed. Install the packages in {HERE}/packages.txt.") from error
    if result.returncode:
        raise ImageError(f"{' '.join(map(str, command))} failed:\n{result.stdout}{result.stderr}")
    return result


def _ext4(image: Path, tree: Path, size_bytes: int, *options: str) -> None:
    """Make an ext4 image of `size_bytes`, rounded up to a MiB, holding the files of `tree`."""
    size_bytes += -size_bytes % (1 << 20)
    with open(image, "wb") as handle:
        handle.truncate(size_bytes)
    _tool("mke2fs", "-q", "-F", "-t", "ext4", "-d", tree, *options, image)


def empty_ext4(image: Path, size_bytes: int) -> None:
    """Make an empty ext4 image."""
    with tempfile.TemporaryDirectory() as tree:
        _ext4(image, Path(tree), size_bytes, "-E", "root_owner=0:0")


def used_drive(image: Path, size_bytes: int) -> None:
    """Make an image as of a drive that somebody used: ext4 on the whole of it, with a few files."""
    with tempfile.TemporaryDirectory() as tree:
        (Path(tree) / "letters").mkdir()
        for name in ("budget.txt", "letters/to-the-bank.txt", "letters/to-the-editor.txt"):
            (Path(tree) / name).write_text(f"This is {name}, the only copy.\n" * 40, encoding="ascii")
        _ext4(image, Path(tree), size_bytes, "-L", "old-data", "-E", "root_owner=0:0")


def copy_on_write(base: Path, image: Path) -> None:
    """Make a qcow2 image that starts as the raw image `base` and takes what is written."""
    _tool("qemu-img", "create", "-q", "-f", "qcow2", "-b", base, "-F", "raw", image)


def _read_only_image(image: Path, tree: Path) -> None:
    """Make a journal-less ext4 image that is just large enough for `tree`."""
    size = inodes = 0
    for path in tree.rglob("*"):
        size += (path.lstat().st_size + 4095) // 4096 * 4096
        inodes += 1
    _ext4(image, tree, int(size * 1.03) + inodes * 512 + (8 << 20), "-O", "^has_journal,^resize_inode", "-m", "0",
          "-N", str(inodes + 64), "-E", "root_owner=0:0")


class _Closure:
    """The ELF files of an unpacked root, and the libraries they need, as paths below the root."""

    def __init__(self, tree: Path, already: set[str] = frozenset()):
        self._tree = tree
        self._already = already
        self.paths: dict[str, None] = {}

    def add(self, name: str) -> None:
        """Add the file or link `name` (relative to the root), what it points to and what it needs."""
        real_directory = (self._tree / name).parent.resolve().relative_to(self._tree.resolve())
        name = str(real_directory / Path(name).name)
        if name in self.paths or name in self._already:
            return
        path = self._tree / name
        if path.is_symlink():
            self.paths[name] = None
            target = os.readlink(path)
            self.add(target.lstrip("/") if target.startswith("/") else os.path.join(os.path.dirname(name), target))
            return
        if not path.exists():
            raise ImageError(f"the Debian packages have no /{name}")
        self.paths[name] = None
        if elf.is_elf(path):
            for library in elf.needed(path):
                self.add(self._find(library, os.path.dirname(name)))

    def _find(self, library: str, beside: str) -> str:
        for directory in (LIBRARIES, f"{LIBRARIES}/ceph", f"{LIBRARIES}/systemd", "usr/lib64", beside):
            if os.path.lexists(self._tree / directory / library):
                return f"{directory}/{library}"
        raise ImageError(f"the Debian packages have no library {library}")


def given_kernel() -> Path | None:
    """$PERCH_KERNEL: a directory with a kernel for the fast guest instead of Debian's, such as one that looks for mistakes:
    bzImage, modules/, and build/ to build our module against."""
    return Path(os.environ["PERCH_KERNEL"]) if os.environ.get("PERCH_KERNEL") else None


def _take_given_kernel(given: Path, tree: Path) -> None:
    """Put it in the place of Debian's in an unpacked root."""
    version = (given / "build/include/config/kernel.release").read_text(encoding="ascii").strip()
    for path in (tree / "boot").glob("vmlinuz-*"):
        path.unlink()
    shutil.copyfile(given / "bzImage", tree / f"boot/vmlinuz-{version}")
    shutil.copytree(given / "modules", tree / f"usr/lib/modules/{version}")
    # depmod warns of the lack, and a warning in the console is a failure.
    (tree / f"usr/lib/modules/{version}/modules.builtin.modinfo").touch()


def _kernel_version(tree: Path) -> str:
    return next((tree / "boot").glob("vmlinuz-*")).name.removeprefix("vmlinuz-")


def _module_files(tree: Path, version: str) -> list[str]:
    """The module files (relative to the root) of MODULES and of what they depend on."""
    base = f"usr/lib/modules/{version}"
    _tool("depmod", "-b", tree, version)
    depends = {}
    for line in (tree / base / "modules.dep").read_text(encoding="ascii").splitlines():
        path, _, others = line.partition(":")
        depends[path] = others.split()
    by_name = {Path(path).name.split(".ko")[0].replace("-", "_"): path for path in depends}
    builtin = (tree / base / "modules.builtin").read_text(encoding="ascii")
    built_in = {Path(line).name.split(".ko")[0].replace("-", "_") for line in builtin.splitlines()}
    # Chosen by the kernel at run time, so not among the dependencies; our own module's.
    wanted = [*MODULES, *(name for name in ("crc32c_intel", "libcrc32c", "xor", "raid6_pq") if name in by_name)]
    files = {}
    for module in wanted:
        if module in built_in or (module not in by_name and given_kernel()):
            continue
        if module not in by_name:
            raise ImageError(f"kernel {version} has no module {module}")
        for path in [by_name[module], *depends[by_name[module]]]:
            files[f"{base}/{path}"] = None
    return list(files)


def fast(tree: Path | None) -> Boot:
    """The fast guest with the install tree `tree` in it (None: without our programs)."""
    directory = _fast_base()
    initrd = directory / "initrd.img"
    return Boot(directory / "vmlinuz", _with_overlay(initrd, tree) if tree else initrd,
                {"perch-tools": directory / "tools.img"})


def fast_kernel() -> str:
    """The version of the fast guest's kernel."""
    return (_fast_base() / "version").read_text(encoding="ascii")


def _fast_base() -> Path:
    """Kernel, initramfs and disk of the fast guest, without our programs."""
    archives = debs.resolve(FAST_PACKAGES)
    sources = sorted(path for path in (HERE / "fast").iterdir() if path.is_file())
    key = cache.key_of(*(deb.filename for deb in archives), Path(__file__).resolve(), HERE / "cpio.py", HERE / "agent",
                       *sources, *([given_kernel() / "bzImage"] if given_kernel() else []))
    return cache.entry("fast", key, _build_fast)


def _build_fast(output: Path) -> None:
    print("Building the fast guest", flush=True)
    tree = output / "tree"
    debs.unpack(debs.download(FAST_PACKAGES), tree)
    if given_kernel():
        _take_given_kernel(given_kernel(), tree)
    version = _kernel_version(tree)
    (output / "version").write_text(version, encoding="ascii")
    shutil.copyfile(tree / f"boot/vmlinuz-{version}", output / "vmlinuz")

    light = _Closure(tree)
    rules = [f"lib/udev/rules.d/{rule}.rules" for rule in RULES]
    for name in [*PROGRAMS, *OTHER_FILES, *rules, f"{LIBRARIES}/libstdc++.so.6"]:
        light.add(name)
    tools = _Closure(tree, set(light.paths))
    for name in TOOLS:
        tools.add(name)

    modules = _module_files(tree, version)
    with cpio.Archive(output / "initrd.img") as archive:
        for name in ("dev", "proc", "sys", "run", "tmp", "root", "etc", "var/log", "var/lib", "mnt", "tools", "files"):
            archive.directory(name)
        for name in ("bin", "sbin", "lib", "lib64"):
            archive.directory(f"usr/{name}")
            archive.symlink(name, f"usr/{name}")
        archive.symlink("var/run", "/run")
        archive.symlink("usr/bin/sh", "dash")
        archive.symlink("etc/mtab", "/proc/self/mounts")
        for name in light.paths:
            archive.copy(name, tree / name)
        for name in tools.paths:
            archive.symlink(name, f"/tools/{name}")
        _add_own_files(archive, tree)
        _add_modules(archive, tree, version, modules)
        busybox = "usr/bin/busybox"
        archive.copy(busybox, tree / busybox)
        for applet in _tool(tree / busybox, "--list-full").stdout.split():
            name = applet if applet.startswith("usr/") else f"usr/{applet}"
            if not os.path.dirname(name) == "usr":
                archive.symlink(name, "/usr/bin/busybox")

    disk = output / "disk"
    for name in tools.paths:
        target = disk / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(tree / name, target, follow_symlinks=False)
    _read_only_image(output / "tools.img", disk)
    shutil.rmtree(disk)
    shutil.rmtree(tree)


def _add_own_files(archive: cpio.Archive, tree: Path) -> None:
    """Our scripts and the few files of /etc."""
    for name, target in (("init", "init"), ("inittab", "etc/inittab"), ("start", "etc/init.d/start"),
                         ("stop", "etc/init.d/stop"), ("profile", "etc/profile")):
        archive.file(target, (HERE / "fast" / name).read_bytes(), 0o755)
    archive.file("usr/lib/perch-lab/agent", (HERE / "agent").read_bytes(), 0o755)
    masters = tree / "usr/share/base-passwd"
    groups = (masters / "group.master").read_text(encoding="ascii")
    extra = "".join(f"{name}:x:{number}:\n" for number, name in enumerate(EXTRA_GROUPS, 990))
    archive.file("etc/group", (groups.replace(":*:", ":x:") + extra).encode())
    archive.file("etc/passwd", (masters / "passwd.master").read_bytes())
    archive.file("etc/shadow", b"root::19000:0:99999:7:::\n", 0o640)
    archive.file("etc/hostname", b"perch-lab\n")
    archive.file("etc/hosts", b"127.0.0.1 localhost perch-lab\n")
    archive.file("etc/nsswitch.conf", b"passwd: files\ngroup: files\nhosts: files\n")


def _add_modules(archive: cpio.Archive, tree: Path, version: str, modules: list[str]) -> None:
    """The chosen modules, with dependency lists that name only them."""
    base = f"usr/lib/modules/{version}"
    with tempfile.TemporaryDirectory() as work:
        lists = ("modules.builtin", "modules.builtin.modinfo", "modules.order")
        for name in [*modules, *(f"{base}/{name}" for name in lists if (tree / base / name).exists())]:
            target = Path(work) / name.removeprefix("usr/")
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(tree / name, target)
        _tool("depmod", "-b", work, version)
        for path in sorted(Path(work).rglob("*")):
            archive.copy(f"usr/{path.relative_to(work)}", path)


def _tree_parts(tree: Path) -> list:
    """What identifies an install tree: names, modes and contents."""
    parts: list = []
    for path in sorted(tree.rglob("*")):
        parts += [str(path.relative_to(tree)), path.lstat().st_mode]
        if path.is_symlink():
            parts.append(os.readlink(path))
        elif path.is_file():
            parts.append(path.read_bytes())
    return parts


def _libraries_of(tree: Path) -> dict[str, Path]:
    """The host's shared libraries that the ELF files in `tree` need, by name."""
    found = {}
    for path in tree.rglob("*"):
        if path.is_symlink() or not elf.is_elf(path) or not elf.needed(path):
            continue
        for line in _tool("ldd", path).stdout.splitlines():
            name, arrow, rest = line.strip().partition(" => ")
            if not arrow:
                continue
            if rest.startswith("not found"):
                raise ImageError(f"{path} needs {name}, which is not installed here.")
            found[name] = Path(rest.split(" (")[0])
    return found


def _merged(name: Path) -> str:
    """A path of an install tree as the guest has it: /bin, /sbin and /lib are links into /usr."""
    return f"usr/{name}" if name.parts[0] in ("bin", "sbin", "lib", "lib64") else str(name)


def _with_overlay(initrd: Path, tree: Path) -> Path:
    """`initrd` followed by an archive of the install tree `tree` and of libraries that `initrd` lacks."""
    libraries = _libraries_of(tree)
    parts = [part for name, path in sorted(libraries.items()) for part in (name, path.resolve())]
    key = cache.key_of(initrd.parent.name, *parts, *_tree_parts(tree))

    def build(output: Path) -> None:
        present = _names_in(initrd)
        overlay = output / "overlay.img"
        with cpio.Archive(overlay) as archive:
            for path in sorted(tree.rglob("*")):
                archive.copy(_merged(path.relative_to(tree)), path)
            for name, path in libraries.items():
                if f"{LIBRARIES}/{name}" not in present:
                    archive.file(f"{LIBRARIES}/{name}", path.read_bytes(), 0o755)
        with open(output / "initrd.img", "wb") as both:
            both.write(initrd.read_bytes() + overlay.read_bytes())
        overlay.unlink()

    return cache.entry("fast-programs", key, build) / "initrd.img"


def _names_in(archive: Path) -> set[str]:
    """The names of a cpio archive's members, without links to /tools (a program at boot needs the library itself)."""
    names = set()
    with open(archive, "rb") as handle:
        while True:
            header = handle.read(110)
            size, length = int(header[54:62], 16), int(header[94:102], 16)
            name = handle.read(length + -(110 + length) % 4).rstrip(b"\0").decode()
            data = handle.read(size + -size % 4)
            if name == "TRAILER!!!":
                return names
            if not data.startswith(b"/tools/"):
                names.add(name)


def files() -> Path:
    """A read-only disk image with about FILES_BYTES of real files and SHA256SUMS, made on this host."""
    archives = debs.resolve(FILES_PACKAGES)
    kernels = [deb.filename for deb in archives if deb.filename.startswith("linux-image-")]
    key = cache.key_of(*kernels, FILES_BYTES, _build_files.__doc__)
    return cache.entry("files", key, _build_files) / "files.img"


def _build_files(output: Path) -> None:
    """Unpack a kernel package and keep its files, in the order of their names, up to FILES_BYTES."""
    print("Building the disk of real files", flush=True)
    tree, disk = output / "tree", output / "disk"
    debs.unpack([path for path in debs.download(FILES_PACKAGES) if path.name.startswith("linux-image-")], tree)
    total, sums = 0, []
    for path in sorted((tree / "usr").rglob("*")):
        if path.is_symlink() or not path.is_file() or total >= FILES_BYTES:
            continue
        name = path.relative_to(tree / "usr")
        total += path.stat().st_size
        sums.append(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  ./{name}\n")
        (disk / name).parent.mkdir(parents=True, exist_ok=True)
        path.rename(disk / name)
    (disk / "SHA256SUMS").write_text("".join(sums), encoding="utf-8")
    _read_only_image(output / "files.img", disk)
    shutil.rmtree(tree)
    shutil.rmtree(disk)


def full(tree: Path | None) -> Boot:
    """The full Debian guest with the install tree `tree` in it (None: without our programs)."""
    archives = debs.resolve(FULL_PACKAGES)
    base_key = cache.key_of(*(deb.filename for deb in archives), *FULL_PACKAGES)
    base = cache.entry("full-base", base_key, _build_full_base)
    own = [HERE / "agent", HERE / "images.py", *(path for path in sorted((HERE / "full").rglob("*")) if path.is_file())]
    libraries = _libraries_of(tree) if tree else {}
    key = cache.key_of(base_key, *own, *(_tree_parts(tree) if tree else ()),
                       *(path.resolve() for _, path in sorted(libraries.items())))

    def build(output: Path) -> None:
        print("Building the disk of the full guest", flush=True)
        if os.geteuid() == 0:
            _compose_full(base / "root.tar", tree, output)
        else:
            this = Path(__file__).resolve()
            _tool("fakeroot", sys.executable, this, "compose", base / "root.tar", output, tree or "")

    directory = cache.entry("full", key, build)
    return Boot(directory / "vmlinuz", directory / "initrd.img", {"perch-root": directory / "root.img"})


def _build_full_base(output: Path) -> None:
    print("Building the full Debian guest with mmdebstrap (about 4 minutes)", flush=True)
    _tool("mmdebstrap", "--variant=minbase", f"--include={','.join(FULL_PACKAGES)}", "bookworm", output / "root.tar")


def _compose_full(archive: Path, tree: Path | None, output: Path) -> None:
    """Unpack the base, add our files, make the image. Runs as root, or under fakeroot."""
    root = output / "root"
    root.mkdir()
    _tool("tar", "-x", "--numeric-owner", "-f", archive, "-C", root)
    shutil.copytree(HERE / "full", root, dirs_exist_ok=True)
    agent = root / "usr/lib/perch-lab/agent"
    agent.parent.mkdir()
    shutil.copyfile(HERE / "agent", agent)
    agent.chmod(0o755)
    shadow = root / "etc/shadow"
    shadow.write_text(shadow.read_text(encoding="ascii").replace("root:*:", "root::"), encoding="ascii")
    for name in ("var/cache/apt", "var/lib/apt/lists", "usr/share/doc", "usr/share/locale", "usr/share/man"):
        shutil.rmtree(root / name, ignore_errors=True)
    if tree:
        for path in sorted(tree.rglob("*")):
            target = root / _merged(path.relative_to(tree))
            if path.is_dir() and not path.is_symlink():
                target.mkdir(parents=True, exist_ok=True)
            else:
                shutil.copy2(path, target, follow_symlinks=False)
                os.chown(target, 0, 0, follow_symlinks=False)
        for name, path in _libraries_of(tree).items():
            if not (root / LIBRARIES / name).exists():
                shutil.copyfile(path, root / LIBRARIES / name)
    _enable_units(root)
    version = _kernel_version(root)
    _tool("depmod", "-b", root, version)
    shutil.copyfile(root / f"boot/vmlinuz-{version}", output / "vmlinuz")
    shutil.copyfile(root / f"boot/initrd.img-{version}", output / "initrd.img")
    _ext4(output / "root.img", root, 3 << 30, "-E", "root_owner=0:0")
    shutil.rmtree(root)


def _enable_units(root: Path) -> None:
    """Enable our own units as their [Install] sections say."""
    for directory in ("usr/lib/systemd/system", "etc/systemd/system"):
        for unit in (root / directory).glob("perch*"):
            for line in unit.read_text(encoding="utf-8").splitlines() if unit.is_file() else ():
                name, _, targets = line.partition("=")
                if name == "WantedBy":
                    for target in targets.split():
                        wants = root / f"etc/systemd/system/{target}.wants"
                        wants.mkdir(parents=True, exist_ok=True)
                        (wants / unit.name).symlink_to(f"/{directory}/{unit.name}")


def main(arguments: list[str]) -> int:
    """`images.py` builds everything; `compose` is for full() under fakeroot."""
    if arguments[:1] == ["compose"]:
        _compose_full(Path(arguments[1]), Path(arguments[3]) if arguments[3] else None, Path(arguments[2]))
        return 0
    debs.install(HERE / "packages.txt")
    fast(None)
    files()
    full(None)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

# SPDX-License-Identifier: GPL-2.0-or-later
"""Debian packages for the guests: resolved by apt as if nothing were installed, so that the guests
do not depend on what the host happens to have, then downloaded and unpacked. Needs no root, except
for ``install`` (host packages) and for the first ``apt-get update`` of a machine that never did one.
"""

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import cache

APT_LISTS = Path("/var/lib/apt/lists")
APT_SOURCES = Path("/etc/apt")


class PackageError(Exception):
    """apt could not do what was asked; the text says what to do."""


@dataclass(frozen=True)
class Deb:
    """One package file as apt names it."""

    filename: str
    size_bytes: int


def resolve(packages: list[str]) -> list[Deb]:
    """`packages` and all they depend on (not what they recommend), sorted by file name.

    The answer is kept until apt's lists or sources change: apt needs two seconds for it.
    """
    sources = [path for path in (APT_LISTS, *sorted(APT_SOURCES.rglob("*"))) if path.exists()]
    key = cache.key_of(*packages, *(f"{path} {path.stat().st_mtime_ns}" for path in sources))
    answer = cache.entry("resolved", key, lambda directory: _resolve(packages, directory / "uris"))
    found = []
    for line in (answer / "uris").read_text(encoding="utf-8").splitlines():
        match = re.match(r"'([^']+)' (\S+) (\d+)", line)
        if match:
            found.append(Deb(match[2], int(match[3])))
    return sorted(found, key=lambda deb: deb.filename)


def _resolve(packages: list[str], output: Path) -> None:
    result = _print_uris(packages)
    if result.returncode:
        update_lists()
        result = _print_uris(packages)
    if result.returncode:
        raise PackageError(f"apt-get cannot resolve {' '.join(packages)}:\n{result.stderr.strip()}\n"
                           "Check /etc/apt/sources.list: the guests are made from Debian 12 (bookworm) packages.")
    output.write_text(result.stdout, encoding="utf-8")


def download(packages: list[str]) -> list[Path]:
    """Download `packages` and what they depend on into the cache; their files."""
    debs = resolve(packages)
    archives = cache.root() / "debs"
    (archives / "partial").mkdir(parents=True, exist_ok=True)
    with cache.locked(cache.root() / ".lock-debs"):
        missing = [deb for deb in debs if not _is_complete(archives, deb)]
        if missing:
            megabytes = sum(deb.size_bytes for deb in missing) / 1e6
            print(f"Downloading {len(missing)} Debian packages ({megabytes:.0f} MB)", flush=True)
            result = _apt_install(packages, archives, "--download-only")
            if result.returncode:
                update_lists()
                result = _apt_install(packages, archives, "--download-only")
            if result.returncode:
                raise PackageError(f"downloading Debian packages failed:\n{result.stderr.strip()}\n"
                                   "Check the network and run `apt-get update` as root.")
            # An update in between may have brought newer versions.
            debs = resolve(packages)
    return [archives / deb.filename for deb in debs]


def unpack(archives: list[Path], directory: Path) -> None:
    """Unpack package files into `directory`, with /bin, /sbin and /lib* merged into /usr."""
    for name in ("bin", "sbin", "lib", "lib64"):
        (directory / "usr" / name).mkdir(parents=True, exist_ok=True)
        (directory / name).symlink_to(f"usr/{name}")
    for archive in archives:
        with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", str(archive)], stdout=subprocess.PIPE) as producer:
            subprocess.run(["tar", "-x", "--keep-directory-symlink", "--no-same-owner", "-C", str(directory)],
                           stdin=producer.stdout, check=True)
        if producer.returncode:
            raise PackageError(f"{archive} is damaged. Remove it and try again.")


def install(list_file: Path) -> None:
    """Install on this host what `list_file` names (one package a line, # comments) and is missing."""
    lines = (line.split("#")[0].strip() for line in list_file.read_text(encoding="utf-8").splitlines())
    install_packages([line for line in lines if line])


def install_packages(wanted: list[str]) -> None:
    """Install on this host those of these packages that are missing."""
    missing = [name for name in wanted if not _is_installed(name)]
    if not missing:
        return
    print(f"Installing {' '.join(missing)}", flush=True)
    command = ["apt-get", "install", "-o", "DPkg::Lock::Timeout=600", "-y", "-qq", "--no-install-recommends", *missing]
    hint = f"Run this as root and try again:\n  apt-get update && apt-get install {' '.join(missing)}"
    result = _as_root(command, hint)
    if result.returncode:
        update_lists()
        result = _as_root(command, hint)
    if result.returncode:
        raise PackageError(f"apt-get failed:\n{result.stderr.strip()}\n{hint}")


def update_lists() -> None:
    """Run apt-get update on this host."""
    print("Updating the package lists (apt-get update)", flush=True)
    result = _as_root(["apt-get", "update", "-qq"], "Run `apt-get update` as root and try again.")
    if result.returncode:
        print(result.stderr.strip(), file=sys.stderr)


def _as_root(command: list[str], hint: str) -> subprocess.CompletedProcess:
    environment = ["env", "DEBIAN_FRONTEND=noninteractive", "LC_ALL=C.UTF-8"]
    prefix = [] if os.geteuid() == 0 else ["sudo", "-n"]
    try:
        return subprocess.run([*prefix, *environment, *command], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE, text=True, check=False)
    except FileNotFoundError as error:
        raise PackageError(f"This needs root, and there is no sudo. {hint}") from error


def _is_installed(name: str) -> bool:
    result = subprocess.run(["dpkg-query", "-W", "-f", "${db:Status-Status}", name], capture_output=True, text=True,
                            check=False)
    return result.stdout == "installed"


def _is_complete(archives: Path, deb: Deb) -> bool:
    path = archives / deb.filename
    return path.is_file() and path.stat().st_size == deb.size_bytes


def _print_uris(packages: list[str]) -> subprocess.CompletedProcess:
    empty = cache.root() / "no-debs"
    (empty / "partial").mkdir(parents=True, exist_ok=True)
    return _apt_install(packages, empty, "--print-uris")


def _apt_install(packages: list[str], archives: Path, option: str) -> subprocess.CompletedProcess:
    """apt-get install on a system with nothing installed; only prints or downloads, per `option`."""
    status = cache.root() / "no-dpkg-status"
    status.touch()
    return subprocess.run(["apt-get", "install", "-y", "-qq", "--no-install-recommends", option,
                           "-o", f"Dir::State::status={status}", "-o", f"Dir::Cache::archives={archives}",
                           "-o", "Dir::Cache::pkgcache=", "-o", "Dir::Cache::srcpkgcache=",
                           "-o", "APT::Keep-Downloaded-Packages=true", "-o", "APT::Sandbox::User=",
                           "-o", "Debug::NoLocking=true", "-o", "Dir::Log=/dev/null", *packages],
                          capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)

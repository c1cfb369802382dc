"""A guest that is a real Debian: systemd, systemd-networkd and -resolved, cloud-init, OpenSSH, the guest agent.

Called by the machine test of it, and by the conformance run, whose Fedora it can be: the user is fedora, with that
password. It is made with mmdebstrap as root, and kept in the tests' cache. Emulated it takes minutes to boot.
"""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import struct
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from tests.support.guest import cache_directory
from tests.support.systemd_host import debian_tree
from tests.support.unpacked_packages import unpack_packages

_HERE: Final = Path(__file__).parent
SUITE: Final = "bookworm"
PACKAGES: Final = (
    "systemd,systemd-sysv,systemd-resolved,udev,dbus,kmod,cloud-init,qemu-guest-agent,openssh-server,sudo,iproute2,"
    "iputils-ping,procps,isc-dhcp-client,dmidecode,linux-image-amd64,ncat,curl,busybox,nftables,tcpdump,e2fsprogs"
)
# What no VM has is not put onto the disk.
_NO_DRIVERS: Final = (
    "drivers/gpu",
    "drivers/media",
    "drivers/infiniband",
    "drivers/staging",
    "drivers/iio",
    "drivers/isdn",
    "drivers/bluetooth",
    "drivers/net/wireless",
    "drivers/net/ethernet/mellanox",
    "sound",
    "net/bluetooth",
    "net/wireless",
    "net/mac80211",
)
_NO_FILES: Final = (
    "/usr/share/doc/*",
    "/usr/share/man/*",
    "/usr/share/locale/*",
    *(f"/lib/modules/*/kernel/{folder}/*" for folder in _NO_DRIVERS),
)
_SERVICES: Final = ("systemd-networkd", "systemd-resolved", "ssh", "qemu-guest-agent")
# They do nothing for a guest that lives for a test, and each costs an emulated one a second.
_NO_UNITS: Final = (
    "modprobe@.service",
    "systemd-network-generator.service",
    "systemd-binfmt.service",
    "proc-sys-fs-binfmt_misc.automount",
    "systemd-pstore.service",
    "sys-fs-fuse-connections.mount",
    "apt-daily.timer",
    "apt-daily-upgrade.timer",
    "e2scrub_all.timer",
    "e2scrub_reap.service",
    "fstrim.timer",
    "dpkg-db-backup.timer",
    "getty@tty1.service",
)
_DRIVERS: Final = ("virtio_pci", "virtio_blk", "virtio_scsi", "sd_mod", "ahci", "ext4")
_ARGUMENTS: Final = (
    "console=tty0 console=ttyS0,115200 net.ifnames=0 quiet loglevel=4 audit=0 apparmor=0 selinux=0 mitigations=off "
    "cryptomgr.notests nokaslr no5lvl "
    # An emulated guest of a busy machine has its devices after minutes; systemd would go on without a login.
    "systemd.default_device_timeout_sec=1200 systemd.default_timeout_start_sec=1200"
)
_SYSLINUX: Final = (
    f"DEFAULT guest\nPROMPT 0\nTIMEOUT 0\nLABEL guest\n LINUX /vmlinuz\n INITRD /initrd\n APPEND {_ARGUMENTS}\n"
)
_SECTOR: Final = 512
_MEBI: Final = 2048  # Sectors.
_BOOT_START, _BOOT_SIZE = 1 * _MEBI, 32 * _MEBI
_ROOT_START, _ROOT_SIZE = 33 * _MEBI, 1536 * _MEBI


def build_debian_guest() -> Path:
    """The guest's disk, made when it is missing or old.

    Raises:
        subprocess.CalledProcessError: when a package cannot be had, or a tool fails.
    """
    target = cache_directory() / "guest-debian"
    target.mkdir(parents=True, exist_ok=True)
    loader = unpack_packages("boot-loader", "syslinux", "syslinux-common", "mtools")
    with (target / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        stamp, wanted = target / "made-from", _fingerprint()
        if not stamp.exists() or stamp.read_text() != wanted:
            stamp.unlink(missing_ok=True)
            with tempfile.TemporaryDirectory(dir=target) as scratch:
                _make_disk(_make_tree(), loader, Path(scratch)).rename(target / "disk.qcow2")
            stamp.write_text(wanted)
    return target / "disk.qcow2"


def _fingerprint() -> str:
    """Changes with whatever this folder puts into the guest."""
    digest = hashlib.sha256()
    for path in sorted(path for path in _HERE.rglob("*") if path.is_file() and path.suffix != ".pyc"):
        digest.update(path.relative_to(_HERE).as_posix().encode() + path.read_bytes())
    return digest.hexdigest()


def _make_tree() -> Path:
    """The file system: the distribution's packages, and on top of them this folder's files."""
    tree = debian_tree(SUITE, "guest", PACKAGES, *(f"--dpkgopt=path-exclude={path}" for path in _NO_FILES))
    shutil.copytree(_HERE / "root", tree, dirs_exist_ok=True)
    (tree / "etc/machine-id").write_text("")
    names = tree / "etc/resolv.conf"
    names.unlink(missing_ok=True)
    names.symlink_to("../run/systemd/resolve/stub-resolv.conf")
    _inside(tree, "systemctl", "--quiet", "enable", *_SERVICES)
    _inside(tree, "systemctl", "--quiet", "mask", *_NO_UNITS)
    _inside(
        tree,
        "sh",
        "-c",
        "id -u fedora >/dev/null 2>&1 || useradd -m -s /bin/bash fedora; echo fedora:fedora | chpasswd",
    )
    return tree


def _make_disk(tree: Path, loader: Path, scratch: Path) -> Path:
    """A disk of two partitions: FAT with boot loader, kernel and initrd; the root."""
    raw, disk = scratch / "disk.raw", scratch / "disk.qcow2"
    with raw.open("wb") as image:
        image.truncate((_ROOT_START + _ROOT_SIZE) * _SECTOR)
        image.write((loader / "usr/lib/syslinux/mbr/mbr.bin").read_bytes()[:440])
        image.seek(446)
        image.write(_partition(0x80, 0x0C, _BOOT_START, _BOOT_SIZE) + _partition(0, 0x83, _ROOT_START, _ROOT_SIZE))
        image.seek(510)
        image.write(b"\x55\xaa")
    files = {"vmlinuz": next((tree / "boot").glob("vmlinuz-*")), "initrd": _make_initrd(tree, scratch)}
    files["syslinux.cfg"] = scratch / "syslinux.cfg"
    files["syslinux.cfg"].write_text(_SYSLINUX)
    tools, at = loader / "usr/bin", f"{raw}@@{_BOOT_START * _SECTOR}"
    geometry = ("-T", str(_BOOT_SIZE), "-h", "255", "-s", "63", "-H", str(_BOOT_START), "-c", "8")
    _run(str(tools / "mformat"), "-i", at, *geometry, "::")
    for name, path in files.items():
        _run(str(tools / "mcopy"), "-i", at, str(path), f"::{name}")
    # It calls mtools by name.
    offset = str(_BOOT_START * _SECTOR)
    _run("sh", "-c", 'PATH="$1:$PATH" exec syslinux --install --offset "$2" "$3"', "sh", str(tools), offset, str(raw))
    root = ("-q", "-L", "root", "-d", str(tree), "-E", f"offset={_ROOT_START * _SECTOR}")
    _run("mkfs.ext4", *root, str(raw), f"{_ROOT_SIZE // 2}k")
    _run("qemu-img", "convert", "-O", "qcow2", str(raw), str(disk))
    return disk


def _partition(flags: int, kind: int, start: int, size: int) -> bytes:
    """A row of a partition table, by sectors alone."""
    nowhere = b"\xfe\xff\xff"
    return struct.pack("<B3sB3sII", flags, nowhere, kind, nowhere, start, size)


def _make_initrd(tree: Path, scratch: Path) -> Path:
    """busybox, `init`, and the drivers of disks with what they need, in loading order."""
    root, (version,) = scratch / "initrd.root", [path.name for path in (tree / "lib/modules").iterdir()]
    for folder in ("bin", "dev", "proc", "sys", "root", "modules"):
        (root / folder).mkdir(parents=True)
    shutil.copy(unpack_packages("busybox-static", "busybox-static") / "bin/busybox", root / "bin/busybox")
    shutil.copy(_HERE / "init", root / "init")
    order: dict[str, None] = {}
    for driver in _DRIVERS:
        for line in _inside(tree, "modprobe", "--set-version", version, "--show-depends", driver).splitlines():
            kind, _, path = line.strip().partition(" ")
            if kind == "insmod":
                order[path.split()[0]] = None
    for path in order:
        shutil.copy(tree / path.lstrip("/"), root / "modules")
    (root / "order").write_text("".join(f"/modules/{Path(path).name}\n" for path in order))
    made = scratch / "initrd"
    _run("sh", "-c", 'cd "$1" && find . | cpio --quiet -o -H newc >"$2"', "sh", str(root), str(made))
    return made


def _inside(tree: Path, *command: str) -> str:
    return _run("chroot", str(tree), *command)


def _run(*command: str) -> str:
    return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True).stdout

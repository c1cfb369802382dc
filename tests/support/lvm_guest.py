"""A guest for what this machine's kernel may not have: device-mapper, with lvm2, Python and the checkout's own driver.

Its kernel and drivers are those of packaging/guest; the programs are the distribution's, unpacked into the tests'
cache. It runs one Python file and powers off; its disk /dev/vdb is empty. Emulated, it takes 5 s until that file runs.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import msgspec
import typing_extensions

import kvedge
from tests.support.guest import BUILDER, KERNEL_ARGUMENTS, cache_directory
from tests.support.unpacked_packages import unpack_packages

_PACKAGES = ("lvm2", "thin-provisioning-tools", "liblvm2cmd2.03", "libdevmapper-event1.02.1", "libdevmapper1.02.1")
_MORE_PACKAGES = ("dmsetup", "libaio1", "busybox-static")
_MODULES = "dm_mod\ndm_thin_pool\n"
# Nobody plays udev there: device-mapper's own library makes the nodes.
_LVM_CONF = """\
activation { udev_sync=0 udev_rules=0 verify_udev_operations=1 monitoring=0 }
global { notify_dbus=0 use_lvmpolld=0 }
devices { obtain_device_list_from_udev=0 }
backup { backup=0 archive=0 }
"""
_BOOT = """\
#!/bin/sh
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev
while read -r module devices; do
    case $module in
        virtio.ko|virtio_ring.ko|virtio_pci*|virtio_blk.ko|dm*|libcrc32c.ko|crc32c*) insmod "/lib/modules/$module" ;;
    esac
done </lib/modules/order 2>/dev/null
mkdir -p /host && mount -t ext4 -o ro /dev/vda /host
for each in proc sys dev; do mount --bind /$each /host/$each; done
for each in run tmp var; do mount -t tmpfs tmpfs /host/$each; done
chroot /host /usr/bin/env PYTHONPATH=/kvedge/site:/kvedge PATH=/usr/sbin:/usr/bin /usr/bin/python3 -S /kvedge/main.py
echo "lvm guest: ended $?"
poweroff -f
"""
_APPLETS = ("sh", "dd", "env")
_PROGRAMS = ("mkfs.ext4", "resize2fs")
_QEMU_IO = "/usr/bin/qemu-io"
_UNNEEDED = ("test", "idlelib", "lib2to3", "ensurepip", "tkinter", "pydoc_data", "turtledemo", "unittest", "distutils")


def run_in_lvm_guest(script: Path, scratch: Path, seconds: float) -> str:
    """What a Python file prints in such a guest; it may use what kvedge's drivers of volumes use.

    Raises:
        subprocess.CalledProcessError: when the guest cannot be made.
        subprocess.TimeoutExpired: when it does not end.
    """
    kernel, initrd = _make_initrd(scratch)
    root = _make_root(script, scratch)
    pool = scratch / "pool.raw"
    with pool.open("wb") as opened:
        opened.truncate(400 << 20)
    disks = [f"file={root},format=raw,if=virtio,readonly=on", f"file={pool},format=raw,if=virtio,cache=unsafe"]
    command = ["qemu-system-x86_64", "-accel", "tcg", "-cpu", "qemu64", "-m", "384", "-nodefaults", "-no-reboot"]
    command += ["-display", "none", "-serial", "stdio", "-kernel", str(kernel), "-initrd", str(initrd)]
    command += ["-append", f"{KERNEL_ARGUMENTS} panic=-1", *(word for disk in disks for word in ("-drive", disk))]
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=seconds, check=True
    )
    return done.stdout.replace("\r", "")


def _make_initrd(scratch: Path) -> tuple[Path, Path]:
    overlay = scratch / "overlay"
    for name, content in {"etc/modules": _MODULES, "etc/init.d/boot": _BOOT}.items():
        path = overlay / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
        path.chmod(0o755)
    target = cache_directory() / "guest-lvm"
    packages = cache_directory() / "packages"
    subprocess.run(
        [str(BUILDER), str(target), "--cache", str(packages), "--overlay", str(overlay)], check=True, timeout=600
    )
    return target / "vmlinuz", target / "initrd"


def _make_root(script: Path, scratch: Path) -> Path:
    """A disk with Python, lvm2, the driver and the file."""
    packages = unpack_packages("lvm2", *_PACKAGES, *_MORE_PACKAGES)
    tree = scratch / "tree"
    for name in ("proc", "sys", "dev", "run", "tmp", "var", "etc/lvm", "usr/bin", "usr/sbin", "usr/lib", "kvedge/site"):
        (tree / name).mkdir(parents=True)
    for name in ("bin", "sbin", "lib"):
        (tree / name).symlink_to(f"usr/{name}")
    (tree / "etc/lvm/lvm.conf").write_text(_LVM_CONF)
    for folder in ("sbin", "usr/sbin", "bin", "usr/bin", "lib", "usr/lib"):
        if (packages / folder).is_dir():
            into = tree / "usr" / folder.rpartition("/")[2]
            shutil.copytree(packages / folder, into, symlinks=True, dirs_exist_ok=True)
    for applet in _APPLETS:
        (tree / "usr/bin" / applet).symlink_to("busybox")
    for program in _PROGRAMS:
        found = shutil.which(program, path="/usr/sbin:/sbin")
        assert found is not None, f"{program} is not here: install e2fsprogs"
        shutil.copy(found, tree / "usr/sbin")
    # QEMU's own way to disks, without the rest of it.
    shutil.copy(_QEMU_IO, tree / "usr/bin")
    _copy_python(tree)
    shutil.copy(script, tree / "kvedge/main.py")
    _copy_libraries(tree)
    image = scratch / "root.raw"
    make = ["mkfs.ext4", "-q", "-F", "-O", "^has_journal", "-d", str(tree), str(image), "128M"]
    subprocess.run(make, check=True, timeout=120)
    return image


def _copy_python(tree: Path) -> None:
    base = Path(sysconfig.get_paths()["stdlib"])
    shutil.copy(Path(sys.executable).resolve(), tree / "usr/bin/python3")
    unneeded = shutil.ignore_patterns(*_UNNEEDED, "config-*", "dist-packages", "site-packages")
    shutil.copytree(base, tree / f"usr/lib/{base.name}", ignore=unneeded)
    site = tree / "kvedge/site"
    shutil.copytree(Path(msgspec.__file__).parent, site / "msgspec")
    shutil.copy(typing_extensions.__file__, site)
    package = Path(kvedge.__file__).parent
    (tree / "kvedge/kvedge").mkdir()
    shutil.copy(package / "__init__.py", tree / "kvedge/kvedge")
    for name in ("resources", "runtime", "storage"):
        shutil.copytree(package / name, tree / "kvedge/kvedge" / name)


def _copy_libraries(tree: Path) -> None:
    """What the programs are linked with, from this machine where no package has brought it."""
    own = tree / "usr/lib/x86_64-linux-gnu"
    names = ("sbin/lvm", "sbin/pdata_tools", "sbin/mkfs.ext4", "sbin/resize2fs", "bin/python3", "bin/qemu-io")
    programs = [*(tree / "usr" / name for name in names), *tree.glob("usr/lib/python3*/lib-dynload/_ctypes.*.so")]
    for program in programs:
        listed = subprocess.run(
            ["env", f"LD_LIBRARY_PATH={own}", "ldd", str(program)], capture_output=True, text=True, check=True
        )
        for path in re.findall(r"(/\S+)", listed.stdout):
            source = Path(path)
            if source.is_relative_to(tree) or not source.is_file():
                continue
            into = tree / path.lstrip("/")
            if not into.exists():
                into.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(source, into)

"""Disk files (qcow2, raw) that become images.

Called by the image store. The user's file is only read. Starts `qemu-img`, confined and with the format named, on the
store's own copy once its header was found harmless.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

from msgspec import Struct

from kvedge.storage.image_errors import BadImage, StoreError
from kvedge.storage.qcow2_header import HEADER_SIZE, MAGIC, check_qcow2_header

# Formats that are recognised only to say what to do with them.
_FOREIGN: Final = {
    b"KDMV": "VMDK",
    b"# Disk DescriptorFile": "VMDK",
    b"vhdxfile": "VHDX",
    b"conectix": "VHD",
    b"<<< ": "VDI",
    b"QED\0": "QED",
    b"\x7fELF": "program",
}
_HEAD: Final = 1024
# For two bytes of each cluster: those of 256 GiB in clusters of 4 KiB, or of 4 TiB in the usual ones of 64 KiB.
QEMU_IMG_MEMORY: Final = 256 << 20
# Where a machine is busy, qemu-img begins a thread for each request, up to 64, and the stack of each counts as memory.
QEMU_IMG_STACK: Final = 2 << 20
# util-linux's. qemu-img needs two minutes for the tables of the largest of these, and writes nothing.
_CONFINED: Final = (
    "prlimit",
    f"--data={QEMU_IMG_MEMORY}",
    f"--stack={QEMU_IMG_STACK}",
    f"--as={2 << 30}",
    "--cpu=120",
    "--fsize=0",
    "--core=0",
)
_NO_MEMORY: Final = ("Cannot allocate memory", "failed to allocate", "qemu_thread_create")
_WALL_SECONDS: Final = 600
_SECTOR: Final = 512


class DiskFacts(Struct, frozen=True):
    """A checked disk file: `format` is qcow2 or raw, `virtual_size` what a guest sees, in bytes."""

    format: str
    virtual_size: int

    @property
    def file_name(self) -> str:
        """What the file is called in an image's /disk."""
        return "disk.qcow2" if self.format == "qcow2" else "disk.img"


def recognise_disk(opened: int, name: str) -> DiskFacts:
    """The format and size of an open file by its own header; `name` is used in messages and for its suffix.

    Raises:
        BadImage: when it is no disk that can be used.
    """
    head = os.pread(opened, _HEAD, 0)
    size = os.fstat(opened).st_size
    if head.startswith(MAGIC):
        return DiskFacts("qcow2", check_qcow2_header(head[:HEADER_SIZE]).virtual_size)
    for magic, kind in _FOREIGN.items():
        if head.startswith(magic):
            raise BadImage(
                f"{name} is a {kind} file, not qcow2 or raw", f"convert it: qemu-img convert -O qcow2 {name} NEW"
            )
    if name.endswith((".qcow2", ".qcow")):
        raise BadImage(f"{name} is called qcow2 but has no qcow2 header", "it may be a broken download: get it again")
    if not size:
        raise BadImage(f"{name} is empty")
    if size % _SECTOR:
        raise BadImage(
            f"{name} is neither a qcow2 file nor a raw disk: its size is no multiple of {_SECTOR}",
            "import a qcow2 or raw disk, or an archive written by docker save or skopeo",
        )
    return DiskFacts("raw", size)


def check_disk(path: Path, facts: DiskFacts) -> None:
    """Have `qemu-img` look through a file of ours whose header was found harmless.

    Raises:
        BadImage: when it is damaged.
        StoreError: when qemu-img is missing.
    """
    info = _qemu_img("info", path, facts.format)
    if info.get("backing-filename") or (facts.format == "qcow2" and info.get("virtual-size") != facts.virtual_size):
        raise BadImage(f"{path.name} has a header that does not fit its content", "get it again")
    if facts.format != "qcow2":
        return
    found = _qemu_img("check", path, facts.format)
    # Leaked clusters waste space and hurt nobody.
    if found.get("corruptions") or found.get("check-errors"):
        raise BadImage(
            f"{path.name} is a damaged qcow2 file ({found.get('corruptions', 0)} corruptions)",
            "get it again, or repair a copy: qemu-img check -r all FILE",
        )


def _qemu_img(verb: str, path: Path, disk_format: str) -> dict[str, object]:
    program = shutil.which("qemu-img")
    if program is None:
        raise StoreError("the program qemu-img is missing", "apt install qemu-utils")
    options = f"driver={disk_format},file.driver=file,file.filename={_escape(path)}"
    argv = [*_CONFINED, program, verb, "--output=json", "-U", "--image-opts", options]
    try:
        done = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env={"PATH": "/usr/bin:/bin", "LC_ALL": "C"},
            timeout=_WALL_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise BadImage(f"{path.name} could not be checked within {_WALL_SECONDS} s", "get it again") from error
    # `check` ends with 2 and 3 for damage and leaks, and tells them in its answer.
    if done.returncode not in ((0,) if verb == "info" else (0, 2, 3)):
        why = done.stderr.decode(errors="replace").strip().splitlines()
        detail = why[-1][:300] if why else f"qemu-img ended with {done.returncode}"
        if any(words in line for words in _NO_MEMORY for line in why):
            raise BadImage(
                f"qemu-img needs more than {QEMU_IMG_MEMORY >> 20} MiB of memory to check {path.name}",
                "give it larger clusters: qemu-img convert -O qcow2 -o cluster_size=2M OLD NEW",
            )
        raise BadImage(f"{path.name} is no usable {disk_format} file ({_without_path(detail, path)})", "get it again")
    answer = json.loads(done.stdout)
    return answer if isinstance(answer, dict) else {}


def _escape(path: Path) -> str:
    return str(path).replace(",", ",,")


def _without_path(text: str, path: Path) -> str:
    return text.replace(str(path), path.name)

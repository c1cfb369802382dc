"""Writes an opened export for other programs: qcow2 images in a directory, or an appliance (OVA).

Called by `kvedge export --format`. Each disk is fetched into a sparse file beside the target, which `qemu-img` makes
the image of; that file is this program's own, and its format is named. What was begun is gone when anything fails.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tarfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec

from kvedge.client.errors import HostError
from kvedge.client.exports.new_file import check_free, remove_unfinished, write_file
from kvedge.client.exports.remote_disk import RemoteDisk
from kvedge.client.vm_files.open_export import OpenExport
from kvedge.client.vm_files.ova_descriptor import Image, describe, name_image
from kvedge.client.vm_files.tar_member import END, make_header, padding
from kvedge.runtime.durable_files import name_unfinished, sync
from kvedge.storage.sparse_file import write_blocks

QCOW2: Final = ("qcow2",)
# What an appliance must have: written in one go, compressed, without holes.
VMDK: Final = ("vmdk", "-o", "subformat=streamOptimized,adapter_type=lsilogic")
_PIECE: Final = 1 << 20
_LONGEST_NAME: Final = 63
_LARGEST_USTAR: Final = 8 << 30
_CONVERT_SECONDS: Final = 12 * 3600

Show = Callable[[int, int], None]


def find_qemu_img() -> str:
    """The program; raises HostError when this computer lacks it."""
    program = shutil.which("qemu-img")
    if program is None:
        raise HostError("the program qemu-img is missing on this computer: apt install qemu-utils")
    return program


def write_images(export: OpenExport, directory: Path, show: Show) -> int:
    """A directory with an image of each disk, named after its volume, and the VM's manifest; returns their size.

    Raises:
        ClientError: a disk cannot be read, or there is such a directory.
        OSError: of the files.
    """
    with _workspace(directory) as place:
        images = _make_images(export, place, QCOW2, "qcow2", show)
        documents = msgspec.json.format(msgspec.json.encode([export.manifest.vm, *export.manifest.objects]), indent=2)
        (place / "vm.json").write_bytes(documents + b"\n")
        for path in (*images, place / "vm.json", place):
            sync(path)
        check_free(directory)
        place.rename(directory)
        sync(directory.parent)
        return sum((directory / image.name).stat().st_size for image in images)


def write_ova(export: OpenExport, path: Path, show: Show) -> int:
    """An appliance in one file: its description, digests, and a VMDK of each disk; returns its size.

    Raises:
        ClientError: a disk cannot be read, or there is such a file.
        OSError: of the files.
    """
    check_free(path)
    with _workspace(path) as place:
        files = _make_images(export, place, VMDK, "vmdk", show)
        disks = [
            Image(disk.volume, file.name, disk.size, file.stat().st_size)
            for disk, file in zip(export.manifest.disks, files, strict=True)
        ]
        # A member's name has 100 characters.
        name = str(export.manifest.vm["metadata"].get("name") or "vm")[:_LONGEST_NAME]
        descriptor = describe(export.manifest.vm, disks)
        lines = [f"SHA256({name}.ovf)= {hashlib.sha256(descriptor).hexdigest()}\n"]
        lines += [f"SHA256({file.name})= {_digest(file)}\n" for file in files]
        with write_file(path) as ova:
            for member, content in ((f"{name}.ovf", descriptor), (f"{name}.mf", "".join(lines).encode())):
                ova.write(make_header(member, len(content)) + content + bytes(padding(len(content))))
            for file in files:
                size = file.stat().st_size
                ova.write(_make_large_header(file.name, size))
                with file.open("rb") as source:
                    shutil.copyfileobj(source, ova, _PIECE)
                ova.write(bytes(padding(size)))
                file.unlink()
            ova.write(END)
            return ova.tell()


def _make_images(export: OpenExport, place: Path, form: tuple[str, ...], suffix: str, show: Show) -> list[Path]:
    program, made = find_qemu_img(), []
    total, before = sum(disk.size for disk in export.manifest.disks), 0
    for number, (entry, disk) in enumerate(zip(export.manifest.disks, export.disks, strict=True)):
        raw, image = place / "fetched.raw", place / name_image(number, entry.volume, suffix)
        start = before
        _fetch(disk, raw, lambda done, start=start: show(start + done, total))  # type: ignore[misc]
        command = [program, "convert", "-f", "raw", "-O", *form, str(raw), str(image)]
        done = subprocess.run(command, capture_output=True, check=False, timeout=_CONVERT_SECONDS)
        if done.returncode:
            words = done.stderr.decode(errors="replace").strip().splitlines()
            raise HostError(f"qemu-img cannot write {image.name}: {words[-1][:300] if words else done.returncode}")
        raw.unlink()
        before += entry.size
        made.append(image)
    return made


def _fetch(disk: RemoteDisk, path: Path, show: Callable[[int], None]) -> None:
    size = disk.read_size()
    with path.open("xb") as file:
        os.truncate(file.fileno(), size)
        for start, end in disk.find_ranges():
            for place, chunk in disk.read_chunks(start, end):
                write_blocks(file.fileno(), place, chunk)
                show(place + len(chunk))
    show(size)


@contextmanager
def _workspace(target: Path) -> Iterator[Path]:
    """A directory beside a target; it is gone afterwards, unless it got another name."""
    check_free(target)
    remove_unfinished(target)
    place = name_unfinished(target)
    place.mkdir(mode=0o700)
    try:
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _make_large_header(name: str, size: int) -> bytes:
    """As POSIX has it up to 8 GiB, and as GNU's tar writes what is larger."""
    if size < _LARGEST_USTAR:
        return make_header(name, size)
    member = tarfile.TarInfo(name)
    member.size = size
    return member.tobuf(tarfile.GNU_FORMAT, "ascii", "strict")


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()

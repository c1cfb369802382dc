"""Writes an ISO 9660 image with Joliet and Rock Ridge names: how cloud-init data reaches a guest.

Called by the launcher when it prepares a VMI's volumes. Touches the one file that it is told to write.
"""

from __future__ import annotations

import io
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import Any, Final

from kvedge.launcher.cloudinit.iso_times import clear_times

# QEMU runs as the launcher's own user and opens the image for writing when it is a disk and no CD-ROM.
_IMAGE_MODE: Final = 0o600
# In the guest, too, passwords and keys are root's; other files are everybody's to read.
_PRIVATE_FILE_MODE: Final = 0o100400
_PRIVATE_DIRECTORY_MODE: Final = 0o040500
_PUBLIC_FILE_MODE: Final = 0o100444
_PUBLIC_DIRECTORY_MODE: Final = 0o040555
_NOT_ISO: Final = re.compile(r"[^A-Z0-9_]")
# A disk whose blocks have 4096 bytes must have a whole number of them; ISO 9660's own blocks have 2048.
_BLOCK_BYTES: Final = 4096
# ISO 9660 level 3 takes 30 characters; some are left for a number that makes names unique.
_LONGEST_ISO_NAME: Final = 24


class IsoError(ValueError):
    """The files cannot be put into an image; `reason` is what the writer said."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason


def write_iso(path: str | os.PathLike[str], volid: str, files: Mapping[str, bytes], *, private: bool = True) -> None:
    """Write the image: readable by its owner only, in place at once or not at all, the same bytes for the same files.

    `files` are contents by their path in the image, with `/` between folders; in the guest `private` ones are root's.

    Raises:
        IsoError: when a name or the label cannot be written.
        OSError: when the file cannot.
    """
    target = Path(path)
    image = iso_image(volid, files, str(target), private=private)
    staged = target.with_name(f".{target.name}.staged")
    # One launcher writes here: a file that an earlier, killed launcher left is replaced.
    with suppress(FileNotFoundError):
        staged.unlink()
    descriptor = os.open(staged, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, _IMAGE_MODE)
    try:
        with open(descriptor, "wb") as file:
            file.write(image)
        staged.replace(target)
    except BaseException:
        staged.unlink(missing_ok=True)
        raise


def iso_image(volid: str, files: Mapping[str, bytes], name: str = "image", *, private: bool = True) -> bytes:
    """The bytes of the image; `name` is what an error calls it.

    Raises:
        IsoError: when a name or the label cannot be written.
    """
    # Imported here, as a launcher without cloud-init data does without its 5 MB.
    import pycdlib
    from pycdlib.pycdlibexception import PyCdlibException

    iso = pycdlib.PyCdlib()
    try:
        iso.new(interchange_level=3, vol_ident=volid, joliet=3, rock_ridge="1.09")
        _add_files(iso, files, private=private)
        buffer = io.BytesIO()
        iso.write_fp(buffer)
        iso.close()
    except PyCdlibException as error:
        raise IsoError(name, str(error)) from error
    image = bytearray(buffer.getvalue())
    clear_times(image)
    return bytes(image) + b"\0" * (-len(image) % _BLOCK_BYTES)


def _add_files(iso: Any, files: Mapping[str, bytes], *, private: bool) -> None:
    file_mode = _PRIVATE_FILE_MODE if private else _PUBLIC_FILE_MODE
    directory_mode = _PRIVATE_DIRECTORY_MODE if private else _PUBLIC_DIRECTORY_MODE
    names = _IsoNames()
    made: set[PurePosixPath] = set()
    for text, content in sorted(files.items()):
        path = PurePosixPath("/", text)
        for folder in reversed(path.parents[:-1]):
            if folder not in made:
                iso.add_directory(
                    names.choose(folder), rr_name=folder.name, joliet_path=str(folder), file_mode=directory_mode
                )
                made.add(folder)
        iso.add_fp(
            io.BytesIO(content),
            len(content),
            f"{names.choose(path)}.;1",
            rr_name=path.name,
            joliet_path=str(path),
            file_mode=file_mode,
        )


class _IsoNames:
    """Plain ISO 9660 names, for readers that know neither Rock Ridge nor Joliet: capitals, digits, underscores."""

    def __init__(self) -> None:
        self._names: dict[PurePosixPath, str] = {PurePosixPath("/"): ""}
        self._taken: set[str] = set()
        # The next number to try for a name, so that many alike are told apart in linear time.
        self._numbers: dict[str, int] = {}

    def choose(self, path: PurePosixPath) -> str:
        """The path in these names; its folders must have been asked for before."""
        if path not in self._names:
            plain = _NOT_ISO.sub("_", path.name.upper())[:_LONGEST_ISO_NAME]
            name = base = f"{self._names[path.parent]}/{plain}"
            number = self._numbers.get(base, 1)
            while name in self._taken:
                name, number = f"{base}{number}", number + 1
            self._numbers[base] = number
            self._taken.add(name)
            self._names[path] = name
        return self._names[path]

"""The images that CDI's tests import and upload: those of TinyCore and CirrOS made, in all forms; the others its own.

Called by the run before its file host starts, and by hand (`python -m tests.conformance.cdi.images CHECKOUT`), which
writes the sums of the made ones into the checkout's constants. They are made whether or not the checkout has files of
their names, as a copy of CDI's repository may lack some: a real one beside made ones would have another sum. What is
made is the same each time. Needs qemu-img, gzip, xz and zstd.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from tests.support.guest import cache_directory

ISO: Final = "tinyCore.iso"
CIRROS: Final = "cirros-qcow2.img"
# The sizes are constants of the tests, too.
_ISO_BYTES: Final = 18874368
_CIRROS_BYTES: Final = 46137344
# Of the file that CDI's repository has.
_ISO_SHA256: Final = "11d74aa12309da7240f171c140394729bb9b407e8fa3cb52c6dcbf7009352fab"
_CIRROS_DATA: Final = 12 << 20
_PREFIX: Final = 100000
_FORMATS: Final = ("qcow2", "vmdk", "vdi", "vhd", "vhdx")
_QEMU_NAMES: Final = {"vhd": "vpc"}
_PACKERS: Final = (("gzip", "-fkn1"), ("xz", "-fk1T1"), ("zstd", "-fqk1"))
# Those that the file host has packed, as CDI's own does.
_PACKED: Final = (ISO, "tinyCore.qcow2")


def made_images(checkout: Path) -> Path:
    """The directory of all images, made at the first call: those of the checkout's `tests/images`, and over them ours.

    Raises:
        subprocess.CalledProcessError: when a program refuses.
    """
    kept = cache_directory() / "cdi-images"
    if not kept.is_dir():
        with tempfile.TemporaryDirectory(dir=cache_directory()) as scratch:
            _make(checkout, Path(scratch, "images"))
            Path(scratch, "images").rename(kept)
    return kept


def _make(checkout: Path, target: Path) -> None:
    shutil.copytree(checkout / "tests/images", target)
    iso, raw = target / ISO, target / "cirros.raw"
    iso.write_bytes(_content("tinyCore", _ISO_BYTES))
    with raw.open("wb") as file:
        file.write(_content("cirros", _CIRROS_DATA))
        file.truncate(_CIRROS_BYTES)
    for name in _FORMATS:
        _convert(iso, target / f"tinyCore.{name}", _QEMU_NAMES.get(name, name))
    _convert(raw, target / CIRROS, "qcow2")
    for name in _PACKED:
        for packer in _PACKERS:
            subprocess.run([*packer, str(target / name)], check=True)
    _make_large(target, raw)


def _make_large(target: Path, raw: Path) -> None:
    """Those that are too large for the tests' claims: by their virtual size, and by what they hold."""
    virtual, physical = target / "cirros-large-virtual-size.raw", target / "cirros-large-physical-size.raw"
    shutil.copy(raw, virtual)
    with virtual.open("r+b") as file:
        file.truncate(10 << 30)
    with physical.open("wb") as file:
        file.write(_content("large", 64 << 20) * 10)
    for path in (virtual, physical):
        _convert(path, path.with_suffix(".qcow2"), "qcow2")
        subprocess.run(["xz", "-f0T2", str(path)], check=True)


def _content(seed: str, size: int) -> bytes:
    """Bytes that no packer makes smaller, the same each time."""
    return hashlib.shake_128(seed.encode()).digest(size)


def _convert(source: Path, target: Path, form: str) -> None:
    subprocess.run(["qemu-img", "convert", "-f", "raw", "-O", form, str(source), str(target)], check=True)


def sums() -> dict[str, str]:
    """The constants of the tests that are sums of what is made here, by their names."""
    iso, cirros = _content("tinyCore", _ISO_BYTES), _content("cirros", _PREFIX)
    return {
        "TinyCoreMD5": _md5(iso[:_PREFIX]),
        "UploadFileMD5100kbytes": _md5(iso[:_PREFIX]),
        "UploadFileMD5": _md5(iso),
        "CirrosMD5": _md5(cirros),
    }


def _md5(data: bytes) -> str:
    return hashlib.md5(data, usedforsecurity=False).hexdigest()


def write_sums(checkout: Path) -> None:
    """Write the sums into the constants of a checkout."""
    whole, constants = hashlib.sha256(_content("tinyCore", _ISO_BYTES)).hexdigest(), sums()
    for file in (checkout / "tests").glob("**/*.go"):
        found = text = file.read_text()
        for name, value in constants.items():
            text = re.sub(rf'(\b{name}\s*=\s*)"[0-9a-f]{{32}}"', rf'\g<1>"{value}"', text)
        text = text.replace(_ISO_SHA256, whole)
        if text != found:
            file.write_text(text)


if __name__ == "__main__":
    write_sums(Path(sys.argv[1]))

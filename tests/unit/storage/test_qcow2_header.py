"""Images that nobody vouches for: what their headers may and may not say."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvedge.storage.image_errors import BadImage
from kvedge.storage.qcow2_header import HEADER_SIZE, check_qcow2_header

QEMU_IMG = "/usr/bin/qemu-img"


def made(path: Path, *options: str) -> bytes:
    """The header of an image that qemu-img has made."""
    subprocess.run([QEMU_IMG, "create", "-q", "-f", "qcow2", *options], check=True, cwd=path.parent)
    return path.read_bytes()[:HEADER_SIZE]


@pytest.mark.parametrize("options", [[], ["-o", "compat=0.10"], ["-o", "cluster_size=2M"], ["-o", "extended_l2=on"]])
def test_an_image_that_stands_on_its_own_has_a_size(tmp_path: Path, options: list[str]) -> None:
    assert check_qcow2_header(made(tmp_path / "a.qcow2", *options, "a.qcow2", "12345344")).virtual_size == 12345344


def test_an_image_with_a_backing_file_is_refused(tmp_path: Path) -> None:
    header = made(tmp_path / "b.qcow2", "-u", "-b", "/etc/shadow", "-F", "raw", "b.qcow2", "1M")
    with pytest.raises(BadImage, match="backing file"):
        check_qcow2_header(header)


def test_an_image_with_an_external_data_file_is_refused(tmp_path: Path) -> None:
    header = made(tmp_path / "c.qcow2", "-o", "data_file=other.raw", "c.qcow2", "1M")
    with pytest.raises(BadImage, match="data in another file"):
        check_qcow2_header(header)


def test_an_encrypted_image_is_refused(tmp_path: Path) -> None:
    # The older of the two methods: for a LUKS image qemu-img measures its own CPU time, which fails on some machines.
    secret = ["--object", "secret,id=s,data=x", "-o", "encrypt.format=aes,encrypt.key-secret=s"]
    with pytest.raises(BadImage, match="encrypted"):
        check_qcow2_header(made(tmp_path / "d.qcow2", *secret, "d.qcow2", "1M"))


def test_a_luks_image_is_refused(tmp_path: Path) -> None:
    header = bytearray(made(tmp_path / "d.qcow2", "d.qcow2", "1M"))
    # Offset 32: crypt_method, 2 is LUKS (docs/interop/qcow2.txt of QEMU).
    header[32:36] = (2).to_bytes(4, "big")
    with pytest.raises(BadImage, match="encrypted"):
        check_qcow2_header(bytes(header))


def test_what_is_no_qcow2_is_refused() -> None:
    with pytest.raises(BadImage):
        check_qcow2_header(b"\0" * HEADER_SIZE)


@given(st.binary(max_size=HEADER_SIZE + 8))
def test_no_bytes_get_more_than_a_size_or_a_refusal(rest: bytes) -> None:
    try:
        size = check_qcow2_header(b"QFI\xfb" + rest).virtual_size
    except BadImage:
        return
    assert 0 < size <= 1 << 56

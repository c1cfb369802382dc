"""By which names an archive of an image is known, and what they tell of a layer."""

from __future__ import annotations

import pytest

from kvedge.storage.imports.containers.archive_names import begins_image_archive, digest_in_name
from tests.support.small_images import directory, file, layer

HEX = "0a" * 32


@pytest.mark.parametrize(
    "name",
    [
        "oci-layout",
        "./index.json",
        "blobs/sha256/x",
        f"{HEX}.tar",
        f"{HEX}.tar.gz",
        f"{HEX}/layer.tar",
        f"sha256:{HEX}",
        "manifest.json",
    ],
)
@pytest.mark.parametrize("within", [False, True], ids=["alone", "behind its directory"])
def test_an_archive_of_an_image_is_known_by_its_first_member(name: str, *, within: bool) -> None:
    assert begins_image_archive(layer([*([directory("./")] if within else []), file(name, b"")])[:1536])


@pytest.mark.parametrize("name", ["data.bin", "disk/image.img", "etc/passwd", "blob", "./", "sha256:0", "x" * 200])
def test_any_other_tar_is_none(name: str) -> None:
    assert not begins_image_archive(layer([file(name, b"of the guest's")])[:65536])
    assert not begins_image_archive(layer([directory("./"), file(name, b"of the guest's")])[:65536])


@pytest.mark.parametrize("head", [b"", bytes(512), b"x" * 257 + b"ustar", b"x" * 257 + b"ustar" + b"x" * 5000])
def test_what_is_no_tar_is_none(head: bytes) -> None:
    assert not begins_image_archive(head)


@pytest.mark.parametrize("name", [f"blobs/sha256/{HEX}", f"sha256:{HEX}", f"{HEX}.tar.gz"])
def test_a_packed_layer_is_named_by_its_digest(name: str) -> None:
    assert digest_in_name(name) == f"sha256:{HEX}"


@pytest.mark.parametrize("name", [f"{HEX}.tar", f"{HEX}/layer.tar", "layer.tar.gz", f"x{HEX}.tar.gz"])
def test_other_names_tell_no_digest(name: str) -> None:
    assert digest_in_name(name) == ""

"""The launcher's image: its tag stands for what is in it, as nodes of several versions of kvedge share a cluster."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from kvedge.resources.names import GUESTFS_ENTRY, GUESTFS_IMAGE, LAUNCHER_IMAGE
from kvedge.storage.images.launcher_image import launcher_image, write_guestfs_image

# By the number in the tag. An image whose layer or start differs gets the next one, and its line here: a node keeps
# what it has under a tag, so that two contents under one name would be told apart by nobody.
LAYOUTS = {
    # Before 0.1.0 was released, /root in it was closed to user 107. A node that has that one runs every VM but those
    # of a checkout below /root, which an agent of one box imports anew at each start.
    "v1": "b4561868974deceb2d565a9da8c6adff5825d8917099fa7161f60e7ff3d10ca4",
}
CONFIG = {"User": "107:107", "Env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin"], "WorkingDir": "/"}


def members(machine: str) -> dict[str, bytes]:
    with tarfile.open(fileobj=io.BytesIO(launcher_image(machine))) as archive:
        files = {member.name: archive.extractfile(member) for member in archive.getmembers()}
        return {name: stream.read() for name, stream in files.items() if stream is not None}


def blob(found: dict[str, bytes], descriptor: Any) -> bytes:
    return found["blobs/sha256/" + descriptor["digest"].removeprefix("sha256:")]


def test_the_launchers_user_passes_every_directory_of_the_image() -> None:
    """A checkout is mounted where it is on the host, below any of them; /root stood in the way of user 107."""
    found = members("x86_64")
    (described,) = json.loads(found["index.json"])["manifests"]
    (layer,) = json.loads(blob(found, described))["layers"]
    with tarfile.open(fileobj=io.BytesIO(blob(found, layer))) as archive:
        closed = [member.name for member in archive.getmembers() if member.isdir() and not member.mode & 0o001]
    assert closed == []


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_what_is_in_the_image_is_what_the_number_in_its_tag_stands_for(machine: str) -> None:
    found = members(machine)
    (described,) = json.loads(found["index.json"])["manifests"]
    manifest = json.loads(blob(found, described))
    (layer,) = manifest["layers"]
    assert hashlib.sha256(blob(found, layer)).hexdigest() == LAYOUTS[LAUNCHER_IMAGE.rpartition(":")[2]]
    assert json.loads(blob(found, manifest["config"]))["config"] == CONFIG


def test_the_image_is_named_for_containerd_and_for_everybody_else_as_launcher_pods_name_it() -> None:
    (described,) = json.loads(members("x86_64")["index.json"])["manifests"]
    names = {described["annotations"][key] for key in ("io.containerd.image.name", "org.opencontainers.image.ref.name")}
    assert names == {LAUNCHER_IMAGE}


def test_the_image_of_guestfs_is_the_launcher_s_with_what_virtctl_starts(tmp_path: Path) -> None:
    write_guestfs_image(tmp_path / "image.tar", "x86_64")
    with tarfile.open(tmp_path / "image.tar") as archive:
        files = {member.name: archive.extractfile(member) for member in archive.getmembers()}
        found = {name: stream.read() for name, stream in files.items() if stream is not None}
    (described,) = json.loads(found["index.json"])["manifests"]
    assert described["annotations"]["io.containerd.image.name"] == GUESTFS_IMAGE
    manifest = json.loads(blob(found, described))
    base, entry = manifest["layers"]
    assert hashlib.sha256(blob(found, base)).hexdigest() == LAYOUTS["v1"]
    # virtctl wants it to run as somebody else than root, and names nobody.
    assert json.loads(blob(found, manifest["config"]))["config"]["User"] == "107:107"
    with tarfile.open(fileobj=io.BytesIO(blob(found, entry))) as archive:
        assert [(member.name, member.mode) for member in archive.getmembers()] == [(GUESTFS_ENTRY.lstrip("/"), 0o755)]

# Tests: kvedge/launcher/disks/config_files.py, kvedge/resources/disks/config_disks.py
"""Files that a kubelet has mounted become an ISO with the right label and content."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any

import pycdlib
import pytest

from kvedge.launcher.disks import config_files
from kvedge.launcher.disks.config_files import read_files
from kvedge.launcher.disks.disks import prepare_volumes
from kvedge.launcher.launcher_errors import BadRequest
from kvedge.launcher.launcher_options import LauncherOptions
from kvedge.standalone.agent.container.atomic_files import FileContent, write_files
from tests.support.builders import vmi_with, with_volumes

UID = "11111111-1111-4111-8111-111111111111"
PRIVATE = "var/run/kubevirt-private"
KINDS: list[tuple[dict[str, Any], str, str, str]] = [
    ({"configMap": {"name": "c"}}, "config-map/v", "config-map-disks/v.iso", "cfgdata"),
    ({"configMap": {"name": "c", "volumeLabel": "MINE"}}, "config-map/v", "config-map-disks/v.iso", "MINE"),
    ({"secret": {"secretName": "s"}}, "secret/v", "secret-disks/v.iso", "cfgdata"),
    (
        {"serviceAccount": {"serviceAccountName": "a"}},
        "service-account",
        "service-account-disk/service-account.iso",
        "cfgdata",
    ),
    ({"downwardAPI": {"fields": [], "volumeLabel": "POD"}}, "downwardapi/v", "downwardapi-disks/v.iso", "POD"),
    ({"sysprep": {"secret": {"name": "s"}}}, "sysprep/v", "sysprep-disks/v.iso", "unattendCD"),
]


@pytest.fixture
def options(tmp_path: Path) -> LauncherOptions:
    return LauncherOptions(namespace="n", name="v", uid=UID, root=str(tmp_path))


def mounted(tmp_path: Path, directory: str, files: dict[str, bytes]) -> Path:
    """A volume as the kubelet lays it out."""
    place = tmp_path / PRIVATE / directory
    place.mkdir(parents=True)
    write_files(place, {name: FileContent(data, 0o644) for name, data in files.items()}, None)
    return place


def prepare(options: LauncherOptions, source: dict[str, Any]) -> str:
    vmi = vmi_with(with_volumes({"name": "v", **source}), name="v", namespace="n", uid=UID)
    return prepare_volumes(vmi, options)["v"].path


def content(path: str) -> tuple[str, dict[str, bytes]]:
    """The label of an image and its files, as a guest with Rock Ridge finds them."""
    iso = pycdlib.PyCdlib()
    iso.open(path)
    found: dict[str, bytes] = {}
    for folder, _, names in iso.walk(rr_path="/"):
        for name in names:
            whole, buffer = os.path.join(folder, name), io.BytesIO()
            iso.get_file_from_iso_fp(buffer, rr_path=whole)
            found[whole.lstrip("/")] = buffer.getvalue()
    label = iso.pvd.volume_identifier.decode().strip()
    iso.close()
    return label, found


@pytest.mark.parametrize(("source", "directory", "image", "label"), KINDS, ids=[str(kind[0]) for kind in KINDS])
def test_each_kind_has_its_place_and_label(
    options: LauncherOptions, tmp_path: Path, source: dict[str, Any], directory: str, image: str, label: str
) -> None:
    files = {"Autounattend.XML": b"<x/>", "deep/inside": b"y"}
    mounted(tmp_path, directory, files)
    path = prepare(options, source)
    assert path == str(tmp_path / PRIVATE / image)
    assert content(path) == (label, files)


def test_an_optional_object_that_is_absent_is_a_disk_without_files(options: LauncherOptions, tmp_path: Path) -> None:
    mounted(tmp_path, "config-map/v", {})
    path = prepare(options, {"configMap": {"name": "c", "optional": True}})
    assert content(path) == ("cfgdata", {})


def test_a_change_of_the_object_is_not_seen_by_the_run(options: LauncherOptions, tmp_path: Path) -> None:
    place = mounted(tmp_path, "config-map/v", {"a": b"first"})
    prepare(options, {"configMap": {"name": "c"}})
    write_files(place, {"a": FileContent(b"second", 0o644)}, None)
    assert content(prepare(options, {"configMap": {"name": "c"}})) == ("cfgdata", {"a": b"first"})


def test_a_sysprep_disk_without_an_answer_file_is_refused(options: LauncherOptions, tmp_path: Path) -> None:
    mounted(tmp_path, "sysprep/v", {"other.xml": b"<x/>"})
    with pytest.raises(BadRequest) as refused:
        prepare(options, {"sysprep": {"configMap": {"name": "c"}}})
    assert refused.value.field == "spec.volumes[0].sysprep"
    assert (
        refused.value.detail == "Sysprep drive should contain autounattend.xml or unattend.xml but neither were found."
    )


def test_what_is_not_mounted_is_named(options: LauncherOptions) -> None:
    with pytest.raises(BadRequest, match=r"spec\.volumes\[0\]\.secret: its files are not mounted"):
        prepare(options, {"secret": {"secretName": "s"}})


def test_more_than_an_object_can_hold_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = mounted(tmp_path, "secret/v", {"a": b"123", "b": b"456"})
    monkeypatch.setattr(config_files, "LARGEST_BYTES", 5)
    with pytest.raises(BadRequest, match="larger than 5 bytes"):
        read_files(str(place), "f")


def test_a_link_in_a_volume_is_not_followed(tmp_path: Path) -> None:
    place = mounted(tmp_path, "secret/v", {"a": b"1"})
    (place / "..data").resolve().joinpath("evil").symlink_to("/etc/hostname")
    with pytest.raises(OSError, match="evil"):
        read_files(str(place), "f")

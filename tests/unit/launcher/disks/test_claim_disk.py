# Tests: kvedge/launcher/disks/claim_disk.py, kvedge/launcher/disks/disk_facts.py
"""The image on a claim, made for real in a directory: made when absent, and never changed when it exists."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import pytest

from kvedge.launcher.disks import claim_disk
from kvedge.launcher.disks.claim_disk import fitting_size
from kvedge.launcher.disks.disk_plan import ClaimPlan, plan_volumes
from kvedge.launcher.disks.disks import prepare_volumes
from kvedge.launcher.launcher_errors import ClaimUnusable, DiskFull
from kvedge.launcher.launcher_options import LauncherOptions
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.storage import blank_image
from tests.support.builders import vmi_with, with_volumes

UID = "11111111-1111-4111-8111-111111111111"
MIB = 1 << 20


@pytest.fixture
def options(tmp_path: Path) -> LauncherOptions:
    return LauncherOptions(namespace="n", name="v", uid=UID, root=str(tmp_path))


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """The claim's file system, as the Pod has it mounted."""
    folder = tmp_path / "var/run/kubevirt-private/vmi-disks/root"
    folder.mkdir(parents=True)
    return folder


def vmi(read_only: bool = False, **info: Any) -> VirtualMachineInstance:
    volume = {"name": "root", "persistentVolumeClaim": {"claimName": "web-root", "readOnly": read_only}}
    claim = {"claimName": "web-root", "volumeMode": "Filesystem", "requests": {"storage": "24Mi"}, **info}
    status = {"volumeStatus": [{"name": "root", "target": "", "persistentVolumeClaimInfo": claim}]}
    return vmi_with(with_volumes(volume), status, name="v", namespace="n", uid=UID)


def plan(size: int, path: str = "/c/disk.img") -> ClaimPlan:
    return ClaimPlan(volume="root", field="f", claim="c", block=False, directory="/c", path=path, size=size, run="u")


def test_an_absent_image_is_made_sparse_and_raw_in_the_claims_size(options: LauncherOptions, place: Path) -> None:
    source = prepare_volumes(vmi(), options)["root"]
    found = os.stat(place / "disk.img")
    assert (source.path, source.format, source.block) == (str(place / "disk.img"), "raw", False)
    assert (found.st_size, found.st_blocks, stat.S_IMODE(found.st_mode)) == (24 * MIB, 0, 0o660)
    assert os.listdir(place) == ["disk.img"]


@pytest.mark.parametrize(
    ("info", "size"),
    [
        ({"requests": {"storage": "10Gi"}, "capacity": {"storage": "12Gi"}}, 10 << 30),
        ({"requests": {"storage": "12Gi"}, "capacity": {"storage": "10Gi"}}, 10 << 30),
        ({"requests": {"storage": 1500000}}, MIB),
        ({"requests": {}, "capacity": {"storage": "5Mi"}}, 5 * MIB),
        ({"requests": {}}, 0),
    ],
    ids=["request is smaller", "capacity is smaller", "down to a mebibyte", "no request", "neither"],
)
def test_the_size_is_the_smaller_of_request_and_capacity(
    options: LauncherOptions, info: dict[str, Any], size: int
) -> None:
    (made,) = plan_volumes(vmi(**info), options)
    assert isinstance(made, ClaimPlan)
    assert made.size == size


@pytest.mark.parametrize("kind", ["a fifo", "a link", "a file"])
def test_what_lies_where_the_image_is_made_is_removed_and_never_opened(
    options: LauncherOptions, place: Path, tmp_path: Path, kind: str
) -> None:
    other = tmp_path / "other"
    other.write_bytes(b"of somebody else")
    (made,) = plan_volumes(vmi(), options)
    assert isinstance(made, ClaimPlan)
    staged = place / f".disk.img.{made.run}"
    if kind == "a fifo":
        os.mkfifo(staged)
    elif kind == "a link":
        staged.symlink_to(other)
    else:
        os.link(other, staged)
    prepare_volumes(vmi(), options)
    assert os.stat(place / "disk.img").st_size == 24 * MIB
    assert os.listdir(place) == ["disk.img"]
    assert other.read_bytes() == b"of somebody else"


def test_an_image_that_exists_keeps_its_bytes_its_owner_and_its_mode(options: LauncherOptions, place: Path) -> None:
    image = place / "disk.img"
    image.write_bytes(b"guest" * 1000)
    image.chmod(0o606)
    before = os.stat(image)
    prepare_volumes(vmi(), options)
    now = os.stat(image)
    assert image.read_bytes() == b"guest" * 1000
    assert (now.st_ino, now.st_uid, now.st_mode, now.st_mtime_ns) == (
        before.st_ino,
        before.st_uid,
        before.st_mode,
        before.st_mtime_ns,
    )


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda path: path.symlink_to("/etc/passwd"), "is a link, which is not followed"),
        (lambda path: path.symlink_to("/nowhere"), "is a link, which is not followed"),
        (lambda path: path.mkdir(), "no regular file"),
        (lambda path: os.mkfifo(path), "no regular file"),
    ],
    ids=["a link", "a link to nothing", "a directory", "a fifo"],
)
def test_what_is_no_plain_image_is_refused_with_the_claims_name(
    options: LauncherOptions, place: Path, make: Any, words: str
) -> None:
    make(place / "disk.img")
    with pytest.raises(ClaimUnusable, match=words) as caught:
        prepare_volumes(vmi(), options)
    assert (caught.value.field, caught.value.claim) == ("spec.volumes[0].persistentVolumeClaim", "web-root")
    assert not Path("/nowhere").exists()


def test_an_image_of_another_user_is_told_with_owner_mode_and_remedy(
    options: LauncherOptions, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (place / "disk.img").write_bytes(b"x")
    (place / "disk.img").chmod(0o600)

    def refuse(*_: Any, **__: Any) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(claim_disk, "open_beneath", refuse)
    with pytest.raises(ClaimUnusable) as caught:
        prepare_volumes(vmi(), options)
    assert f"cannot be written by user {os.getuid()}: it belongs to {os.getuid()}:" in str(caught.value)
    assert "mode 0600; have it belong to group" in str(caught.value)


def test_a_claim_that_is_not_mounted_is_told(options: LauncherOptions) -> None:
    with pytest.raises(ClaimUnusable, match="it is not mounted at"):
        prepare_volumes(vmi(), options)


def test_a_claim_without_a_copy_in_the_status_is_waited_for(options: LauncherOptions) -> None:
    made = vmi()
    made.status.volume_status = []
    with pytest.raises(ClaimUnusable, match="missing volume status for volume root"):
        prepare_volumes(made, options)


def test_a_read_only_claim_gives_a_read_only_disk_and_no_new_image(options: LauncherOptions, place: Path) -> None:
    with pytest.raises(ClaimUnusable, match=r"it is read-only and holds no disk\.img"):
        prepare_volumes(vmi(read_only=True), options)
    (place / "disk.img").write_bytes(b"x" * 4096)
    assert prepare_volumes(vmi(read_only=True), options)["root"].readonly


def test_a_claim_of_no_size_is_refused_in_kubevirts_words(options: LauncherOptions, place: Path) -> None:
    with pytest.raises(ClaimUnusable, match="provides no storage capacity or requests"):
        prepare_volumes(vmi(requests={}), options)
    assert os.listdir(place) == []


def test_an_image_may_be_a_tenth_smaller_than_its_claim_and_no_more() -> None:
    assert fitting_size(plan(100 * MIB), 100 * MIB) == 100 * MIB
    assert fitting_size(plan(100 * MIB), 95 * MIB + 17) == 95 * MIB
    assert fitting_size(plan(100 * MIB), 90 * MIB) == 90 * MIB
    with pytest.raises(DiskFull, match="also after taking 10 % toleration into account"):
        fitting_size(plan(100 * MIB), 90 * MIB - 1)


def test_an_image_that_became_smaller_is_told_in_kubevirt_s_words(
    options: LauncherOptions, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claim_disk, "count_free_bytes", lambda root: 23 * MIB)
    source = prepare_volumes(vmi(), options)["root"]
    assert os.stat(place / "disk.img").st_size == 23 * MIB
    assert source.note.startswith(
        f"PV size too small: expected {24 * MIB} B, found {23 * MIB} B. Using it anyway, it is within 10 % toleration"
    )
    assert prepare_volumes(vmi(), options)["root"].note == ""


@pytest.fixture
def coming(tmp_path: Path) -> LauncherOptions:
    """Of a launcher that awaits its guest."""
    return LauncherOptions(namespace="n", name="v", uid=UID, root=str(tmp_path), incoming="m-1")


def test_a_guest_that_comes_has_its_image_open_where_it_leaves(
    options: LauncherOptions, coming: LauncherOptions, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (place / "disk.img").write_bytes(b"x" * MIB)
    monkeypatch.setattr(claim_disk, "is_locked", lambda image, *, writes: writes)
    assert prepare_volumes(vmi(), coming)["root"].path == str(place / "disk.img")
    with pytest.raises(ClaimUnusable, match="open in another QEMU"):
        prepare_volumes(vmi(), options)


def test_a_guest_that_comes_finds_no_new_image_in_place_of_its_own(coming: LauncherOptions, place: Path) -> None:
    with pytest.raises(ClaimUnusable, match="is not in it on this node") as refused:
        prepare_volumes(vmi(), coming)
    assert "ReadWriteMany" in refused.value.remedy
    assert os.listdir(place) == []


def test_what_a_killed_launcher_left_half_made_is_made_anew(options: LauncherOptions, place: Path) -> None:
    (place / f".disk.img.{UID}").write_bytes(b"half")
    prepare_volumes(vmi(), options)
    assert os.listdir(place) == ["disk.img"]
    assert os.stat(place / "disk.img").st_size == 24 * MIB


def test_an_image_that_somebody_brought_meanwhile_is_not_replaced(
    options: LauncherOptions, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.fsync

    def bring(descriptor: int) -> None:
        (place / "disk.img").write_bytes(b"imported")
        real(descriptor)

    monkeypatch.setattr(blank_image.os, "fsync", bring)
    prepare_volumes(vmi(), options)
    assert (place / "disk.img").read_bytes() == b"imported"
    assert os.listdir(place) == ["disk.img"]


def test_a_fully_allocated_image_is_told_apart_from_a_sparse_one(options: LauncherOptions, place: Path) -> None:
    assert not prepare_volumes(vmi(), options)["root"].preallocated
    (place / "disk.img").write_bytes(os.urandom(MIB))
    assert prepare_volumes(vmi(), options)["root"].preallocated


def test_a_block_claim_without_its_device_is_told(options: LauncherOptions, tmp_path: Path) -> None:
    with pytest.raises(ClaimUnusable, match="neither found block device nor regular file for volume root"):
        prepare_volumes(vmi(volumeMode="Block"), options)
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/root").write_bytes(b"x")
    with pytest.raises(ClaimUnusable, match="but it's not a block device"):
        prepare_volumes(vmi(volumeMode="Block"), options)


def test_a_disk_knows_the_block_size_of_its_file_system(options: LauncherOptions, place: Path) -> None:
    size = os.statvfs(place).f_bsize
    assert prepare_volumes(vmi(), options)["root"].block_size == (size, size)


def host_vmi(**disk: Any) -> VirtualMachineInstance:
    volume = {"name": "root", "hostDisk": {"path": "/srv/vms/web.img", "type": "DiskOrCreate", **disk}}
    return vmi_with(with_volumes(volume), name="v", namespace="n", uid=UID)


def test_a_file_of_the_host_is_the_disk_under_its_own_name(options: LauncherOptions, place: Path) -> None:
    (place / "web.img").write_bytes(bytes(MIB))
    source = prepare_volumes(host_vmi(), options)["root"]
    assert (source.path, source.format) == (str(place / "web.img"), "raw")
    assert os.listdir(place) == ["web.img"]


def test_a_file_of_the_host_that_is_missing_is_not_made_by_the_launcher(options: LauncherOptions, place: Path) -> None:
    with pytest.raises(ClaimUnusable, match=r"hostDisk: web\.img does not exist .* use type: DiskOrCreate"):
        prepare_volumes(host_vmi(type="Disk"), options)
    assert os.listdir(place) == []


def test_a_link_in_a_directory_of_the_host_is_not_followed(options: LauncherOptions, place: Path) -> None:
    (place / "other.img").write_bytes(bytes(MIB))
    (place / "web.img").symlink_to("other.img")
    with pytest.raises(ClaimUnusable, match=r"web\.img is a link, which is not followed"):
        prepare_volumes(host_vmi(), options)

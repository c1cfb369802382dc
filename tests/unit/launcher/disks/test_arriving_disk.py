"""The place for a disk that comes with its guest, made for real in a directory: nothing that is there is destroyed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kvedge.launcher.disks import arriving_disk, claim_disk
from kvedge.launcher.disks.arriving_disk import accept_copies, check_device, drop_copies
from kvedge.launcher.disks.disk_plan import ClaimPlan
from kvedge.launcher.launcher_errors import ClaimUnusable, DiskFull
from kvedge.launcher.launcher_options import LauncherOptions
from kvedge.storage.arriving_mark import ARRIVING
from tests.support.values import replace

MIB = 1 << 20
OPTIONS = LauncherOptions(namespace="n", name="v", uid="u", incoming="m-1")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """The claim's file system, as the Pod has it mounted."""
    folder = tmp_path / "var/run/kubevirt-private/vmi-disks/data"
    folder.mkdir(parents=True)
    return folder


def a_plan(
    place: Path, *, copied: int = 24 * MIB, incoming: str = "m-1", run: str = "u", block: bool = False
) -> ClaimPlan:
    return ClaimPlan(
        volume="data",
        field="f",
        claim="new",
        block=block,
        directory=str(place),
        path=str(place / "disk.img"),
        size=32 * MIB,
        run=run,
        incoming=incoming,
        copied=copied,
    )


def test_the_image_is_sparse_as_large_as_the_guests_disk_and_no_disk_yet(place: Path) -> None:
    source = claim_disk.claim_disk(a_plan(place), OPTIONS)
    found = os.stat(source.path)
    assert (found.st_size, found.st_blocks) == (24 * MIB, 0)
    assert (place / ARRIVING).read_text() == "u m-1\n"


@pytest.mark.parametrize("changes", [{"copied": 0}, {"copied": 0, "incoming": ""}, {"run": "other"}])
def test_nobody_else_takes_it_for_a_disk(place: Path, changes: dict[str, object]) -> None:
    claim_disk.claim_disk(a_plan(place), OPTIONS)
    with pytest.raises(ClaimUnusable, match="unfinished copy of a disk of the VMI u"):
        claim_disk.claim_disk(replace(a_plan(place), **changes), OPTIONS)  # type: ignore[arg-type]


def test_the_next_attempt_of_the_same_vmi_finds_nothing_of_the_one_before(place: Path) -> None:
    claim_disk.claim_disk(a_plan(place, copied=32 * MIB), OPTIONS)
    (place / "disk.img").write_bytes(b"half" * MIB)
    claim_disk.claim_disk(a_plan(place, incoming="m-2"), OPTIONS)
    found = (place / "disk.img").stat()
    assert (found.st_size, found.st_blocks) == (24 * MIB, 0)
    assert (place / ARRIVING).read_text() == "u m-2\n"


def test_a_launcher_that_is_killed_while_it_writes_the_word_leaves_the_claim_as_it_was(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_args: object) -> int:
        raise KeyboardInterrupt

    claim_disk.claim_disk(a_plan(place), OPTIONS)
    with monkeypatch.context() as patched:
        patched.setattr(os, "write", killed)
        with pytest.raises(KeyboardInterrupt):
            claim_disk.claim_disk(a_plan(place, incoming="m-2"), OPTIONS)
    claim_disk.claim_disk(a_plan(place, incoming="m-2"), OPTIONS)
    assert (place / ARRIVING).read_text() == "u m-2\n"


def test_an_empty_image_is_used_and_one_with_data_never(place: Path) -> None:
    with (place / "disk.img").open("wb") as image:
        image.truncate(32 * MIB)
    claim_disk.claim_disk(a_plan(place), OPTIONS)
    assert (place / "disk.img").stat().st_size == 24 * MIB
    accept_copies(str(place).removesuffix("/var/run/kubevirt-private/vmi-disks/data"), ["data"])
    (place / "disk.img").write_bytes(b"a guest's")
    with pytest.raises(ClaimUnusable, match="holds data"):
        claim_disk.claim_disk(a_plan(place), OPTIONS)
    assert (place / "disk.img").read_bytes() == b"a guest's"
    assert os.listdir(place) == ["disk.img"]


def test_an_image_that_a_qemu_has_open_is_not_written_over(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    claim_disk.claim_disk(a_plan(place), OPTIONS)
    monkeypatch.setattr(arriving_disk, "is_locked", lambda *_args, **_more: True)
    with pytest.raises(ClaimUnusable, match="open in another QEMU"):
        claim_disk.claim_disk(a_plan(place, incoming="m-2"), OPTIONS)


def test_a_disk_that_does_not_fit_does_not_come(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claim_disk, "count_free_bytes", lambda _: 24 * MIB - 1)
    with pytest.raises(DiskFull, match=str(24 * MIB)):
        claim_disk.claim_disk(a_plan(place), OPTIONS)
    assert os.listdir(place) == []


@pytest.mark.parametrize("kind", ["link", "directory"])
def test_what_is_no_file_is_not_followed(place: Path, tmp_path: Path, kind: str) -> None:
    if kind == "link":
        (tmp_path / "victim").write_bytes(b"")
        (place / "disk.img").symlink_to(tmp_path / "victim")
    else:
        (place / "disk.img").mkdir()
    with pytest.raises(ClaimUnusable):
        claim_disk.claim_disk(a_plan(place), OPTIONS)
    assert ARRIVING not in os.listdir(place)


@pytest.mark.parametrize("at", [0, 1080, 0x10040], ids=["a table", "ext4", "btrfs"])
def test_a_device_on_which_something_begins_is_refused(tmp_path: Path, at: int) -> None:
    (tmp_path / "device").write_bytes(bytes(at) + b"_BHRfS_M" + bytes(MIB))
    device = os.open(tmp_path / "device", os.O_RDWR)
    try:
        with pytest.raises(ClaimUnusable, match="holds data"):
            check_device(device, a_plan(tmp_path, copied=MIB, block=True))
    finally:
        os.close(device)


@pytest.mark.parametrize(("size", "is_taken"), [(MIB, True), (MIB - 512, False)])
def test_an_empty_device_is_taken_when_it_is_large_enough(tmp_path: Path, size: int, *, is_taken: bool) -> None:
    (tmp_path / "device").write_bytes(bytes(size))
    device = os.open(tmp_path / "device", os.O_RDWR)
    try:
        if is_taken:
            check_device(device, a_plan(tmp_path, copied=MIB, block=True))
        else:
            with pytest.raises(ClaimUnusable, match=f"has {size} bytes"):
                check_device(device, a_plan(tmp_path, copied=MIB, block=True))
    finally:
        os.close(device)


def test_only_what_came_by_this_migration_is_dropped(place: Path, tmp_path: Path) -> None:
    claim_disk.claim_disk(a_plan(place), OPTIONS)
    drop_copies(str(tmp_path), ["data"], "m-2")
    assert sorted(os.listdir(place)) == [ARRIVING, "disk.img"]
    drop_copies(str(tmp_path), ["data"], "m-1")
    assert os.listdir(place) == []
    (place / "disk.img").write_bytes(b"a disk")
    drop_copies(str(tmp_path), ["data"], "m-1")
    assert os.listdir(place) == ["disk.img"]


def test_a_claim_that_is_not_there_is_no_reason_to_fail(tmp_path: Path) -> None:
    accept_copies(str(tmp_path), ["gone"])
    drop_copies(str(tmp_path), ["gone"], "m-1")


@pytest.mark.parametrize("is_device", [True, False], ids=["a device", "what is none"])
def test_what_began_on_a_device_begins_there_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_device: bool
) -> None:
    content = b"half" * MIB
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/data").write_bytes(content)
    monkeypatch.setattr(arriving_disk.stat, "S_ISBLK", lambda _: is_device)
    drop_copies(str(tmp_path), ["data"], "m-1")
    left = (tmp_path / "dev/data").read_bytes()
    assert left == (bytes(MIB) + content[MIB:] if is_device else content)


def test_an_empty_image_keeps_the_blocks_that_were_allocated_for_it(place: Path) -> None:
    with (place / "disk.img").open("wb") as image:
        os.posix_fallocate(image.fileno(), 0, 8 * MIB)
    claim_disk.claim_disk(a_plan(place, copied=4 * MIB), OPTIONS)
    found = (place / "disk.img").stat()
    assert (found.st_size, found.st_blocks * 512 >= 4 * MIB) == (4 * MIB, True)

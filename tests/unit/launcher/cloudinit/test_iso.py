"""ISO images, read back by pycdlib in each of the ways that a guest may read them."""

from __future__ import annotations

import io
import os
import stat
import time
from pathlib import Path

import pycdlib
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvedge.launcher.cloudinit.iso import IsoError, iso_image, write_iso

_FILES = {
    "meta-data": b"{}",
    "user-data": b"#cloud-config\n",
    "openstack/latest/meta_data.json": b"{}",
    "openstack/latest/user_data": b"x" * 5000,
}


def _read(image: bytes, kind: str) -> dict[str, bytes]:
    """All files by path; `kind` is rr_path, joliet_path or iso_path."""
    iso = pycdlib.PyCdlib()
    iso.open_fp(io.BytesIO(image))
    found: dict[str, bytes] = {}
    for folder, _, names in iso.walk(**{kind: "/"}):
        for name in names:
            path = f"{folder.rstrip('/')}/{name}"
            content = io.BytesIO()
            iso.get_file_from_iso_fp(content, **{kind: path})
            found[path.removeprefix("/")] = content.getvalue()
    iso.close()
    return found


@pytest.mark.parametrize("kind", ["rr_path", "joliet_path"])
def test_an_image_holds_the_files_under_their_own_names_for_unix_and_for_windows(kind: str) -> None:
    assert _read(iso_image("cidata", _FILES), kind) == _FILES


def test_an_image_has_plain_names_for_readers_that_know_no_extension() -> None:
    assert set(_read(iso_image("cidata", _FILES), "iso_path")) == {
        "META_DATA.;1",
        "USER_DATA.;1",
        "OPENSTACK/LATEST/META_DATA_JSON.;1",
        "OPENSTACK/LATEST/USER_DATA.;1",
    }


@pytest.mark.parametrize("label", ["cidata", "config-2"])
def test_an_image_carries_its_label_where_blkid_looks_for_it(label: str) -> None:
    image = iso_image(label, _FILES)
    assert image[32768:32774] == b"\x01CD001"
    assert image[32768 + 40 : 32768 + 72].decode().strip() == label


def test_the_same_files_give_the_same_bytes_at_another_time_in_another_time_zone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first = iso_image("cidata", _FILES)
    present = time.time()
    monkeypatch.setattr(time, "time", lambda: present + 86_400 * 400)
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        second = iso_image("cidata", dict(reversed(_FILES.items())))
    finally:
        monkeypatch.undo()
        time.tzset()
    assert first == second


@pytest.mark.parametrize("size", [1, 2048, 2049, 4097])
def test_an_image_is_whole_blocks_of_disks_with_large_ones_so_that_direct_io_can_read_it(size: int) -> None:
    image = iso_image("cidata", _FILES | {"more": b"x" * size})
    assert len(image) % 4096 == 0


@settings(max_examples=40)
@given(
    files=st.dictionaries(
        st.from_regex(r"[a-zA-Z0-9_.-]{1,60}", fullmatch=True).filter(lambda name: name.strip(".") != ""),
        st.binary(max_size=3000),
        max_size=60,
    )
)
def test_any_files_with_decent_names_come_back_as_they_went_in(files: dict[str, bytes]) -> None:
    image = iso_image("cfgdata", files)
    assert _read(image, "rr_path") == files
    assert image == iso_image("cfgdata", files)


def test_a_written_image_is_readable_by_its_owner_only_whatever_the_umask(tmp_path: Path) -> None:
    previous = os.umask(0)
    try:
        write_iso(tmp_path / "noCloud.iso", "cidata", _FILES)
    finally:
        os.umask(previous)
    assert stat.S_IMODE((tmp_path / "noCloud.iso").stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["noCloud.iso"]


def test_a_rewrite_replaces_the_image_and_whatever_a_killed_writer_left(tmp_path: Path) -> None:
    target = tmp_path / "noCloud.iso"
    target.write_bytes(b"old")
    (tmp_path / ".noCloud.iso.staged").write_bytes(b"half")
    write_iso(target, "cidata", _FILES)
    assert target.read_bytes() == iso_image("cidata", _FILES)
    assert [path.name for path in tmp_path.iterdir()] == ["noCloud.iso"]


def test_a_link_in_the_way_of_the_staged_file_is_not_followed(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_bytes(b"mine")
    (tmp_path / ".noCloud.iso.staged").symlink_to(victim)
    write_iso(tmp_path / "noCloud.iso", "cidata", _FILES)
    assert victim.read_bytes() == b"mine"


def test_a_failed_write_leaves_the_old_image_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "noCloud.iso"
    target.write_bytes(b"old")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(OSError, match="No space"):
        write_iso(target, "cidata", _FILES)
    assert target.read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["noCloud.iso"]


@pytest.mark.parametrize(
    ("label", "files"),
    [("cidata", {"l" * 65: b""}), ("l" * 33, {"meta-data": b""})],
    ids=["name too long", "label too long"],
)
def test_what_an_image_cannot_hold_is_an_error_that_names_the_image(label: str, files: dict[str, bytes]) -> None:
    with pytest.raises(IsoError, match=r"noCloud\.iso"):
        iso_image(label, files, "noCloud.iso")

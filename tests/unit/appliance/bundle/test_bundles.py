# Tests: kvedge/appliance/bundle/bundle_format.py, kvedge/appliance/bundle/bundle_reader.py
# Tests: kvedge/appliance/bundle/bundle_writer.py
"""Bundles: the same bytes for the same files, everything verified before anything is written, nothing outside."""

from __future__ import annotations

import contextlib
import hashlib
import io
import subprocess
import tarfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kvedge.appliance.bundle.bundle_format import BundleError, check_member, read_sums, sums_text
from kvedge.appliance.bundle.bundle_reader import check_bundle, unpack_bundle
from kvedge.appliance.bundle.bundle_writer import write_bundle
from tests.support.needs import NEEDS_ROOT


@pytest.fixture
def sources(tmp_path: Path) -> dict[str, Path]:
    members = {
        "bin/kvedge": b"program" * 99,
        "images/fedora.qcow2": b"QFI\xfb" + bytes(4000),
        "manifests/a/vm.yaml": b"a",
    }
    found = {}
    for number, (name, data) in enumerate(members.items()):
        found[name] = tmp_path / f"source-{number}"
        found[name].write_bytes(data)
    return found


@pytest.fixture
def bundle(tmp_path: Path, sources: dict[str, Path]) -> Path:
    path = tmp_path / "site.kvb"
    write_bundle(path, sources)
    return path


def files_below(directory: Path) -> dict[str, bytes]:
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def test_the_same_files_give_the_same_bundle(tmp_path: Path, sources: dict[str, Path], bundle: Path) -> None:
    for path in sources.values():
        path.touch()
        path.chmod(0o600)
    second = tmp_path / "second.kvb"
    digest = write_bundle(second, dict(reversed(sources.items())))
    assert second.read_bytes() == bundle.read_bytes()
    assert check_bundle(second, digest).files == ["images/fedora.qcow2", "manifests/a/vm.yaml"]


def test_plain_tools_can_unpack_and_check_it(tmp_path: Path, bundle: Path) -> None:
    (tmp_path / "out").mkdir()
    subprocess.run(["tar", "xf", bundle], cwd=tmp_path / "out", check=True)
    subprocess.run(["sha256sum", "--quiet", "-c", "SHA256SUMS"], cwd=tmp_path / "out", check=True)
    assert (tmp_path / "out/bin/kvedge").stat().st_mode & 0o777 == 0o755


def test_what_was_packed_lies_in_the_drop_in_directories_afterwards(tmp_path: Path, bundle: Path) -> None:
    box = tmp_path / "box"
    (box / "manifests/a").mkdir(parents=True)
    (box / "manifests/a/vm.yaml").write_bytes(b"older")
    written = unpack_bundle(check_bundle(bundle), box)
    assert sorted(written) == ["bundle/kvedge", "images/fedora.qcow2", "manifests/a/vm.yaml"]
    assert files_below(box)["manifests/a/vm.yaml"] == b"a"
    assert set(files_below(box)) == set(written)
    assert (box / "bundle/kvedge").stat().st_mode & 0o777 == 0o755
    assert (box / "manifests/a/vm.yaml").stat().st_mode & 0o777 == 0o600


def test_a_bundle_that_is_cut_off_anywhere_is_refused(tmp_path: Path, bundle: Path) -> None:
    data = bundle.read_bytes()
    # What follows the last member's content is the padding of tar.
    end = data.rindex(b"a" + bytes(511)) + 1
    cut = tmp_path / "cut.kvb"
    for size in [*range(0, end, 499), end - 1]:
        cut.write_bytes(data[:size])
        with pytest.raises(BundleError):
            check_bundle(cut)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(position=st.integers(0, 9000), flip=st.integers(1, 255))
def test_no_changed_byte_changes_what_is_unpacked(tmp_path: Path, bundle: Path, position: int, flip: int) -> None:
    data = bytearray(bundle.read_bytes())
    data[position % len(data)] ^= flip
    changed = tmp_path / "changed.kvb"
    changed.write_bytes(data)
    with contextlib.suppress(BundleError):
        # A byte of a header that means nothing: the content is what it was.
        assert check_bundle(changed).digests == check_bundle(bundle).digests


def crafted(path: Path, members: list[tuple[tarfile.TarInfo, bytes]], sums: dict[str, str] | None = None) -> Path:
    """A bundle that kvedge would never pack, with right checksums."""
    listed = sums or {info.name: hashlib.sha256(data).hexdigest() for info, data in members}
    text = "".join(f"{digest}  {name}\n" for name, digest in listed.items()).encode()
    with tarfile.open(path, "w") as archive:
        for info, data in [(tarfile.TarInfo("SHA256SUMS"), text), *members]:
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return path


def member(
    name: str, data: bytes = b"x", kind: bytes = tarfile.REGTYPE, link: str = ""
) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, link
    return info, data if kind == tarfile.REGTYPE else b""


DESCRIPTION = member("bundle.json", b'{"format":1,"version":"0.1.0"}')


@pytest.mark.parametrize(
    "hostile",
    [
        pytest.param(member("images/../../etc/passwd"), id="upwards"),
        pytest.param(member("/etc/passwd"), id="absolute"),
        pytest.param(member("images/a/b"), id="a directory below images"),
        pytest.param(member("images/names"), id="an entry of the image store's own"),
        pytest.param(member("manifests/.hidden.yaml"), id="hidden"),
        pytest.param(member("state/kvedge.db"), id="another directory"),
        pytest.param(member("images/a", kind=tarfile.SYMTYPE, link="/etc/shadow"), id="a symbolic link"),
        pytest.param(member("images/a", kind=tarfile.LNKTYPE, link="SHA256SUMS"), id="a hard link"),
        pytest.param(member("manifests/a", kind=tarfile.DIRTYPE), id="a directory"),
        pytest.param(member("images/a", kind=tarfile.FIFOTYPE), id="a fifo"),
        pytest.param(member("images/a\nb"), id="a line break"),
    ],
)
def test_members_that_lead_elsewhere_are_refused(tmp_path: Path, hostile: tuple[tarfile.TarInfo, bytes]) -> None:
    path = crafted(tmp_path / "hostile.kvb", [DESCRIPTION, hostile])
    with pytest.raises(BundleError):
        check_bundle(path)


def test_a_member_twice_or_without_a_checksum_is_refused(tmp_path: Path) -> None:
    twice = crafted(tmp_path / "a.kvb", [DESCRIPTION, member("images/a"), member("images/a")])
    with pytest.raises(BundleError, match="twice"):
        check_bundle(twice)
    sums = {"bundle.json": "0" * 64}
    with pytest.raises(BundleError, match="not what SHA256SUMS says"):
        check_bundle(crafted(tmp_path / "b.kvb", [DESCRIPTION], sums))


def test_a_newer_format_is_refused_with_the_version_to_use(tmp_path: Path) -> None:
    path = crafted(tmp_path / "new.kvb", [member("bundle.json", b'{"format":2,"version":"9.9.9"}')])
    with pytest.raises(BundleError, match=r"kvedge 9\.9\.9"):
        check_bundle(path)


def test_another_file_than_the_one_that_was_named_is_refused(bundle: Path) -> None:
    with pytest.raises(BundleError, match="not the bundle that was named"):
        check_bundle(bundle, "0" * 64)


def test_a_link_in_the_data_directory_is_not_followed_and_nothing_changes(tmp_path: Path, bundle: Path) -> None:
    box, outside = tmp_path / "box", tmp_path / "outside"
    (box / "manifests").mkdir(parents=True)
    outside.mkdir()
    (box / "manifests/a").symlink_to(outside)
    with pytest.raises(BundleError, match="manifests/a in the data directory cannot be used"):
        unpack_bundle(check_bundle(bundle), box)
    assert files_below(box) == {}
    assert files_below(outside) == {}


def test_a_bundle_that_changes_after_the_check_changes_nothing(tmp_path: Path, bundle: Path) -> None:
    checked = check_bundle(bundle)
    bundle.write_bytes(bundle.read_bytes().replace(b"QFI\xfb", b"evil"))
    with pytest.raises(BundleError, match="not what SHA256SUMS says"):
        unpack_bundle(checked, tmp_path / "box")
    assert files_below(tmp_path / "box") == {}


@NEEDS_ROOT
def test_a_full_disk_changes_nothing(tmp_path: Path, bundle: Path) -> None:
    box = tmp_path / "small"
    box.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4k,nr_inodes=20", "tmpfs", box], check=True)
    try:
        with pytest.raises(OSError, match="No space left"):
            unpack_bundle(check_bundle(bundle), box)
        assert files_below(box) == {}
    finally:
        subprocess.run(["umount", box], check=True)


def test_a_file_that_is_missing_is_named_and_no_bundle_is_left(tmp_path: Path, sources: dict[str, Path]) -> None:
    sources["images/gone.img"] = tmp_path / "gone.img"
    with pytest.raises(BundleError, match=r"gone\.img cannot be read"):
        write_bundle(tmp_path / "out.kvb", sources)
    assert not list(tmp_path.glob("*out.kvb*"))


@given(st.dictionaries(st.from_regex(r"(images|manifests)/[a-z][a-z0-9. -]{0,20}", fullmatch=True), st.just("0" * 64)))
def test_checksums_are_read_as_they_are_written(digests: dict[str, str]) -> None:
    assert read_sums(sums_text(digests | {"bundle.json": "1" * 64})) == digests | {"bundle.json": "1" * 64}


@given(st.text(max_size=60))
def test_no_name_that_is_accepted_leads_out(name: str) -> None:
    try:
        check_member(name)
    except BundleError:
        return
    assert ".." not in name.split("/")
    assert not name.startswith("/")

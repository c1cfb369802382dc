"""Layers made to break out of the tree they are unpacked into; and honest ones, which must come out right."""

from __future__ import annotations

import io
import os
import stat
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from kvedge.storage.image_errors import BadImage
from kvedge.storage.images.layer_unpack import LayerUnpacker, UnpackLimits
from tests.support.small_images import directory, file, layer, link, special


class _Tree:
    """An empty tree beside a file that nobody may touch."""

    def __init__(self, path: Path) -> None:
        self.path = path / "tree"
        self.outside = path / "outside"
        self.path.mkdir()
        self.outside.mkdir()
        (self.outside / "secret").write_text("untouched")
        self._root = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
        self.unpacker = LayerUnpacker(self._root, UnpackLimits())

    def apply(self, *entries: tuple[tarfile.TarInfo, bytes]) -> None:
        self.unpacker.apply(io.BytesIO(layer(entries)))

    def close(self) -> None:
        os.close(self._root)
        assert (self.outside / "secret").read_text() == "untouched"
        assert os.listdir(self.outside) == ["secret"]


@pytest.fixture
def tree(tmp_path: Path) -> Iterator[_Tree]:
    made = _Tree(tmp_path)
    yield made
    made.close()


def test_an_honest_layer_comes_out_as_it_was_packed(tree: _Tree) -> None:
    owned, data = file("disk/disk.img", b"x" * 1000, 0o440)
    owned.uid, owned.gid, owned.mtime = 107, 108, 1_700_000_000
    tree.apply(
        directory("disk", 0o750), (owned, data), link("a", "disk/disk.img"), link("b", "disk/disk.img", hard=True)
    )

    facts = (tree.path / "disk/disk.img").stat()
    assert (facts.st_uid, facts.st_gid, stat.S_IMODE(facts.st_mode), facts.st_mtime) == (107, 108, 0o440, 1_700_000_000)
    assert (tree.path / "disk").stat().st_mode & 0o7777 == 0o750
    assert os.readlink(tree.path / "a") == "disk/disk.img"
    assert (tree.path / "b").stat().st_ino == facts.st_ino


def test_a_name_with_dots_is_refused(tree: _Tree) -> None:
    with pytest.raises(BadImage, match="climbs out"):
        tree.apply(file("a/../../outside/secret", b"changed"))


def test_an_absolute_name_lands_in_the_tree(tree: _Tree) -> None:
    tree.apply(file("/etc/passwd", b"root"))

    assert (tree.path / "etc/passwd").read_bytes() == b"root"


@pytest.mark.parametrize("target", ["../outside", "/../../outside", "{outside}", "/proc/self/cwd", "/proc/self/root"])
def test_writing_through_a_link_stays_in_the_tree(tree: _Tree, target: str) -> None:
    try:
        tree.apply(link("way", target.format(outside=tree.outside)), file("way/secret", b"changed"))
    except BadImage:
        return
    found = [path for path in tree.path.rglob("secret") if path.is_file()]
    assert [path.read_bytes() for path in found] == [b"changed"]


def test_a_link_within_the_tree_is_followed_as_the_container_would(tree: _Tree) -> None:
    tree.apply(directory("usr/lib"), link("lib", "usr/lib"), file("lib/libc.so", b"elf"))

    assert (tree.path / "usr/lib/libc.so").read_bytes() == b"elf"
    assert (tree.path / "lib").is_symlink()


def test_a_file_replaces_a_link_instead_of_writing_to_where_it_leads(tree: _Tree) -> None:
    tree.apply(link("f", str(tree.outside / "secret")), file("f", b"mine"))

    assert not (tree.path / "f").is_symlink()
    assert (tree.path / "f").read_bytes() == b"mine"


@pytest.mark.parametrize("target", ["../outside/secret", "/etc/passwd", "nowhere"])
def test_a_hard_link_to_anything_but_a_file_of_the_image_is_refused(tree: _Tree, target: str) -> None:
    with pytest.raises(BadImage):
        tree.apply(link("h", target, hard=True))
    assert not (tree.path / "h").exists()


def test_a_hard_link_behind_a_link_out_of_the_tree_is_refused(tree: _Tree) -> None:
    with pytest.raises(BadImage):
        tree.apply(link("way", str(tree.outside)), link("h", "way/secret", hard=True))


def test_a_hard_link_to_a_link_links_the_link_and_not_what_it_names(tree: _Tree) -> None:
    tree.apply(link("way", str(tree.outside / "secret")), link("h", "way", hard=True), file("h", b"mine"))

    assert (tree.path / "h").read_bytes() == b"mine"


def test_devices_and_fifos_are_left_out_and_counted(tree: _Tree) -> None:
    tree.apply(special("sda", tarfile.BLKTYPE), special("null", tarfile.CHRTYPE), special("pipe", tarfile.FIFOTYPE))

    assert os.listdir(tree.path) == []
    assert tree.unpacker.skipped == 3


def test_set_user_id_bits_are_dropped_and_the_sticky_one_is_kept(tree: _Tree) -> None:
    tree.apply(file("su", b"", 0o6755), directory("tmp", 0o1777))

    assert (tree.path / "su").stat().st_mode & 0o7777 == 0o755
    assert (tree.path / "tmp").stat().st_mode & 0o7777 == 0o1777


def test_a_whiteout_removes_what_a_lower_layer_put_there(tree: _Tree) -> None:
    tree.apply(file("etc/a", b"1"), directory("etc/dir"), file("etc/dir/x", b""), file("etc/b", b"2"))
    tree.apply(file("etc/.wh.a", b""), file("etc/.wh.dir", b""))

    assert os.listdir(tree.path / "etc") == ["b"]


def test_an_opaque_whiteout_empties_a_directory_but_keeps_what_its_own_layer_brings(tree: _Tree) -> None:
    tree.apply(file("etc/a", b"1"), file("etc/sub/b", b"2"))
    tree.apply(file("etc/sub/new", b"3"), file("etc/.wh..wh..opq", b""), file("etc/c", b"4"))

    assert sorted(str(path.relative_to(tree.path)) for path in tree.path.rglob("*")) == [
        "etc",
        "etc/c",
        "etc/sub",
        "etc/sub/new",
    ]


def test_a_whiteout_of_dots_is_refused(tree: _Tree) -> None:
    with pytest.raises(BadImage, match="whiteout"):
        tree.apply(file("etc/.wh...", b""))


def test_a_whiteout_behind_a_link_removes_nothing_outside(tree: _Tree) -> None:
    tree.apply(link("way", str(tree.outside)))
    try:
        tree.apply(file("way/.wh.secret", b""))
    except BadImage:
        return


def test_a_directory_where_a_file_was_and_the_other_way_round(tree: _Tree) -> None:
    tree.apply(file("a", b"file"), directory("b"), file("b/inside", b""))
    tree.apply(directory("a"), file("b", b"file"))

    assert (tree.path / "a").is_dir()
    assert (tree.path / "b").read_bytes() == b"file"


def test_a_file_behind_a_file_is_refused(tree: _Tree) -> None:
    with pytest.raises(BadImage, match="no directory"):
        tree.apply(file("a", b""), file("a/b", b""))


def test_more_bytes_or_files_than_allowed_are_refused(tmp_path: Path) -> None:
    root = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with pytest.raises(BadImage, match="more than"):
            LayerUnpacker(root, UnpackLimits(total_bytes=100)).apply(io.BytesIO(layer([file("a", b"x" * 101)])))
        with pytest.raises(BadImage, match="too many"):
            LayerUnpacker(root, UnpackLimits(entries=1)).apply(io.BytesIO(layer([directory("a"), directory("b")])))
    finally:
        os.close(root)


def test_a_path_without_end_is_refused(tree: _Tree) -> None:
    with pytest.raises(BadImage, match="too long"):
        tree.apply(directory("/".join(["d"] * 500)))
    with pytest.raises(BadImage, match="too long"):
        tree.apply(file("n" * 300, b""))


def test_zeros_take_no_space(tree: _Tree) -> None:
    tree.apply(file("disk.img", bytes(8 << 20) + b"end"))

    facts = (tree.path / "disk.img").stat()
    assert facts.st_size == (8 << 20) + 3
    assert facts.st_blocks * 512 < 1 << 20


def test_an_owner_that_does_not_exist_is_refused(tree: _Tree) -> None:
    info, data = file("a", b"")
    info.uid = 2**40
    with pytest.raises(BadImage, match="owner"):
        tree.apply((info, data))


def test_directories_that_only_paths_and_links_name_are_counted(tmp_path: Path) -> None:
    root_path = tmp_path / "tree"
    root_path.mkdir()
    root = os.open(root_path, os.O_RDONLY | os.O_DIRECTORY)
    entries = [link("l", "/".join(["d"] * 100)), file("l/f", b"")]
    try:
        with pytest.raises(BadImage, match="too many files"):
            LayerUnpacker(root, UnpackLimits(entries=50)).apply(io.BytesIO(layer(entries)))
    finally:
        os.close(root)
    assert sum(len(folders) for _, folders, _ in os.walk(root_path)) <= 50


def test_an_opaque_whiteout_reaches_lower_content_behind_a_link(tree: _Tree) -> None:
    tree.apply(file("usr/lib/old", b"1"), link("lib", "usr/lib"))
    tree.apply(file("usr/lib/new", b"2"), file("lib/.wh..wh..opq", b""), file("lib/.wh.new", b""))

    assert os.listdir(tree.path / "usr/lib") == ["new"]


def test_an_opaque_whiteout_that_comes_again_keeps_what_came_meanwhile(tree: _Tree) -> None:
    tree.apply(file("etc/a", b"1"), file("etc/deep/er/b", b"1"))
    tree.apply(
        file("etc/.wh..wh..opq", b""),
        file("etc/deep/er/c", b"2"),
        file(".wh..wh..opq", b""),
        file("etc/.wh..wh..opq", b""),
    )

    found = sorted(str(path.relative_to(tree.path)) for path in tree.path.rglob("*"))
    assert found == ["etc", "etc/deep", "etc/deep/er", "etc/deep/er/c"]

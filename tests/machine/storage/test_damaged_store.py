"""Each small file of the store damaged in each way: the store goes on, says so, and loses no image for it."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from kvedge.storage.image_errors import ImageNotFound, StoreError
from kvedge.storage.images.image_import import import_file
from kvedge.storage.images.image_names import parse_image_name
from kvedge.storage.images.image_pull import pull_image
from kvedge.storage.images.image_records import ASIDE, name_file
from kvedge.storage.images.image_store import ImageStore
from tests.support.hostile_archives import as_archive, header
from tests.support.slow_registry import played_registry

Damage = Callable[[Path], object]


def _directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _replaced(old: bytes, new: bytes) -> Damage:
    def change(path: Path) -> None:
        content = path.read_bytes()
        assert old in content
        path.write_bytes(content.replace(old, new))

    return change


_DAMAGES: dict[str, Damage] = {
    "empty": lambda path: path.write_bytes(b""),
    "cut": lambda path: path.write_bytes(path.read_bytes()[:-20]),
    "zeros": lambda path: path.write_bytes(bytes(path.stat().st_size)),
    "rubbish": lambda path: path.write_bytes(b"\xff\xfe{rubbish"),
    "another document": lambda path: path.write_bytes(b"[]"),
    "without its fields": lambda path: path.write_bytes(b"{}"),
    "a digest that climbs out": _replaced(b"sha256:", b"sha256:../../"),
    "a format that is a text": _replaced(b'"format":1', b'"format":"1"'),
    "a directory in its place": _directory,
}


def _import(store: ImageStore, folder: Path, name: str) -> Path:
    """A small image of its own; returns the archive."""
    archive = folder / f"{name}.tar"
    archive.write_bytes(as_archive(header(name.encode()) + bytes(1024)))
    import_file(store, archive, f"local/{name}:1")
    return archive


def _file(store: ImageStore, which: str, name: str) -> Path:
    reference = str(parse_image_name(f"local/{name}:1"))
    if which == "name":
        return store.root / "names" / name_file(reference)
    return store.resolve(reference).tree.parent / "image.json"


@pytest.mark.parametrize("damage", _DAMAGES)
@pytest.mark.parametrize("which", ["name", "image"])
@pytest.mark.parametrize("held", [True, False])
def test_a_damaged_record_is_put_aside_and_everything_else_goes_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, which: str, damage: str, held: bool
) -> None:
    store = ImageStore(tmp_path / "images")
    broken, _ = _import(store, tmp_path, "broken"), _import(store, tmp_path, "whole")
    tree = store.resolve("local/broken:1").tree
    if held:
        store.hold("local/broken:1", "pod-1")
    inode = (tree / "broken").stat().st_ino
    path = _file(store, which, "broken")
    _DAMAGES[damage](path)

    # As after a start: another process reads it.
    store = ImageStore(tmp_path / "images")
    with caplog.at_level(logging.ERROR):
        assert [image.name for image in store.list()] == ["docker.io/local/whole:1"]
    with pytest.raises(ImageNotFound):
        store.resolve("local/broken:1")
    store.release("pod-9")
    _import(store, tmp_path, "third")
    assert store.list_damaged() == (path.with_name(f"{path.name}{ASIDE}"),)
    assert "put aside" in caplog.text
    # Nothing that a damaged file may stand for is removed.
    assert (tree / "broken").exists()

    import_file(store, broken, "local/broken:1")
    assert store.resolve("local/broken:1").tree == tree
    assert store.list_damaged() == ()
    if held:
        # Containers run in it.
        assert (tree / "broken").stat().st_ino == inode
        store.release("pod-1")
    store.remove("local/broken:1")
    assert not tree.exists()


@pytest.mark.parametrize("which", ["name", "image"])
def test_a_pull_brings_a_damaged_image_back(tmp_path: Path, which: str) -> None:
    store = ImageStore(tmp_path / "images")
    with played_registry() as registry:
        image = pull_image(store, registry.reference)
        path = image.tree.parent / "image.json"
        if which == "name":
            path = store.root / "names" / name_file(image.name)
        path.write_bytes(b"{")
        assert store.list() == []

        assert pull_image(store, registry.reference).id == image.id
    assert store.list_damaged() == ()


def test_the_name_of_an_image_that_is_damaged_can_be_removed_and_its_files_go_with_it(tmp_path: Path) -> None:
    store = ImageStore(tmp_path / "images")
    _import(store, tmp_path, "broken")
    tree = store.resolve("local/broken:1").tree
    _file(store, "image", "broken").write_bytes(b"{")

    store.remove("local/broken:1")
    assert not tree.parent.exists()
    with pytest.raises(ImageNotFound):
        store.remove("local/broken:1")


def test_all_records_damaged_at_once_leave_a_store_that_works(tmp_path: Path) -> None:
    store = ImageStore(tmp_path / "images")
    _import(store, tmp_path, "a")
    _import(store, tmp_path, "b")
    for path in [*store.root.glob("names/*.json"), *store.root.glob("images/*/image.json")]:
        path.write_bytes(b"")

    assert store.list() == []
    _import(store, tmp_path, "a")
    assert [image.name for image in store.list()] == ["docker.io/local/a:1"]
    shutil.rmtree(store.root)


def test_a_record_of_a_newer_version_is_left_alone_whatever_it_holds(tmp_path: Path) -> None:
    store = ImageStore(tmp_path / "images")
    _import(store, tmp_path, "newer")
    path = _file(store, "name", "newer")
    path.write_bytes(b'{"format": 2, "name": ["what", "comes"]}')

    with pytest.raises(StoreError, match="newer kvedge"):
        store.resolve("local/newer:1")
    assert [str(error) for error in store.newer()] == [
        f"the image store's file {path} was written by a newer kvedge; use that version"
    ]
    assert store.list() == []
    assert path.exists()

# Tests: kvedge/storage/images/image_records.py, kvedge/storage/images/image_store.py
"""A store in which a newer kvedge has written: what it wrote is left alone, and all else goes on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kvedge.storage.image_errors import StoreError
from kvedge.storage.images.image_manifest import ImageConfig
from kvedge.storage.images.image_names import parse_image_name
from kvedge.storage.images.image_records import Image, name_file
from kvedge.storage.images.image_rules import Origin
from kvedge.storage.images.image_store import ImageStore, NewImage


def _add(store: ImageStore, name: str, number: int) -> Image:
    with store.make_staging() as staging:
        tree = staging / "image" / "tree"
        tree.mkdir(parents=True)
        image_id = f"sha256:{number:064x}"
        return store.add(
            NewImage(image_id, "disk", ImageConfig(diff_ids=()), tree), parse_image_name(name), Origin.IMPORTED
        )


def _make_newer(path: Path) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), "format": 99}))


@pytest.mark.parametrize("record", ["name", "image"])
def test_an_image_of_a_newer_kvedge_keeps_no_other_from_being_used(tmp_path: Path, record: str) -> None:
    store = ImageStore(tmp_path)
    newer, _ = _add(store, "newer:1", 1), _add(store, "other:1", 2)
    path = tmp_path / "names" / name_file(newer.name) if record == "name" else newer.tree.parent / "image.json"
    _make_newer(path)

    assert [image.name for image in store.list()] == ["docker.io/library/other:1"]
    assert [str(path) in str(error) for error in store.newer()] == [True]
    _add(store, "third:1", 3)
    store.hold("other:1", "pod")
    store.release("pod")
    assert newer.tree.is_dir()
    with pytest.raises(StoreError, match="newer kvedge"):
        store.resolve("newer:1")

# Tests: kvedge/standalone/drop_ins/image_drop_ins.py, kvedge/standalone/drop_ins/manifest_drop_ins.py
"""Manifests that are dropped beside images wait for these: otherwise their VMs would ask registries for them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kvedge.kube.errors import NotFound
from kvedge.standalone.drop_ins.image_drop_ins import ImageDropIns
from kvedge.standalone.drop_ins.manifest_drop_ins import IMAGE_WAIT_SECONDS, ManifestDropIns
from kvedge.storage.images.image_store import ImageStore


class Server:
    """Keeps what is applied; knows one kind."""

    def __init__(self) -> None:
        self.applied: list[str] = []

    def request(self, method: str, path: str, body: Any = None, *_: Any) -> Any:
        if method == "PATCH":
            self.applied.append(path.rpartition("/")[2])
            return body
        if path == "/api/v1":
            return {"resources": [{"name": "configmaps", "kind": "ConfigMap", "namespaced": True}]}
        raise NotFound(404, "NotFound", path)


class Told:
    """Collects what would be said of files."""

    def __init__(self) -> None:
        self.bads: list[str] = []

    def tell_success(self, path: Path, reason: str, message: str) -> None: ...

    def tell_fault(self, path: Path, reason: str, message: str) -> None:
        self.bads.append(message)

    def forget(self, path: Path) -> None: ...


class Site:
    """A data directory with both kinds of files, and a clock that only this test moves."""

    def __init__(self, root: Path) -> None:
        self.now = 1000.0
        self.told = Told()
        self.server = Server()
        store = ImageStore(root / "images")
        self.images = ImageDropIns(store, root / "state/image-drop-ins.json", self.told)  # type: ignore[arg-type]
        self.manifests = ManifestDropIns(
            root / "manifests",
            self.server,  # type: ignore[arg-type]
            self.told,  # type: ignore[arg-type]
            self.images.not_taken_yet,
            lambda: self.now,
        )
        (root / "state").mkdir()
        (root / "images").mkdir(mode=0o755)
        (root / "manifests").mkdir(mode=0o700)
        (root / "manifests/a.yaml").write_text("{apiVersion: v1, kind: ConfigMap, metadata: {name: shop}}")

    def look(self, *, manifests: bool = True, images: bool = False) -> None:
        """Twice, as a file must lie still for one look."""
        for _ in range(2):
            if images:
                self.images.look(lambda: None)
            if manifests:
                self.manifests.look(lambda: None)


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def drop_image(site: Site, name: str, content: bytes) -> None:
    (site.images.directory / name).write_bytes(content)


def test_a_manifest_is_applied_at_once_where_no_image_is_to_come(site: Site) -> None:
    site.look()
    assert "shop" in site.server.applied


def test_a_manifest_waits_until_an_image_that_was_dropped_has_been_imported(site: Site) -> None:
    drop_image(site, "guest.img", bytes(1 << 16))
    site.look()
    assert site.server.applied == []
    site.look(images=True)
    assert site.told.bads == []
    assert site.images.not_taken_yet() == []
    site.look()
    assert "shop" in site.server.applied


def test_an_image_that_cannot_be_imported_holds_nothing_back(site: Site) -> None:
    drop_image(site, "What a name!.qcow2", b"x")
    site.look(images=True)
    assert len(site.told.bads) == 1
    site.look()
    assert "shop" in site.server.applied


def test_an_image_that_is_copied_for_ever_holds_manifests_back_for_a_while_only(site: Site) -> None:
    drop_image(site, "guest.img", bytes(1 << 16))
    site.look()
    site.now += IMAGE_WAIT_SECONDS - 1
    site.look()
    assert site.server.applied == []
    site.now += 2
    site.look()
    assert "shop" in site.server.applied


def test_an_image_that_comes_later_holds_back_what_comes_after_it(site: Site) -> None:
    site.look()
    drop_image(site, "guest.img", bytes(1 << 16))
    (site.manifests.directory / "b.yaml").write_text("{apiVersion: v1, kind: ConfigMap, metadata: {name: later}}")
    site.look()
    assert "later" not in site.server.applied
    site.look(images=True)
    site.look()
    assert "later" in site.server.applied

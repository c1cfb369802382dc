"""How pulls of one repository follow each other."""

from __future__ import annotations

import fcntl
from pathlib import Path
from typing import Any

import pytest

from kvedge.storage.images import image_pull
from kvedge.storage.images.image_pull import pull_image
from kvedge.storage.images.image_store import ImageStore
from kvedge.storage.images.registry_pace import Pace, PaceLimits


def is_locked(path: Path) -> bool:
    with path.open() as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def test_the_wait_for_another_download_does_not_count_for_the_registry_s_pace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = ImageStore(tmp_path)
    had_turn: list[bool] = []

    def begun(registry: str, limits: PaceLimits) -> Pace:
        had_turn.extend(is_locked(path) for path in (tmp_path / "partial").glob("*.lock"))
        return Pace(registry, limits)

    def pulled(store: ImageStore, client: Any, *rest: Any) -> str:
        return str(client.name)

    monkeypatch.setattr(image_pull, "Pace", begun)
    monkeypatch.setattr(image_pull, "_pull", pulled)
    assert str(pull_image(store, "registry.example/a/b:1")) == "registry.example/a/b:1"
    assert had_turn == [True]

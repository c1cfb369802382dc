"""What a volume takes of this host's disk is what is allocated, not what is promised."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kvedge.client.volumes import volume_usage
from kvedge.client.volumes.volume_usage import bytes_text, read_usage
from kvedge.resources.codec import decode
from kvedge.resources.types.storage import PersistentVolume


def volume(**source: Any) -> PersistentVolume:
    return decode(PersistentVolume, {"metadata": {"name": "pv"}, "spec": source})


def test_a_sparse_image_takes_what_was_written(tmp_path: Path) -> None:
    with (tmp_path / "disk.img").open("wb") as image:
        image.write(b"x" * 8192)
        image.truncate(64 << 20)
    (tmp_path / "link").symlink_to("/etc/passwd")
    usage = read_usage(volume(local={"path": str(tmp_path)}))
    assert usage is not None
    assert 8192 <= usage.used < 1 << 20
    assert usage.apparent >= 64 << 20


def test_a_volume_of_another_host_or_kind_is_not_counted(tmp_path: Path) -> None:
    assert read_usage(volume(local={"path": str(tmp_path / "none")})) is None
    assert read_usage(volume(csi={"driver": "x"})) is None


def test_counting_has_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in "abc":
        (tmp_path / name).touch()
    monkeypatch.setattr(volume_usage, "_MOST_FILES", 2)
    usage = read_usage(volume(hostPath={"path": str(tmp_path)}))
    assert usage is not None
    assert usage.partial


@pytest.mark.parametrize(("count", "text"), [(0, "0 B"), (1536, "1.5 KiB"), (20 << 20, "20 MiB"), (3 << 40, "3.0 TiB")])
def test_bytes_are_written_for_people(count: int, text: str) -> None:
    assert bytes_text(count) == text

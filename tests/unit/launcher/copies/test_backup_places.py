# Tests: kvedge/launcher/copies/backup_images.py
"""A backup's images come into the claim that was handed over, whatever links are in that."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kvedge.launcher.copies.backup_images import BackupImages
from kvedge.launcher.copies.backup_plan import WantedBackup
from kvedge.launcher.launcher_errors import BadRequest
from kvedge.resources.disks.hotplug_places import HOTPLUG_DIRECTORY


class Unreached:
    """A session that nothing asks before there is a directory."""

    @property
    def bitmaps(self) -> None:
        raise RuntimeError("the directory is there")


@pytest.fixture
def claim(tmp_path: Path) -> Path:
    made = tmp_path / "root" / HOTPLUG_DIRECTORY.lstrip("/") / "usb"
    made.mkdir(parents=True)
    return made


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    made = tmp_path / "elsewhere"
    (made / "monday").mkdir(parents=True)
    for place in (made, made / "monday"):
        (place / "precious").write_text("x")
    return made


def prepare(tmp_path: Path) -> None:
    wanted = WantedBackup(target="usb", directory="web/monday", name="monday", vm="web")
    session: Any = Unreached()
    images = BackupImages(session, wanted, str(tmp_path / "root"))
    images.prepare([])


@pytest.mark.parametrize("to", ["elsewhere", "elsewhere/monday", "elsewhere/nothing"])
@pytest.mark.parametrize("link", ["web", "web/monday"])
def test_a_link_in_the_claim_is_refused_and_nothing_behind_it_is_touched(
    tmp_path: Path, claim: Path, elsewhere: Path, link: str, to: str
) -> None:
    (claim / link).parent.mkdir(exist_ok=True)
    (claim / link).symlink_to(tmp_path / to)
    before = sorted(elsewhere.rglob("*"))
    with pytest.raises(BadRequest, match="the claim has a link there"):
        prepare(tmp_path)
    assert sorted(elsewhere.rglob("*")) == before


def test_what_a_killed_attempt_has_left_is_removed(tmp_path: Path, claim: Path) -> None:
    (claim / "web/monday").mkdir(parents=True)
    (claim / "web/monday/half.qcow2").write_text("x")
    with pytest.raises(RuntimeError, match="the directory is there"):
        prepare(tmp_path)
    assert list((claim / "web/monday").iterdir()) == []

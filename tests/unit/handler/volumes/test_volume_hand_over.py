"""By which names volumes are handed over and taken back; the rest needs real Pods, see the machine tests."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import Mock

import pytest

from kvedge.handler.volumes.claim_image import ImageRefused
from kvedge.handler.volumes.volume_hand_over import (
    hand_over_device,
    hand_over_file,
    leftovers,
    present_volumes,
    take_back,
)
from kvedge.resources.types.vmi import ClaimInfo
from kvedge.storage.beneath import hold_directory


@pytest.mark.parametrize("name", ["", "..", "../../etc/passwd", "a/b", ".coming-disk", "a.img", "Disk", "x" * 64])
def test_a_name_that_is_no_label_is_refused_before_anything_is_touched(name: str) -> None:
    source, launcher = Mock(), Mock()
    for call in (
        lambda: hand_over_file(name, ClaimInfo(), source, launcher),
        lambda: hand_over_device(name, (), source, launcher),
        lambda: take_back(name, launcher),
    ):
        with pytest.raises(ImageRefused, match="is no volume's name"):
            call()
    assert (source.mock_calls, launcher.mock_calls) == ([], [])


def test_what_a_launcher_puts_there_under_no_volume_s_name_is_no_volume(tmp_path: Path) -> None:
    for name in (".coming-..", ".going-A", "...img", "A.img", "data.img", ".coming-disk"):
        (tmp_path / name).touch()
    for name in ("full.img", "FULL.img", "...full.img"):
        (tmp_path / name).write_text("image")
    with hold_directory(tmp_path) as opened:
        assert leftovers(opened) == {"data", "disk"}
        assert present_volumes(opened) == {"full": False}

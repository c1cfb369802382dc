"""Links to the devices of volumes, and loop devices whose numbers have gone to others."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvedge.storage.volumes.device_links import lead_to, leads_to_own


def test_a_link_leads_to_the_device_that_was_said_last(tmp_path: Path) -> None:
    link = tmp_path / "devices" / "pv-1"
    for device in (Path("/dev/loop1"), Path("/dev/loop1"), Path("/dev/loop2")):
        assert lead_to(link, device) == link
        assert link.readlink() == device
    assert [each.name for each in link.parent.iterdir()] == ["pv-1"]


@pytest.mark.parametrize(
    ("backing", "own"),
    [
        ("/var/lib/kvedge/volumes/pv-1/block.img\n", True),
        ("/var/lib/kvedge/volumes/pv-2/block.img\n", False),
        ("", False),
    ],
    ids=["its own", "another volume's", "none"],
)
def test_a_loop_device_is_known_by_its_file_and_not_by_its_number(tmp_path: Path, backing: str, own: bool) -> None:
    link = lead_to(tmp_path / "pv-1", Path("/dev/loop7"))
    if backing:
        (tmp_path / "loop7" / "loop").mkdir(parents=True)
        (tmp_path / "loop7" / "loop" / "backing_file").write_text(backing)
    assert leads_to_own(link, tmp_path) is own


def test_of_another_device_nothing_is_asked(tmp_path: Path) -> None:
    assert leads_to_own(lead_to(tmp_path / "pv-1", Path("/dev/kvedge-group/pv-1")), tmp_path)

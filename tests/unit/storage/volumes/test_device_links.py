"""Links to devices."""

from __future__ import annotations

from pathlib import Path

from kvedge.storage.volumes.device_links import lead_to


def test_a_link_leads_to_the_last_device_also_after_a_kill_in_between(tmp_path: Path) -> None:
    link = tmp_path / "devices" / "data"
    assert lead_to(link, Path("/dev/loop1")) == link
    (link.parent / ".data.new").symlink_to("/dev/loop9")
    for _ in range(2):
        lead_to(link, Path("/dev/loop2"))
    assert link.readlink() == Path("/dev/loop2")
    assert [each.name for each in link.parent.iterdir()] == ["data"]

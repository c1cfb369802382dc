"""Which thin pool a place is: chosen among groups of one name, remembered, and never taken for another one."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvedge.storage.volumes.lvm_report import VolumeGroup
from kvedge.storage.volumes.thin_identity import ThinIdentity
from kvedge.storage.volumes.volume_driver import PlaceMissing

ONE, TWO = VolumeGroup("ssd", "one", ("/dev/sdb",)), VolumeGroup("ssd", "two", ("/dev/loop0",))


def test_of_two_groups_of_one_name_it_is_the_one_that_it_was(tmp_path: Path) -> None:
    identity = ThinIdentity("ssd", "thin", tmp_path / "places/fast")
    with pytest.raises(PlaceMissing, match="there are 2 volume groups of that name"):
        identity.choose([ONE, TWO])
    assert not identity.is_remembered()
    identity.check("one", "pool")
    assert identity.choose([TWO, ONE]) == ONE
    assert identity.is_remembered()


def test_what_it_was_is_not_overwritten_by_what_is_there(tmp_path: Path) -> None:
    identity = ThinIdentity("ssd", "thin", tmp_path / "fast")
    identity.check("one", "pool")
    with pytest.raises(PlaceMissing, match=f"another pool has its name.* remove {tmp_path}/fast"):
        identity.check("one", "another")
    assert identity.recall() == "one/pool"


@pytest.mark.parametrize("text", ["{", "[]", '{"place": ""}'])
def test_a_damaged_memory_is_told(tmp_path: Path, text: str) -> None:
    (tmp_path / "fast").write_text(text)
    with pytest.raises(PlaceMissing, match="is damaged: it should say which thin pool ssd/thin is"):
        ThinIdentity("ssd", "thin", tmp_path / "fast").recall()

"""A VM's disks on a thin pool are snapshotted and restored in the pool, and not copied; lvm2 is played.

The same runs by the real one in tests/machine/volumes/test_thin_vms.py, where it is asked for.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from kvedge.resources.types.data_volumes import DataVolume
from kvedge.resources.types.protection.volume_snapshots import VolumeSnapshot
from kvedge.storage.volumes import thin_driver
from kvedge.storage.volumes.thin_driver import ThinDriver
from kvedge.storage.volumes.thin_identity import ThinIdentity
from tests.machine.volumes.thin_vms import MODES, method_of, thin_vms
from tests.support.played_lvm import PlayedLvm
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.machine, pytest.mark.timeout(600)]


@pytest.fixture
def lvm(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> PlayedLvm:
    """A played pool, whose file systems are directories."""

    def mount(programs: object, device: Path, top: Path) -> Path:
        (top / "data").mkdir(parents=True, exist_ok=True)
        return top / "data"

    monkeypatch.setattr(thin_driver, "mount_volume", mount)
    monkeypatch.setattr(thin_driver, "make_file_system", lambda programs, device: None)
    monkeypatch.setattr(thin_driver, "unmount_volume", lambda top: None)
    monkeypatch.setattr(ThinDriver, "_write_out", lambda self, name, needed: None)
    return PlayedLvm.with_pool()


def names(lvm: PlayedLvm, prefix: str) -> list[str]:
    """The logical volumes whose names begin so."""
    return sorted(name for name in lvm.rows if name.startswith(prefix))


def test_a_vm_is_snapshotted_restored_and_outlived_without_a_copy(lvm: PlayedLvm, tmp_path: Path) -> None:
    driver = ThinDriver(ThinIdentity("ssd", "thin", tmp_path / "memory"), tmp_path / "dev", tmp_path / "mounts", lvm)
    with thin_vms(tmp_path / "box", driver) as vms:
        vms.make_vm()
        content = vms.snapshot()
        assert method_of(content) == "volume-snapshots"
        assert len(vms.client.list(VolumeSnapshot, "default")) == len(MODES)
        assert len(names(lvm, "kvedge-snapshot-")) == len(MODES)
        assert vms.client.list(DataVolume, "default") == [], "nothing is copied"

        back = vms.restore("back", "web")
        origins = {words[-1] for words in lvm.ran if words[0] == "lvcreate" and words[-1].startswith("ssd/kvedge-snap")}
        assert len(origins) == len(MODES), "each new disk is a thin snapshot of a snapshot"
        for name, claim in back.items():
            assert claim != name
            assert vms.volume_of(claim).spec.capacity["storage"] == ("12Mi" if MODES[name] == "Block" else "9Mi")

        vms.delete_vm()
        twin = vms.restore("again", "twin")
        assert set(twin.values()).isdisjoint(back.values())
        vms.delete_snapshot()
        wait_until(lambda: names(lvm, "kvedge-snapshot-") == [], "its thin snapshots go with it", 60)
        assert all(vms.volume_of(claim).spec.capacity for claim in twin.values())

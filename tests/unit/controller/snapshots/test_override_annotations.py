# Tests: kvedge/controller/snapshots/restored_vm.py
"""What a user may say of the disks that a restore makes, and what not."""

from __future__ import annotations

from kvedge.controller.snapshots.restored_vm import make_volume
from kvedge.resources.codec import decode
from kvedge.resources.types.protection.snapshots import VirtualMachineRestore, VolumeRestore
from tests.support.builders import a_claim


def test_no_claim_that_is_there_is_taken_for_the_disk_of_a_snapshot() -> None:
    asked = {
        "cdi.kubevirt.io/allowClaimAdoption": "true",
        "cdi.kubevirt.io/storage.prePopulated": "somebody-s",
        "mine": "yes",
    }
    override = {"volumeName": "root", "restoreName": "somebody-s", "annotations": asked}
    spec = {"target": {"kind": "VirtualMachine", "name": "web"}, "volumeRestoreOverrides": [override]}
    restore = decode(VirtualMachineRestore, {"metadata": {"name": "r", "namespace": "n", "uid": "u"}, "spec": spec})
    volume = VolumeRestore(volume_name="root", persistent_volume_claim="somebody-s", volume_snapshot_name="copy")
    made = make_volume(restore, volume, a_claim("copy", storage_class_name="disks"), None, "web")
    assert made.metadata.annotations["mine"] == "yes"
    assert not asked.keys() - {"mine"} & made.metadata.annotations.keys()

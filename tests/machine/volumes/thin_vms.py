"""A VM with two disks on a thin pool of one box, which is snapshotted, restored and deleted by the controller's role.

Used by the test on this machine, whose pool is played, and by the script that runs where the kernel has device-mapper.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from kvedge.controller.controller_service import ControllerRole
from kvedge.kube.errors import NotFound
from kvedge.resources.codec import decode
from kvedge.resources.disks.snapshot_names import METHOD
from kvedge.resources.meta import ObjectMeta
from kvedge.resources.role_users import CONTROLLER_GROUP, CONTROLLER_USER
from kvedge.resources.types.core import Node
from kvedge.resources.types.protection.snapshots import (
    VirtualMachineRestore,
    VirtualMachineSnapshot,
    VirtualMachineSnapshotContent,
)
from kvedge.resources.types.storage import PersistentVolume, PersistentVolumeClaim
from kvedge.resources.types.vm import VirtualMachine
from kvedge.standalone.apiserver.api_server import ApiServerConfig, EmbeddedApi
from kvedge.storage.volumes.volume_driver import VolumeDriver
from tests.machine.volumes.box_storage import NODE, BoxStorage
from tests.support.builders import CONFIG, small_vmi, vm_of
from tests.support.either_server import install_kinds
from tests.support.waiting import wait_until

PLACE: Final = "fast"
# The claims of the VM by its volumes, with their modes: of 9 MiB, which is no whole number of extents.
MODES: Final = {"root": "Block", "data": "Filesystem"}
_SECONDS: Final = 300.0


class ThinVms:
    """One box with a place that is a thin pool, and the controller's role."""

    def __init__(self, box: BoxStorage) -> None:
        self.box, self.client = box, box.client

    def make_vm(self) -> None:
        """A VM that does not run, on two claims of the pool."""
        for name, mode in MODES.items():
            self.box.make(name, "9Mi", storageClassName=PLACE, volumeMode=mode)
        for name in MODES:
            self.box.bound(name)
        document = vm_of(small_vmi(), runStrategy="Halted")
        document["metadata"] |= {"name": "web", "namespace": "default"}
        run = document["spec"]["template"]["spec"]
        run["volumes"] = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in MODES]
        run["domain"].setdefault("devices", {})["disks"] = [{"name": name, "disk": {}} for name in MODES]
        self.client.create(decode(VirtualMachine, document))

    def snapshot(self) -> VirtualMachineSnapshotContent:
        """A snapshot of the VM that is ready; its content."""
        source = {"apiGroup": "kubevirt.io", "kind": "VirtualMachine", "name": "web"}
        metadata = {"name": "before", "namespace": "default"}
        self.client.create(decode(VirtualMachineSnapshot, {"metadata": metadata, "spec": {"source": source}}))

        def found() -> VirtualMachineSnapshot | None:
            item = self.client.get(VirtualMachineSnapshot, "default", "before")
            return item if item.status.ready_to_use else None

        made = wait_until(found, "the snapshot is ready", _SECONDS)
        name = made.status.virtual_machine_snapshot_content_name or ""
        return self.client.get(VirtualMachineSnapshotContent, "default", name)

    def restore(self, name: str, target: str) -> dict[str, str]:
        """Have the snapshot restored; the claims of the VM by its volumes."""
        aim = {"apiGroup": "kubevirt.io", "kind": "VirtualMachine", "name": target}
        body: Any = {"target": aim, "virtualMachineSnapshotName": "before"}
        metadata = {"name": name, "namespace": "default"}
        self.client.create(decode(VirtualMachineRestore, {"metadata": metadata, "spec": body}))
        wait_until(
            lambda: self.client.get(VirtualMachineRestore, "default", name).status.complete,
            f"restore {name} is complete",
            _SECONDS,
        )
        vm = self.client.get(VirtualMachine, "default", target)
        assert vm.spec.template is not None
        return {each.name: _claim_of(each) for each in vm.spec.template.spec.volumes}

    def volume_of(self, claim: str) -> PersistentVolume:
        """The volume of a claim that is bound."""
        found = self.client.get(PersistentVolumeClaim, "default", claim)
        return self.client.get(PersistentVolume, "", found.spec.volume_name)

    def delete_vm(self) -> None:
        """The VM goes, and its claims with it."""
        self.client.delete(VirtualMachine, "default", "web")
        for name in MODES:
            self.client.delete(PersistentVolumeClaim, "default", name)
        wait_until(lambda: self._is_gone(VirtualMachine, "web"), "the VM is gone", _SECONDS)

    def delete_snapshot(self) -> None:
        """The snapshot goes."""
        self.client.delete(VirtualMachineSnapshot, "default", "before")
        wait_until(lambda: self._is_gone(VirtualMachineSnapshot, "before"), "the snapshot is gone", _SECONDS)

    def _is_gone(self, kind: Any, name: str) -> bool:
        try:
            self.client.get(kind, "default", name)
        except NotFound:
            return True
        return False


def method_of(content: VirtualMachineSnapshotContent) -> str:
    """How the disks of a snapshot were taken."""
    return content.metadata.annotations.get(METHOD, "")


def _claim_of(volume: Any) -> str:
    if volume.data_volume is not None:
        return str(volume.data_volume.name)
    return str(volume.persistent_volume_claim.claim_name)


@contextmanager
def thin_vms(data: Path, driver: VolumeDriver) -> Iterator[ThinVms]:
    """Such a box for the duration of a test."""
    api = EmbeddedApi(ApiServerConfig(data, port=0, node_name=NODE))
    api.start()
    box = BoxStorage(data, api, {PLACE: driver})
    install_kinds(box.client)
    box.client.create(Node(metadata=ObjectMeta(name=NODE, labels={"kubernetes.io/hostname": NODE})))
    kubeconfig = data / "controller.kubeconfig"
    api.write_kubeconfig(kubeconfig, CONTROLLER_USER, [CONTROLLER_GROUP])
    role = ControllerRole(kubeconfig, CONFIG, leader_election=False)
    role.start()
    try:
        yield ThinVms(box)
    finally:
        role.stop()
        box.close()
        api.stop()

"""What the controller does about a VM when one of its informers is ahead of the other."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from kvedge.controller.vm.vm_loop import VmLoop, VmSources
from kvedge.controller.vm.vmi_template import vmi_from_vm
from kvedge.kube.errors import Conflict
from kvedge.kube.events import EventRecorder
from kvedge.kube.informer import Informer
from kvedge.kube.kube_client import KubeClient
from kvedge.kube.patches import MergePatch
from kvedge.kube.work_queue import Key
from kvedge.resources.meta import ObjectMeta
from kvedge.resources.names import VM_FINALIZER
from kvedge.resources.types.core import Node
from kvedge.resources.types.data_volumes import DataVolume
from kvedge.resources.types.storage import PersistentVolumeClaim
from kvedge.resources.types.vm import VirtualMachine, VirtualMachineInstanceTemplate, VirtualMachineSpec
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.runtime.clock import SystemClock
from tests.support.either_server import EitherServer


@dataclass
class Blinkered:
    """A loop that knows of one VM and its VMI what the test lets it see."""

    client: KubeClient
    vms: Informer[VirtualMachine]
    vmis: Informer[VirtualMachineInstance]
    loop: VmLoop
    key: Key

    def vm(self) -> VirtualMachine:
        return self.client.get(VirtualMachine, *self.key)

    def vmi(self) -> VirtualMachineInstance:
        return self.client.get(VirtualMachineInstance, *self.key)

    def release_vmi(self) -> None:
        """As a garbage collector that orphans."""
        self.client.patch(VirtualMachineInstance, *self.key, MergePatch({"metadata": {"ownerReferences": []}}))


@pytest.fixture
def blinkered(either_server: EitherServer, namespace: str) -> Blinkered:
    client = either_server.admin
    vms, vmis = Informer(client, VirtualMachine), Informer(client, VirtualMachineInstance)
    empty = (Informer(client, DataVolume), Informer(client, PersistentVolumeClaim), Informer(client, Node))
    sources = VmSources(client, vms, vmis, *empty, EventRecorder(client, "test"), SystemClock())
    meta = ObjectMeta(name="web", namespace=namespace, finalizers=[VM_FINALIZER])
    spec = VirtualMachineSpec(run_strategy="Always", template=VirtualMachineInstanceTemplate())
    vm = client.create(VirtualMachine(metadata=meta, spec=spec))
    client.create(vmi_from_vm(vm, paused=False))
    return Blinkered(client, vms, vmis, VmLoop(sources), Key(namespace, "web"))


def test_a_guest_that_was_set_free_is_not_ended_by_who_saw_only_that_its_vm_goes(blinkered):
    blinkered.vmis.observe(blinkered.vmi())
    blinkered.release_vmi()
    blinkered.client.delete(VirtualMachine, *blinkered.key)
    blinkered.vms.observe(blinkered.vm())
    with pytest.raises(Conflict):
        blinkered.loop.reconcile(blinkered.key)
    assert blinkered.vmi().metadata.deletion_timestamp is None

    blinkered.vmis.observe(blinkered.vmi())
    blinkered.loop.reconcile(blinkered.key)
    assert blinkered.client.list(VirtualMachine, blinkered.key.namespace) == []
    assert blinkered.vmi().metadata.deletion_timestamp is None


def test_a_guest_of_a_vm_that_goes_is_ended_also_when_its_run_is_over(blinkered):
    over = MergePatch({"status": {"phase": "Succeeded"}})
    blinkered.client.patch(VirtualMachineInstance, *blinkered.key, over)
    blinkered.vmis.observe(blinkered.vmi())
    blinkered.client.delete(VirtualMachine, *blinkered.key)
    blinkered.vms.observe(blinkered.vm())
    blinkered.loop.reconcile(blinkered.key)
    assert blinkered.vmi().metadata.deletion_timestamp is not None
    assert VM_FINALIZER not in blinkered.vmi().metadata.finalizers

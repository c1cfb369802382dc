"""A pool from its creation to its end, with the controller against both servers."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kvedge.controller.controller_service import ControllerRole
from kvedge.kube.errors import Conflict, NotFound
from kvedge.kube.patches import MergePatch
from kvedge.resources.data_volume_names import KEPT_FOR_POOL
from kvedge.resources.meta import condition
from kvedge.resources.role_users import CONTROLLER_GROUP, CONTROLLER_USER
from kvedge.resources.types.controller_revision import ControllerRevision
from kvedge.resources.types.core import Event
from kvedge.resources.types.data_volumes import DataVolume
from kvedge.resources.types.scaling.pools import POOL_FINALIZER, REVISION_LABEL, VirtualMachinePool
from kvedge.resources.types.vm import VirtualMachine
from kvedge.resources.types.vmi import VirtualMachineInstance
from tests.support.builders import CONFIG, pool_of, put, small_vmi
from tests.support.edits import edit
from tests.support.either_server import EitherServer
from tests.support.waiting import wait_until

FOREGROUND = "foregroundDeletion"


@pytest.fixture(scope="module")
def role(either_server: EitherServer) -> Iterator[ControllerRole]:
    """Under its own name, with its own rights."""
    role = ControllerRole(either_server.kubeconfig_of(CONTROLLER_USER, CONTROLLER_GROUP), CONFIG, leader_election=False)
    role.start()
    yield role
    role.stop()


class Pool:
    """One pool of the test's namespace."""

    def __init__(self, server: EitherServer, namespace: str) -> None:
        self.client, self.namespace = server.admin, namespace
        self.collects = server.collects_garbage
        self.path = VirtualMachinePool.KIND.path(namespace)

    def create(self, replicas: int = 2, strategy: str = "Halted", **spec: Any) -> None:
        document = pool_of(small_vmi(), replicas, strategy, **spec)
        document["metadata"]["namespace"] = self.namespace
        self.client.request("POST", self.path, document)

    def get(self) -> VirtualMachinePool:
        return self.client.get(VirtualMachinePool, self.namespace, "web")

    def change(self, **spec: Any) -> None:
        self.client.patch(VirtualMachinePool, self.namespace, "web", MergePatch({"spec": spec}))

    def change_template(self, path: str, value: Any) -> None:
        body: dict[str, Any] = {}
        put(body, f"spec.virtualMachineTemplate.{path}", value)
        self.client.patch(VirtualMachinePool, self.namespace, "web", MergePatch(body))

    def vms(self) -> dict[str, VirtualMachine]:
        found = self.client.list(VirtualMachine, self.namespace)
        if not self.collects:
            for vm in found:
                self._collect(vm)
        return {vm.metadata.name: vm for vm in found}

    def _collect(self, vm: VirtualMachine) -> None:
        """Play the garbage collector for a VM that goes after its dependents."""
        if FOREGROUND in vm.metadata.finalizers:
            left = [item for item in vm.metadata.finalizers if item != FOREGROUND]
            body = {"metadata": {"finalizers": left, "resourceVersion": vm.metadata.resource_version}}
            with contextlib.suppress(NotFound, Conflict):
                self.client.patch(VirtualMachine, self.namespace, vm.metadata.name, MergePatch(body))

    def vmis(self) -> dict[str, VirtualMachineInstance]:
        return {vmi.metadata.name: vmi for vmi in self.client.list(VirtualMachineInstance, self.namespace)}

    def revisions(self) -> set[str]:
        found = self.client.list(ControllerRevision, self.namespace, "kvedge.io/revision-of-pool")
        return {item.metadata.name for item in found}

    def has(self, *numbers: int) -> Callable[[], bool]:
        names = {f"web-{number}" for number in numbers}
        return lambda: self.vms().keys() == names and self.get().status.replicas == len(names)

    def has_another(self, name: str, uid: str) -> Callable[[], bool]:
        def check() -> bool:
            vm = self.vms().get(name)
            return vm is not None and vm.metadata.uid != uid

        return check

    def told(self) -> set[tuple[str, str]]:
        events = self.client.list(Event, self.namespace)
        return {(item.reason, item.message) for item in events if item.involved_object.name == "web"}


@pytest.fixture
def pool(role: ControllerRole, either_server: EitherServer, namespace: str) -> Pool:
    return Pool(either_server, namespace)


def test_a_pool_numbers_its_vms_and_fills_gaps(pool: Pool) -> None:
    pool.create(3)
    wait_until(pool.has(0, 1, 2), "three VMs")
    vm = pool.vms()["web-1"]
    owner = vm.metadata.controller_reference()
    assert owner is not None
    assert (owner.kind, owner.api_version, owner.name) == ("VirtualMachinePool", "pool.kubevirt.io/v1beta1", "web")
    assert vm.metadata.labels == {"app": "web", REVISION_LABEL: "web-1"}
    assert POOL_FINALIZER in vm.metadata.finalizers
    assert pool.revisions() == {"web-1"}
    uid = vm.metadata.uid
    pool.client.delete(VirtualMachine, pool.namespace, "web-1")
    wait_until(pool.has_another("web-1", uid), "another one in its place")
    wait_until(lambda: ("SuccessfulCreate", f"Created VM {pool.namespace}/web-2") in pool.told(), "the event")


def test_a_pool_is_scaled_by_its_subresource_and_takes_the_highest_number_first_where_it_shall(pool: Pool) -> None:
    pool.create(3, scaleInStrategy={"proactive": {"selectionPolicy": {"sortPolicy": "DescendingOrder"}}})
    wait_until(pool.has(0, 1, 2), "three VMs")
    path = f"{pool.path}/web/scale"
    scale = pool.client.request("GET", path)
    assert scale["status"] == {"replicas": 3, "selector": "app=web"}
    edit(pool.client, path, lambda scale: scale["spec"].update(replicas=1))
    wait_until(pool.has(0), "one VM")
    told = {message for reason, message in pool.told() if reason == "SuccessfulDelete"}
    assert all(" from pool" in message for message in told)


@pytest.mark.parametrize("strategy", ["unmanaged", "opportunistic"])
def test_a_pool_that_does_not_shrink_by_itself_leaves_the_choice_to_the_user(pool: Pool, strategy: str) -> None:
    pool.create(2, scaleInStrategy={strategy: {}})
    wait_until(pool.has(0, 1), "two VMs")
    pool.change(replicas=1, paused=True)
    wait_until(lambda: condition(pool.get().status.conditions, "ReplicaPaused") is not None, "it has seen the change")
    pool.change(paused=False)
    wait_until(lambda: not pool.get().status.conditions, "it goes on")
    assert pool.vms().keys() == {"web-0", "web-1"}
    pool.client.delete(VirtualMachine, pool.namespace, "web-0")
    wait_until(pool.has(1), "the other one")


def test_a_vm_with_other_labels_is_detached_for_good(pool: Pool) -> None:
    pool.create(2)
    wait_until(pool.has(0, 1), "two VMs")
    labels = MergePatch({"metadata": {"labels": {"app": "other"}}})
    pool.client.patch(VirtualMachine, pool.namespace, "web-0", labels)
    wait_until(lambda: pool.vms().keys() == {"web-0", "web-1", "web-2"}, "another one in its place")
    free = pool.vms()["web-0"]
    assert free.metadata.owner_references == []
    assert POOL_FINALIZER not in free.metadata.finalizers
    labels = MergePatch({"metadata": {"labels": {"app": "web"}}})
    pool.client.patch(VirtualMachine, pool.namespace, "web-0", labels)
    pool.change(replicas=3)
    wait_until(lambda: "web-3" in pool.vms(), "its number is taken, and it is not the pool's")
    assert pool.vms()["web-0"].metadata.owner_references == []


def test_a_change_of_the_template_reaches_vms_and_restarts_guests(pool: Pool) -> None:
    pool.create(2, strategy="Always")
    wait_until(lambda: pool.vmis().keys() == {"web-0", "web-1"}, "two guests")
    before = {name: vmi.metadata.uid for name, vmi in pool.vmis().items()}
    pool.change_template("spec.template.spec.hostname", "changed")

    def runs_anew() -> bool:
        found = pool.vmis()
        return found.keys() == before.keys() and all(
            vmi.metadata.uid != before[name] and vmi.spec.hostname == "changed" for name, vmi in found.items()
        )

    wait_until(runs_anew, "both guests are of the new template")
    assert {vm.metadata.labels[REVISION_LABEL] for vm in pool.vms().values()} == {"web-2"}
    assert {vmi.metadata.labels[REVISION_LABEL] for vmi in pool.vmis().values()} == {"web-2"}
    wait_until(lambda: pool.revisions() == {"web-2"}, "the revision that nobody has is gone")


def test_a_change_that_no_guest_sees_restarts_none(pool: Pool) -> None:
    pool.create(1, strategy="Always")
    wait_until(lambda: pool.vmis().keys() == {"web-0"}, "the guest")
    uid = pool.vmis()["web-0"].metadata.uid
    pool.change_template("metadata.annotations", {"note": "x"})
    wait_until(lambda: pool.vms()["web-0"].metadata.annotations.get("note") == "x", "the VM is changed")
    wait_until(lambda: pool.vmis()["web-0"].metadata.labels[REVISION_LABEL] == "web-2", "the guest counts as changed")
    assert pool.vmis()["web-0"].metadata.uid == uid


def test_an_opportunistic_change_leaves_guests_alone_and_an_unmanaged_one_vms_too(pool: Pool) -> None:
    pool.create(1, strategy="Always", updateStrategy={"opportunistic": {}})
    wait_until(lambda: pool.vmis().keys() == {"web-0"}, "the guest")
    uid = pool.vmis()["web-0"].metadata.uid
    pool.change_template("spec.template.spec.hostname", "changed")

    def hostname() -> str:
        template = pool.vms()["web-0"].spec.template
        return "" if template is None else template.spec.hostname

    wait_until(lambda: hostname() == "changed", "the VM is changed")
    pool.change(updateStrategy={"opportunistic": None, "unmanaged": {}})
    pool.change_template("spec.template.spec.hostname", "again")
    pool.change(replicas=2)
    wait_until(pool.has(0, 1), "another VM")
    assert hostname() == "changed"
    assert pool.vmis()["web-0"].metadata.uid == uid


def test_data_volumes_get_the_number_and_stay_where_the_state_is_kept(pool: Pool) -> None:
    template = {"metadata": {"name": "disk"}, "spec": {"source": {"blank": {}}, "storage": {}}}
    pool.create(1, scaleInStrategy={"proactive": {"statePreservation": "Offline"}})
    volumes = [{"name": "root", "dataVolume": {"name": "disk"}}]
    pool.change_template("spec", {"dataVolumeTemplates": [template], "template": {"spec": {"volumes": volumes}}})

    def volume() -> DataVolume | None:
        found = {item.metadata.name: item for item in pool.client.list(DataVolume, pool.namespace)}
        return found.get("disk-0")

    wait_until(volume, "the DataVolume of the VM")
    made = pool.vms()["web-0"].spec.template
    assert made is not None
    assert made.spec.volumes[0].data_volume is not None
    assert made.spec.volumes[0].data_volume.name == "disk-0"
    pool.change(replicas=0)
    wait_until(pool.has(), "no VM")
    kept = volume()
    assert kept is not None
    assert (kept.metadata.owner_references, kept.metadata.deletion_timestamp) == ([], None)
    assert kept.metadata.annotations[KEPT_FOR_POOL] == "web"
    pool.change(replicas=1)
    wait_until(pool.has(0), "the VM of the number again")

    def owner() -> str | None:
        found = volume()
        reference = None if found is None else found.metadata.controller_reference()
        return None if reference is None else reference.uid

    wait_until(lambda: owner() == pool.vms()["web-0"].metadata.uid, "it owns the DataVolume again")
    again = volume()
    assert again is not None
    assert again.metadata.uid == kept.metadata.uid


def test_a_vm_that_does_not_start_is_made_anew(pool: Pool) -> None:
    pool.create(1, strategy="Always", autohealing={"startUpFailureThreshold": 1})
    wait_until(lambda: pool.vmis().keys() == {"web-0"}, "the guest")
    uid = pool.vms()["web-0"].metadata.uid
    failed = MergePatch({"status": {"phase": "Failed"}})
    pool.client.patch(VirtualMachineInstance, pool.namespace, "web-0", failed)
    wait_until(pool.has_another("web-0", uid), "another one in its place")


@pytest.mark.parametrize("policy", ["Background", "Foreground", "Orphan"])
def test_the_end_of_a_pool_is_that_of_its_vms_unless_they_are_to_stay(
    either_server: EitherServer, pool: Pool, policy: str
) -> None:
    if not either_server.collects_garbage:
        pytest.skip("kube-controller-manager collects it, which does not run beside this server")
    pool.create(2)
    wait_until(pool.has(0, 1), "two VMs")
    pool.client.delete(VirtualMachinePool, pool.namespace, "web", propagation=policy)
    wait_until(lambda: not pool.client.list(VirtualMachinePool, pool.namespace), "the pool is gone")
    if policy == "Orphan":
        assert [vm.metadata.owner_references for vm in pool.vms().values()] == [[], []]
        assert not any(POOL_FINALIZER in vm.metadata.finalizers for vm in pool.vms().values())
    else:
        wait_until(lambda: not pool.vms(), "its VMs are gone")

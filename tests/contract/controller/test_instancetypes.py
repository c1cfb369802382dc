"""VMs with instance types and preferences, with the controller against both servers: their copies, and their VMIs."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest

from kvedge.controller.controller_service import ControllerRole
from kvedge.controller.kubevirt import common_types_loop
from kvedge.controller.kubevirt.common_types_loop import CommonTypesLoop
from kvedge.kube.errors import AlreadyExists
from kvedge.kube.kube_client import KubeClient
from kvedge.kube.patches import MergePatch
from kvedge.resources.codec import JsonObject, decode
from kvedge.resources.meta import condition
from kvedge.resources.names import KEPT_TYPES
from kvedge.resources.role_users import CONTROLLER_GROUP, CONTROLLER_USER
from kvedge.resources.types.controller_revision import ControllerRevision
from kvedge.resources.types.kubevirt import KubeVirt
from kvedge.resources.types.protection.snapshots import VirtualMachineRestore, VirtualMachineSnapshot
from kvedge.resources.types.vm import VirtualMachine
from kvedge.resources.types.vm_types.instancetypes import VirtualMachineClusterInstancetype
from kvedge.resources.types.vm_types.preferences import VirtualMachineClusterPreference
from kvedge.resources.types.vmi import VirtualMachineInstance
from tests.support.builders import CONFIG
from tests.support.either_server import EitherServer
from tests.support.waiting import wait_until

TYPE = "VirtualMachineInstancetype"
PREFERENCE = "VirtualMachinePreference"
SMALL = {"cpu": {"guest": 2}, "memory": {"guest": "128Mi"}, "annotations": {"size": "small"}}
PENGUIN = {"devices": {"preferredDiskBus": "virtio"}, "cpu": {"preferredCPUTopology": "cores"}}
OBJECT = "instancetype.kubevirt.io/object-"


@pytest.fixture
def role(either_server: EitherServer) -> Iterator[ControllerRole]:
    role = ControllerRole(either_server.kubeconfig_of(CONTROLLER_USER, CONTROLLER_GROUP), CONFIG, leader_election=False)
    role.start()
    try:
        yield role
        assert role.failure() is None
    finally:
        role.stop()


class World:
    """A namespace with a VM."""

    def __init__(self, client: KubeClient, namespace: str) -> None:
        self.client, self.namespace = client, namespace

    def make(self, kind: str, name: str, spec: JsonObject) -> JsonObject:
        body = {"apiVersion": "instancetype.kubevirt.io/v1beta1", "kind": kind, "metadata": {"name": name}}
        found: JsonObject = self.client.request("POST", self._path(kind), {**body, "spec": spec})
        return found

    def edit(self, kind: str, name: str, spec: JsonObject) -> None:
        path = f"{self._path(kind)}/{name}"
        self.client.request("PATCH", path, {"spec": spec}, None, "application/merge-patch+json")

    def remove(self, kind: str, name: str) -> None:
        self.client.request("DELETE", f"{self._path(kind)}/{name}")

    def create(self, name: str = "web", strategy: str = "Always", **spec: Any) -> VirtualMachine:
        volumes = [{"name": "root", "emptyDisk": {"capacity": "1Mi"}}]
        template = {"spec": {"domain": {"devices": {}}, "volumes": volumes}}
        matchers = {
            "instancetype": {"name": "small", "kind": TYPE},
            "preference": {"name": "penguin", "kind": PREFERENCE},
        }
        document = {
            "metadata": {"name": name, "namespace": self.namespace},
            "spec": {"runStrategy": strategy, "template": template, **matchers, **spec},
        }
        return self.client.create(decode(VirtualMachine, document))

    def vm(self, name: str = "web") -> VirtualMachine:
        return self.client.get(VirtualMachine, self.namespace, name)

    def vmi(self, name: str = "web") -> VirtualMachineInstance | None:
        found = self.client.list(VirtualMachineInstance, self.namespace)
        return next((vmi for vmi in found if vmi.metadata.name == name), None)

    def run(self, name: str = "web") -> VirtualMachineInstance:
        wait_until(lambda: self.vmi(name) is not None, "the VM has a run")
        vmi = self.vmi(name)
        assert vmi is not None
        return vmi

    def copies(self, vm: VirtualMachine) -> dict[str, ControllerRevision]:
        """The VM's copies, by the object's kind."""
        found = self.client.list(ControllerRevision, self.namespace)
        return {
            each.metadata.labels[f"{OBJECT}kind"]: each
            for each in found
            if f"{OBJECT}kind" in each.metadata.labels
            and any(owner.uid == vm.metadata.uid for owner in each.metadata.owner_references)
        }

    def patch(self, body: JsonObject, name: str = "web") -> None:
        self.client.patch(VirtualMachine, self.namespace, name, MergePatch(body))

    def failure(self) -> str:
        found = condition(self.vm().status.conditions, "Failure")
        return "" if found is None else f"{found.reason}: {found.message}"

    def needs_restart(self) -> bool:
        return condition(self.vm().status.conditions, "RestartRequired") is not None

    def _path(self, kind: str) -> str:
        return f"/apis/instancetype.kubevirt.io/v1beta1/namespaces/{self.namespace}/{kind.lower()}s"


@pytest.fixture
def world(either_server: EitherServer, namespace: str, role: ControllerRole) -> World:
    return World(either_server.admin, namespace)


@pytest.fixture
def typed(world: World) -> World:
    world.make(TYPE, "small", SMALL)
    world.make(PREFERENCE, "penguin", PENGUIN)
    return world


def test_a_run_is_what_its_types_say_and_copies_are_kept(typed: World) -> None:
    vm = typed.create()
    vmi = typed.run()
    cpu, memory = vmi.spec.domain.cpu, vmi.spec.domain.memory
    assert cpu is not None
    assert (cpu.cores, cpu.sockets, cpu.threads) == (2, 1, 1)
    assert memory is not None
    assert memory.guest == "128Mi"
    (disk,) = vmi.spec.domain.devices.disks
    assert disk.disk is not None
    assert (disk.name, disk.disk.bus) == ("root", "virtio")
    marks = vmi.metadata.annotations
    assert (marks["kubevirt.io/instancetype-name"], marks["kubevirt.io/preference-name"]) == ("small", "penguin")
    assert marks["size"] == "small"
    copies, status = typed.copies(vm), typed.vm().status
    assert set(copies) == {TYPE, PREFERENCE}
    copy = copies[TYPE]
    uid = copy.metadata.labels[f"{OBJECT}uid"]
    assert copy.metadata.name == f"web-small-v1beta1-{uid}-1"
    assert copy.data["spec"] == SMALL
    ref = status.instancetype_ref
    assert ref is not None
    assert ref.controller_revision_ref is not None
    assert (ref.name, ref.kind, ref.controller_revision_ref.name) == ("small", TYPE, copy.metadata.name)
    assert status.preference_ref is not None
    assert typed.vm().spec.template is not None
    assert typed.vm().spec.template.spec.domain.cpu is None, "the VM itself stays as it was written"


def test_vms_keep_what_they_had_when_the_type_is_edited_or_goes(typed: World) -> None:
    typed.create("first")
    uid = typed.run("first").metadata.uid
    typed.edit(TYPE, "small", {"cpu": {"guest": 1}})
    typed.create("second")
    second = typed.run("second").spec.domain.cpu
    assert second is not None
    assert second.cores == 1
    typed.remove(TYPE, "small")
    typed.client.delete(VirtualMachineInstance, typed.namespace, "first")
    wait_until(lambda: (vmi := typed.vmi("first")) is not None and vmi.metadata.uid != uid, "there is a new run")
    first = typed.run("first").spec.domain.cpu
    assert first is not None
    assert first.cores == 2


def test_a_vm_starts_once_its_type_is_there(world: World) -> None:
    world.create(preference=None)
    words = f'FailedFindInstancetype: {TYPE.lower()}s.instancetype.kubevirt.io "small" not found'
    wait_until(lambda: world.failure() == words, "it says what it lacks")
    assert world.vmi() is None
    world.make(TYPE, "small", SMALL)
    world.run()
    wait_until(lambda: world.failure() == "", "nothing is wrong any more")


def test_another_type_needs_a_restart_and_the_same_one_again_none(typed: World) -> None:
    typed.make(TYPE, "large", {"cpu": {"guest": 4}, "memory": {"guest": "256Mi"}})
    typed.create()
    vmi = typed.run()
    typed.patch({"spec": {"instancetype": {"name": "large"}}})
    wait_until(typed.needs_restart, "a restart is asked for")
    ref = typed.vm().status.instancetype_ref
    assert ref is not None
    assert ref.name == "large"
    typed.patch({"spec": {"instancetype": {"name": "small"}}})
    wait_until(lambda: not typed.needs_restart(), "it is as it was")
    typed.patch({"spec": {"instancetype": {"name": "large"}}})
    wait_until(typed.needs_restart, "a restart is asked for")
    assert typed.run().metadata.uid == vmi.metadata.uid


def test_a_vm_that_contradicts_its_type_by_now_does_not_start_and_says_why(typed: World) -> None:
    template = {"spec": {"domain": {"devices": {}, "memory": {"guest": "64Mi"}}}}
    typed.create(template=template, preference=None)
    at = "spec.template.spec.domain.memory.guest"
    wait_until(lambda: f"VM field(s) {at} conflicts with selected instance type" in typed.failure(), "it says so")
    assert typed.vmi() is None


def test_a_copy_that_the_spec_names_is_used(typed: World) -> None:
    typed.create("first", "Halted")
    wait_until(lambda: typed.vm("first").status.instancetype_ref is not None, "the first VM has a copy")
    ref = typed.vm("first").status.instancetype_ref
    assert ref is not None
    assert ref.controller_revision_ref is not None
    name = ref.controller_revision_ref.name
    typed.edit(TYPE, "small", {"cpu": {"guest": 1}})
    typed.create(instancetype={"name": "small", "kind": TYPE, "revisionName": name}, preference=None)
    cpu = typed.run().spec.domain.cpu
    assert cpu is not None
    assert cpu.sockets == 2


def test_copies_of_versions_before_are_made_anew(typed: World) -> None:
    found = typed.client.request("GET", f"{typed._path(TYPE)}/small")
    vm = typed.create(strategy="Halted", preference=None)
    wait_until(lambda: TYPE in typed.copies(vm), "there is a copy")
    copy = typed.copies(vm)[TYPE]
    old = f"web-small-v1alpha2-{found['metadata']['uid']}-1"
    data = {**copy.data, "apiVersion": "instancetype.kubevirt.io/v1alpha2"}
    body = {
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": {
            "name": old,
            "labels": {**copy.metadata.labels, f"{OBJECT}version": "v1alpha2"},
            "ownerReferences": [
                {
                    "apiVersion": "kubevirt.io/v1",
                    "kind": "VirtualMachine",
                    "name": "web",
                    "uid": vm.metadata.uid,
                    "controller": True,
                }
            ],
        },
        "data": data,
        "revision": 0,
    }
    path = ControllerRevision.KIND.path(typed.namespace)
    typed.client.request("POST", path, body)
    status = {"status": {"instancetypeRef": {"controllerRevisionRef": {"name": old}}}}
    typed.client.patch(VirtualMachine, typed.namespace, "web", MergePatch(status), "status")

    def is_new() -> bool:
        ref = typed.vm().status.instancetype_ref
        return ref is not None and ref.controller_revision_ref is not None and ref.controller_revision_ref.name != old

    wait_until(is_new, "the VM names the new copy")
    names = {each.metadata.name for each in typed.client.list(ControllerRevision, typed.namespace)}
    wait_until(
        lambda: old not in {each.metadata.name for each in typed.client.list(ControllerRevision, typed.namespace)},
        "the old copy is gone",
    )
    assert copy.metadata.name in names


@pytest.fixture
def expands_all(either_server: EitherServer) -> Iterator[None]:
    """The configuration by which VMs say themselves what their types said."""
    client = either_server.admin
    path = KubeVirt.KIND.path("kvedge-system")
    body = {"apiVersion": "kubevirt.io/v1", "kind": "KubeVirt", "metadata": {"name": "kubevirt"}, "spec": {}}
    with contextlib.suppress(AlreadyExists):
        client.request("POST", path, body)

    def set_policy(policy: str | None) -> None:
        spec = {"configuration": {"instancetype": None if policy is None else {"referencePolicy": policy}}}
        client.request("PATCH", f"{path}/kubevirt", {"spec": spec}, None, "application/merge-patch+json")

    set_policy("expandAll")
    yield
    set_policy(None)


def test_a_vm_may_say_itself_what_its_types_said(typed: World, expands_all: None) -> None:
    vm = typed.create(strategy="Halted")

    def is_expanded() -> bool:
        found = typed.vm()
        return found.spec.instancetype is None and found.spec.preference is None

    wait_until(is_expanded, "the VM names no types")
    spec = typed.vm().spec.template
    assert spec is not None
    assert spec.spec.domain.cpu is not None
    assert spec.spec.domain.cpu.cores == 2
    assert [disk.disk.bus for disk in spec.spec.domain.devices.disks if disk.disk is not None] == ["virtio"]
    wait_until(lambda: not typed.copies(vm), "there are no copies")
    wait_until(lambda: typed.vm().status.instancetype_ref is None, "nor words of them")


def test_ready_made_ones_are_written_once_and_taken_away_where_they_are_not_wanted(
    either_server: EitherServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(common_types_loop, "_FIRST_SECONDS", 0.0)
    monkeypatch.setattr(common_types_loop, "_PAUSE_SECONDS", 0.01)
    client = KubeClient.from_kubeconfig(either_server.kubeconfig_of(CONTROLLER_USER, CONTROLLER_GROUP))
    kinds = (VirtualMachineClusterInstancetype.KIND, VirtualMachineClusterPreference.KIND)

    def count() -> list[int]:
        return [len(either_server.admin.request("GET", kind.path())["items"]) for kind in kinds]

    wants = True
    loop = CommonTypesLoop(client, lambda: wants)
    small = kinds[0].path(name="u1.small")
    loop.start()
    try:
        wait_until(lambda: count() == [65, 52], "all are there")
        kept = either_server.admin.request("GET", small)
        either_server.admin.request("DELETE", kinds[0].path(name="u1.nano"))
        loop.look_again()
        wait_until(lambda: loop.loop.busy_seconds() == 0, "it has looked")
        assert count() == [64, 52], "what a user takes away does not come back by itself"
        assert either_server.admin.request("GET", small) == kept
        wants = False
        loop.look_again()
        wait_until(lambda: count() == [0, 0], "none is left")
    finally:
        loop.stop()
        client.close()
    assert loop.failure() is None


def test_a_vm_of_a_snapshot_has_the_type_of_then(typed: World) -> None:
    typed.create(strategy="Halted")
    wait_until(lambda: typed.vm().status.preference_ref is not None, "the VM has copies")
    group = {"apiGroup": "kubevirt.io", "kind": "VirtualMachine"}
    where = {"name": "then", "namespace": typed.namespace}
    document = {"metadata": where, "spec": {"source": {**group, "name": "web"}}}
    typed.client.create(decode(VirtualMachineSnapshot, document))
    wait_until(
        lambda: typed.client.get(VirtualMachineSnapshot, typed.namespace, "then").status.phase == "Succeeded",
        "the snapshot is taken",
    )
    typed.edit(TYPE, "small", {"cpu": {"guest": 1}})
    typed.remove(PREFERENCE, "penguin")
    spec = {"target": {**group, "name": "twin"}, "virtualMachineSnapshotName": "then"}
    typed.client.create(decode(VirtualMachineRestore, {"metadata": where, "spec": spec}))

    def has_copies() -> bool:
        found = {vm.metadata.name: vm for vm in typed.client.list(VirtualMachine, typed.namespace)}
        return "twin" in found and set(typed.copies(found["twin"])) == {TYPE, PREFERENCE}

    wait_until(has_copies, "the new VM has copies of its own")
    copies = typed.copies(typed.vm("twin"))
    assert copies[TYPE].data["spec"] == SMALL
    assert copies[PREFERENCE].data["spec"] == PENGUIN
    wait_until(lambda: KEPT_TYPES not in typed.vm("twin").metadata.annotations, "and needs no others")
    typed.patch({"spec": {"runStrategy": "Always"}}, "twin")
    cpu = typed.run("twin").spec.domain.cpu
    assert cpu is not None
    assert cpu.cores == 2

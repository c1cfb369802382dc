# Tests: kvedge/controller/pools/pool_loop.py, kvedge/controller/pools/pool_writes.py
# Tests: kvedge/controller/pools/state_keeper.py, kvedge/controller/pools/pool_refusals.py
"""Answers that get lost and calls that are refused: a pool has its number in the end, and never one more."""

from __future__ import annotations

import copy
import random
from typing import Any
from unittest.mock import MagicMock

import pytest

from kvedge.controller.pools.pool_loop import PoolLoop, PoolSources
from kvedge.kube.errors import AlreadyExists, Forbidden, KubeError, NotFound, Unavailable
from kvedge.kube.patches import MergePatch, document
from kvedge.kube.reconcile_loop import Again
from kvedge.kube.work_queue import Key
from kvedge.resources.codec import decode, encode
from kvedge.resources.data_volume_names import KEPT_FOR_POOL
from kvedge.resources.meta import LabelSelector, ObjectMeta, OwnerReference
from kvedge.resources.types.controller_revision import ControllerRevision
from kvedge.resources.types.data_volumes import DataVolume
from kvedge.resources.types.scaling.pools import POOL_FINALIZER, REVISION_OF_POOL, VirtualMachinePool
from kvedge.resources.types.storage import PersistentVolumeClaim
from kvedge.resources.types.vm import VirtualMachine
from tests.support.builders import owned_by, patched
from tests.support.clocks import FakeClock
from tests.unit.controller.pools.test_pool_plan import a_guest, a_pool
from tests.unit.controller.replicas.late_server import LateCache

KEY = Key("default", "web")
MOMENT = "2026-01-02T03:00:00Z"
FOREGROUND = "foregroundDeletion"


class PoolServer:
    """One pool and its VMs; with `moods`, answers get lost. The watch of VMs comes when the test says so."""

    def __init__(self, replicas: int, moods: random.Random | None = None) -> None:
        self.moods = moods
        self.refusal: KubeError | None = None
        self.version = 100
        self.pools, self.vms, self.vmis, self.revisions = LateCache(), LateCache(), LateCache(), LateCache()
        self.pool = a_pool(replicas)
        self.pool.metadata.finalizers = [POOL_FINALIZER]
        self.live: dict[str, VirtualMachine] = {}
        self.ended: list[tuple[str, str]] = []
        self.kept: dict[str, ControllerRevision] = {}
        # A VM that the server does not let be deleted.
        self.stubborn = ""
        self.disks: dict[str, DataVolume | PersistentVolumeClaim] = {}
        self.clock, self.events = FakeClock(), MagicMock()
        self._changed(self.pools, self.pool)
        self.pools.deliver()
        sources = PoolSources(self, self.pools, self.vms, self.vmis, self.revisions, self.events, self.clock)  # type: ignore[arg-type]
        self.loop = PoolLoop(sources)

    def turn(self) -> KubeError | None:
        self.clock.seconds += 120
        self.collect()
        try:
            self.loop.reconcile(KEY)
        except KubeError as error:
            return error
        return None

    def create(self, item: Any) -> Any:
        if not isinstance(item, VirtualMachine):
            if item.metadata.name in self.kept:
                raise AlreadyExists(409, "AlreadyExists", item.metadata.name)
            self.kept[item.metadata.name] = copy.deepcopy(item)
            return self._changed(self.revisions, copy.deepcopy(item))
        if self.refusal is not None:
            raise self.refusal
        if item.metadata.name in self.live:
            raise AlreadyExists(409, "AlreadyExists", item.metadata.name)
        assert len(self.live) < self.pool.replicas, "one too many"
        made = copy.deepcopy(item)
        made.metadata.uid = f"uid-{item.metadata.name}"
        self.live[item.metadata.name] = made
        answer = self._changed(self.vms, made)
        self._be_moody()
        return answer

    def list(self, cls: type, namespace: str) -> list[Any]:
        if cls is not VirtualMachine:
            return [copy.deepcopy(item) for item in self.disks.values() if isinstance(item, cls)]
        return copy.deepcopy(list(self.live.values()))

    def get(self, cls: type, namespace: str, name: str) -> Any:
        if cls is ControllerRevision:
            if name not in self.kept:
                raise NotFound(404, "NotFound", name)
            return copy.deepcopy(self.kept[name])
        if cls is VirtualMachinePool:
            if self.pool.metadata.name != name:
                raise NotFound(404, "NotFound", name)
            return copy.deepcopy(self.pool)
        return copy.deepcopy(self._found(name))

    def delete(self, cls: type, namespace: str, name: str, as_seen: Any, propagation: str = "") -> Any:
        self.ended.append((cls.__name__, name))
        if cls is ControllerRevision:
            if name not in self.kept:
                raise NotFound(404, "NotFound", name)
            assert as_seen.uid == self.kept[name].metadata.uid
            self.revisions.pending.append((self._changed(self.revisions, self.kept.pop(name)), True))
            self.revisions.deliver()
        if cls is not VirtualMachine:
            return None
        if name == self.stubborn:
            raise Forbidden(403, "Forbidden", f"{name} stays")
        self._found(name).metadata.deletion_timestamp = MOMENT
        if propagation == "Foreground":
            self.live[name].metadata.finalizers.append(FOREGROUND)
        answer = self._changed(self.vms, self.live[name])
        self._be_moody()
        return answer

    def patch(self, cls: type, namespace: str, name: str, patch: Any, subresource: str = "") -> Any:
        if cls is VirtualMachinePool:
            self.pool = decode(VirtualMachinePool, patched(encode(self.pool), patch.body))
            return self._changed(self.pools, self.pool)
        if cls is DataVolume:
            self.disks[name] = decode(DataVolume, patched(encode(self.disks[name]), document(patch)))
            return self.disks[name]
        vm = decode(VirtualMachine, patched(encode(self._found(name)), patch.body))
        if vm.metadata.deletion_timestamp is None or vm.metadata.finalizers:
            self.live[name] = vm
            return self._changed(self.vms, vm)
        del self.live[name]
        self._end_disks_of(vm.metadata.uid)
        gone = self._changed(self.vms, vm)
        self.vms.pending[-1] = (gone, True)
        return gone

    def collect(self) -> None:
        """Play the garbage collector: in Foreground the disks go before their VM."""
        for name, vm in list(self.live.items()):
            if FOREGROUND in vm.metadata.finalizers:
                self._end_disks_of(vm.metadata.uid)
                left = [item for item in vm.metadata.finalizers if item != FOREGROUND]
                self.patch(VirtualMachine, "default", name, MergePatch({"metadata": {"finalizers": left}}))

    def _end_disks_of(self, uid: str) -> None:
        for name, disk in list(self.disks.items()):
            if any(owner.uid == uid for owner in disk.metadata.owner_references):
                del self.disks[name]

    def own(self, cls: type[DataVolume] | type[PersistentVolumeClaim], name: str, vm: str) -> None:
        """A disk that is a VM's."""
        owners = [owned_by("VirtualMachine", vm, f"uid-{vm}")]
        self.disks[name] = decode(cls, {"metadata": {"name": name, "ownerReferences": owners}, "spec": {}})

    def scale(self, replicas: int) -> None:
        self.pool.spec.replicas = replicas
        self._changed(self.pools, self.pool)
        self.pools.deliver()

    def _found(self, name: str) -> VirtualMachine:
        if name not in self.live:
            raise NotFound(404, "NotFound", name)
        return self.live[name]

    def _changed(self, cache: LateCache, item: Any) -> Any:
        self.version += 1
        item.metadata.resource_version = str(self.version)
        cache.pending.append((copy.deepcopy(item), False))
        return copy.deepcopy(item)

    def _be_moody(self) -> None:
        if self.moods is not None and self.moods.random() < 0.4:
            raise Unavailable(0, "", "no answer")


@pytest.mark.parametrize("seed", range(30))
def test_the_wanted_number_is_reached_and_never_exceeded(seed: int) -> None:
    fate = random.Random(seed)
    server = PoolServer(4, fate)
    for _ in range(12):
        server.turn()
        server.vms.deliver(fate.randrange(3))
    server.moods = None
    server.vms.deliver()
    server.turn()
    assert server.live.keys() == {"web-0", "web-1", "web-2", "web-3"}
    server.moods = fate
    server.scale(1)
    for _ in range(12):
        server.turn()
        server.vms.deliver(fate.randrange(3))
    server.moods = None
    for _ in range(6):
        server.vms.deliver()
        server.turn()
    assert len(server.live) == 1
    assert server.pool.status.replicas == 1


def test_a_refused_vm_is_a_condition_and_is_tried_again_after_a_while_or_a_change() -> None:
    server = PoolServer(1)
    server.refusal = Forbidden(403, "Forbidden", "exceeded quota")
    again = server.loop.reconcile(KEY)
    assert isinstance(again, Again)
    (failure,) = server.pool.status.conditions
    assert (failure.type, failure.reason, failure.message) == ("ReplicaFailure", "FailedScaleOut", "exceeded quota")
    told = [call.args[1:] for call in server.events.record.call_args_list]
    assert told == [("Warning", "FailedScaleOut", "exceeded quota")]
    server.refusal = None
    server.loop.reconcile(KEY)
    assert server.live == {}
    server.clock.seconds += again.after
    server.loop.reconcile(KEY)
    assert server.live.keys() == {"web-0"}
    assert server.pool.status.conditions == []


def a_pool_that_keeps(server: PoolServer) -> None:
    server.pool.spec = a_pool(1, scaleInStrategy={"proactive": {"statePreservation": "Offline"}}).spec
    server.scale(1)


def settle(server: PoolServer) -> None:
    for _ in range(4):
        server.vms.deliver()
        server.turn()


def test_disks_go_before_the_number_of_their_vm_is_free() -> None:
    server = PoolServer(1)
    server.turn()
    server.own(DataVolume, "disk-0", "web-0")
    server.scale(0)
    server.loop.reconcile(KEY)
    assert server.live["web-0"].metadata.finalizers == [FOREGROUND]
    settle(server)
    assert (server.live, server.disks) == ({}, {})


def test_all_disks_that_a_vm_owns_are_kept_and_marked_whatever_its_spec_names() -> None:
    server = PoolServer(1)
    a_pool_that_keeps(server)
    server.turn()
    server.own(DataVolume, "disk-0", "web-0")
    server.own(DataVolume, "of-another-vm", "other")
    # Somebody has taken away what holds the VM until its disks are kept.
    server.live["web-0"].metadata.finalizers = []
    server._changed(server.vms, server.live["web-0"])
    server.vms.deliver()
    server.scale(0)
    settle(server)
    assert server.live == {}
    kept = server.disks["disk-0"].metadata
    assert (kept.owner_references, kept.annotations) == ([], {KEPT_FOR_POOL: "web"})
    assert server.disks["of-another-vm"].metadata.annotations == {}


@pytest.mark.parametrize("by_user", [False, True], ids=["the pool ends it", "its user ends it"])
def test_a_vm_that_owns_a_claim_itself_does_not_go_where_the_state_is_kept(by_user: bool) -> None:
    server = PoolServer(1)
    a_pool_that_keeps(server)
    server.turn()
    server.own(PersistentVolumeClaim, "bare", "web-0")
    if by_user:
        server.delete(VirtualMachine, "default", "web-0", None)
        server.vms.deliver()
    else:
        server.scale(0)
    settle(server)
    (failure,) = server.pool.status.conditions
    assert failure.reason == "FailedScaleIn"
    assert "owns PersistentVolumeClaim bare" in failure.message
    assert server.live.keys() == {"web-0"}
    server.disks["bare"].metadata.owner_references = []
    server.scale(0)
    settle(server)
    assert (server.live, set(server.disks), server.pool.status.conditions) == ({}, {"bare"}, [])


def test_disks_of_a_vm_that_goes_in_foreground_are_not_kept() -> None:
    server = PoolServer(1)
    a_pool_that_keeps(server)
    server.turn()
    server.own(DataVolume, "disk-0", "web-0")
    server.delete(VirtualMachine, "default", "web-0", None, "Foreground")
    server.vms.deliver()
    server.loop.reconcile(KEY)
    assert server.disks["disk-0"].metadata.annotations == {}
    assert server.live["web-0"].metadata.finalizers == [FOREGROUND]


def test_a_guest_of_a_vms_name_that_is_another_owners_is_not_restarted() -> None:
    server = PoolServer(1)
    server.turn()
    theirs = a_guest(0, "of-another-pool", ready=False, ownerReferences=[owned_by("VirtualMachine", "web-0", "other")])
    server._changed(server.vmis, theirs)
    server.vmis.deliver()
    server.turn()
    assert server.ended == []
    own = a_guest(0, "web-0", ready=False, ownerReferences=[owned_by("VirtualMachine", "web-0", "uid-web-0")])
    server._changed(server.vmis, own)
    server.vmis.deliver()
    server.turn()
    assert set(server.ended) == {("VirtualMachineInstance", "web-0")}


def test_a_pool_whose_selector_selects_no_copy_makes_nothing_and_says_why() -> None:
    server = PoolServer(1)
    settle(server)
    known = server.pool.status.label_selector
    selector = server.pool.spec.selector
    server.pool.spec.selector = LabelSelector(match_labels={"app": "other"})
    server.scale(3)
    settle(server)
    (condition,) = server.pool.status.conditions
    assert (condition.type, condition.reason) == ("ReplicaFailure", "SelectorNotUsable")
    assert condition.message == "spec.selector does not match spec.virtualMachineTemplate.metadata.labels"
    assert (len(server.live), server.pool.status.replicas, server.pool.status.label_selector) == (1, 1, known)
    # A selector that is mended is used again.
    server.pool.spec.selector = selector
    server.scale(2)
    settle(server)
    assert (len(server.live), server.pool.status.conditions) == (2, [])


def test_a_refused_vm_holds_up_no_other_and_is_tried_again_after_a_while() -> None:
    server = PoolServer(4)
    server.turn()
    server.vms.deliver()
    server.stubborn = "web-1"
    server.scale(0)
    again = server.loop.reconcile(KEY)
    assert isinstance(again, Again)
    assert again.after >= 1
    server.collect()
    server.vms.deliver()
    assert server.live.keys() == {"web-1"}
    (failure,) = server.pool.status.conditions
    assert (failure.reason, failure.message) == ("FailedScaleIn", "web-1 stays")
    server.stubborn = ""
    settle(server)
    assert (server.live, server.pool.status.conditions) == ({}, [])


@pytest.mark.parametrize("same", [True, False], ids=["of the same spec", "of another spec"])
def test_a_pool_made_anew_takes_the_revision_of_an_orphaned_one_away(same: bool) -> None:
    server = PoolServer(1)
    spec = encode(server.pool.spec) if same else {"replicas": 7}
    orphan = ObjectMeta(name="web-1", namespace="default", uid="orphan", labels={REVISION_OF_POOL: ""})
    server.kept["web-1"] = ControllerRevision(metadata=orphan, data=spec, revision=1)
    server.turn()
    owner = server.kept["web-1"].metadata.controller_reference()
    assert owner is not None
    assert (owner.uid, server.kept["web-1"].data) == ("pool", encode(server.pool.spec))
    assert server.live.keys() == {"web-0"}


def test_a_revision_of_somebody_else_in_the_way_is_told() -> None:
    server = PoolServer(1)
    theirs = ObjectMeta(name="web-1", namespace="default", uid="ds", owner_references=[an_owner("DaemonSet", "web")])
    server.kept["web-1"] = ControllerRevision(metadata=theirs, data={}, revision=1)
    server.turn()
    (failure,) = server.pool.status.conditions
    assert failure.reason == "FailedScaleOut"
    assert "ControllerRevision web-1" in failure.message
    assert "belongs to DaemonSet web" in failure.message
    assert server.live == {}
    assert server.kept["web-1"].metadata.uid == "ds"


def test_a_revision_of_an_earlier_pool_is_waited_for() -> None:
    server = PoolServer(1)
    owner = an_owner("VirtualMachinePool", "web")
    earlier = ObjectMeta(name="web-1", namespace="default", uid="r", owner_references=[owner])
    server.kept["web-1"] = ControllerRevision(metadata=earlier, data={}, revision=1)
    assert isinstance(server.loop.reconcile(KEY), Again)
    assert server.pool.status.conditions == []
    del server.kept["web-1"]
    server.turn()
    assert server.live.keys() == {"web-0"}


def an_owner(kind: str, name: str) -> OwnerReference:
    return OwnerReference(api_version="x/v1", kind=kind, name=name, uid="theirs", controller=True)


@pytest.mark.parametrize("pool_is_there", [True, False], ids=["another one has its name", "none has its name"])
def test_vms_whose_pool_ended_without_the_controller_are_let_go(pool_is_there: bool) -> None:
    server = PoolServer(1)
    server.turn()
    # The same VM, of a pool that is no more; and one of a pool that the cache does not know yet.
    name = "web" if pool_is_there else "gone"
    server.live["web-0"].metadata.owner_references = [an_owner("VirtualMachinePool", name)]
    server.live["web-0"].metadata.deletion_timestamp = MOMENT
    server._changed(server.vms, server.live["web-0"])
    server.vms.deliver()
    server.scale(0)
    server.loop.reconcile(Key("default", name))
    assert server.live == {}


def test_vms_of_a_pool_that_the_cache_does_not_know_yet_are_not_let_go() -> None:
    server = PoolServer(1)
    server.turn()
    server.pool.spec.paused = True
    server.scale(1)
    server.pool.metadata.uid = server.live["web-0"].metadata.owner_references[0].uid = "newer"
    server._changed(server.vms, server.live["web-0"])
    server.vms.deliver()
    server.loop.reconcile(KEY)
    assert POOL_FINALIZER in server.live["web-0"].metadata.finalizers


def test_a_pool_that_goes_lets_a_vm_go_whose_making_had_no_answer() -> None:
    server = PoolServer(1, MagicMock(random=lambda: 0.0))
    assert isinstance(server.turn(), Unavailable)
    assert server.vms.get("default", "web-0") is None
    server.moods = None
    server.pool.metadata.deletion_timestamp = MOMENT
    server.pool.metadata.finalizers = [POOL_FINALIZER, "orphan"]
    server.scale(1)
    server.turn()
    assert POOL_FINALIZER not in server.live["web-0"].metadata.finalizers
    assert server.pool.metadata.finalizers == ["orphan"]


def test_a_pool_that_goes_lets_its_vms_go() -> None:
    server = PoolServer(2)
    server.turn()
    assert all(POOL_FINALIZER in vm.metadata.finalizers for vm in server.live.values())
    server.pool.metadata.deletion_timestamp = "2026-01-02T03:00:00Z"
    server.pool.metadata.finalizers = [POOL_FINALIZER, "orphan"]
    server._changed(server.pools, server.pool)
    server.pools.deliver()
    server.vms.deliver()
    server.turn()
    assert not any(POOL_FINALIZER in vm.metadata.finalizers for vm in server.live.values())
    assert server.pool.metadata.finalizers == ["orphan"]

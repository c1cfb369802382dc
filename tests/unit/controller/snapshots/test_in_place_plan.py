# Tests: kvedge/controller/snapshots/in_place_record.py
"""A restore into the same claims: both volumes keep what they hold until the new one has its claim, come what may."""

from __future__ import annotations

from typing import Any

import pytest

from kvedge.controller.snapshots.in_place_record import in_place_volumes, is_of_claims, read_record
from kvedge.controller.snapshots.restore_plan import plan_restore
from kvedge.controller.snapshots.restored_vm import fill_name
from kvedge.controller.snapshots.snapshot_actions import Create, Delete, Patch, SnapshotPlan
from kvedge.controller.snapshots.snapshot_view import RestoreView
from kvedge.resources.codec import decode, encode
from kvedge.resources.data_volume_names import PRE_POPULATED
from kvedge.resources.disks.snapshot_names import LAST_RESTORE
from kvedge.resources.meta import Condition, OwnerReference
from kvedge.resources.types.data_volumes import DataVolume
from kvedge.resources.types.storage import PersistentVolume, PersistentVolumeClaim
from kvedge.runtime.clock import rfc3339
from tests.support.builders import VM_UID, a_claim, patched
from tests.unit.controller.snapshots.snapshot_world import COPIES, NEW, RESTORE_UID, World

OLD = {"root": "web-root", "data": "web-data"}
PROTECTION = ["kubernetes.io/pvc-protection"]


class Places(World):
    """A world with volumes, whose content is the name of the claim that they were made for.

    Claims are bound and volumes go as Kubernetes has it. `held` are claims that a Pod uses: they are deleted later.
    """

    def __init__(self) -> None:
        super().__init__()
        self.places: dict[str, PersistentVolume] = {}
        self.held: set[str] = set()
        self.users: dict[str, str] = {}
        self.erased: list[str] = []
        self.made = 0
        self.namespace_goes = False

    def begin(self, policy: str = "Delete", **spec: Any) -> None:
        """A snapshot is there and a restore asked for; its new data are complete."""
        self.take()
        for name in OLD.values():
            self.provision(name, policy)
        self.ask_restore(volumeRestorePolicy="InPlace", **spec)
        self.restore.metadata.finalizers = ["x"]  # type: ignore[union-attr]
        self.settle_restore()

    def fill_new(self) -> None:
        self.fill(*(name for name in NEW.values() if name in self.volumes))
        for name in NEW.values():
            if name in self.volumes:
                self.provision(name)

    def provision(self, claim: str, policy: str = "Delete") -> None:
        """A claim with a volume of its own."""
        name = f"pv-{claim}"
        ref = {"kind": "PersistentVolumeClaim", "namespace": "default", "name": claim, "uid": f"uid-of-{claim}"}
        spec = {"claimRef": ref, "persistentVolumeReclaimPolicy": policy, "capacity": {"storage": "10Gi"}}
        self.places[name] = decode(PersistentVolume, {"metadata": {"name": name}, "spec": spec})
        self.claims[claim] = a_claim(claim, storage_class_name="disks", volume_name=name)
        self.claims[claim].metadata.labels = {"site": "north"}

    def look_at_restore(self) -> SnapshotPlan:
        assert self.restore is not None
        volumes = in_place_volumes(self.restore)
        names = [each.persistent_volume_claim for each in volumes]
        fillers = [fill_name(self.restore, each) for each in volumes]
        wanted = {name for each in read_record(self.restore) for name in (each.new_volume, each.old_volume)}
        wanted |= {self.claims[name].spec.volume_name for name in (*names, *fillers) if name in self.claims}
        view = RestoreView(
            *(self.restore, self.snapshot, self.content, self.vm, self.vmi, self.claims),
            *(self.volumes, self.volumes, self.refusal, self.volumes),
            targets={name: self.claims[name] for name in names if name in self.claims},
            target_volumes={name: self.volumes[name] for name in names if name in self.volumes},
            staged={name: self.claims[name] for name in fillers if name in self.claims},
            places={
                name: self.places[name]
                for name in wanted
                if name in self.places and is_of_claims(self.places[name], "default", {*names, *fillers})
            },
            users={name: self.users[name] for name in names if name in self.users},
        )
        return plan_restore(view, self.now)

    def step(self) -> bool:
        """One action of the next plan, as if the controller were killed after it; whether there was one."""
        if self.restore is None:
            return False
        plan = self.look_at_restore()
        if plan.actions:
            self._do(plan.actions[0])
        self.live()
        return bool(plan.actions)

    def live(self) -> None:
        """What Kubernetes' own controllers do meanwhile."""
        for name in [name for name, claim in self.claims.items() if claim.metadata.deletion_timestamp]:
            if name not in self.held:
                del self.claims[name]
        for claim in self.claims.values():
            place = self.places.get(claim.spec.volume_name)
            ref = None if place is None else place.spec.claim_ref
            if ref is not None and ref.name == claim.metadata.name and ref.uid in ("", claim.metadata.uid):
                ref.uid, claim.status.phase = claim.metadata.uid, "Bound"
        uids = {claim.metadata.uid for claim in self.claims.values()}
        for name, place in list(self.places.items()):
            ref = place.spec.claim_ref
            is_free = ref is not None and ref.uid and ref.uid not in uids
            if is_free and place.spec.persistent_volume_reclaim_policy == "Delete":
                self.erased.append(name)
                del self.places[name]

    def _do(self, action: Any) -> None:
        if self.namespace_goes:
            # A write that succeeds has the last refusal forgotten.
            self.refusal = ""
        match action:
            case Create() if self.namespace_goes:
                self.refusal = "unable to create new content in namespace default because it is being terminated"
            case Create(PersistentVolumeClaim() as item):
                assert item.metadata.name not in self.claims
                self.made += 1
                item.metadata.uid, item.status.phase = f"made-{self.made}", "Pending"
                self.claims[item.metadata.name] = item
            case Delete(PersistentVolumeClaim() as item):
                self.claims[item.metadata.name].metadata.deletion_timestamp = rfc3339(self.now)
            case Delete(DataVolume() as item):
                del self.volumes[item.metadata.name]
                if item.metadata.name in self.claims:
                    # Its claim goes with it.
                    self.claims[item.metadata.name].metadata.deletion_timestamp = rfc3339(self.now)
            case Patch(PersistentVolume() as item, body):
                self.places[item.metadata.name] = decode(PersistentVolume, patched(encode(item), body))
            case _:
                super()._do(action)

    def _settle(self, which: str, look: Any) -> SnapshotPlan:
        for _ in range(60):
            if getattr(self, which) is None:
                return SnapshotPlan()
            plan: SnapshotPlan = look()
            if not plan.actions:
                return plan
            for action in plan.actions:
                self._do(action)
                self.live()
            self.told += plan.told
        raise AssertionError(f"the plan does not settle: {plan}")

    def content_of(self, claim: str) -> str:
        """The claim that the volume below a claim was made for."""
        found = self.claims[claim]
        assert found.status.phase == "Bound"
        return found.spec.volume_name.removeprefix("pv-")


@pytest.fixture
def world() -> Places:
    found = Places()
    found.begin()
    return found


def status(world: Places) -> Any:
    assert world.restore is not None
    return world.restore.status


def is_whole(world: Places) -> bool:
    """Whether each of both disks is there with its old data or with its new ones."""
    return all({f"pv-{OLD[name]}", f"pv-{NEW[name]}"} & set(world.places) for name in OLD)


def test_each_claim_gets_its_new_data_under_its_name(world: Places) -> None:
    assert [each.persistent_volume_claim for each in status(world).restores] == list(OLD.values())
    assert {name: world.content_of(name) for name in OLD.values()} == {name: name for name in OLD.values()}
    world.fill_new()
    world.settle_restore()
    assert status(world).complete
    assert [world.content_of(name) for name in OLD.values()] == list(NEW.values())
    assert not set(NEW.values()) & (set(world.claims) | set(world.volumes))
    assert sorted(world.erased) == ["pv-web-data", "pv-web-root"]
    for name in OLD.values():
        claim = world.claims[name]
        assert claim.metadata.labels == {"site": "north"}
        assert claim.metadata.annotations[LAST_RESTORE] == f"back-{RESTORE_UID}"
        assert world.places[claim.spec.volume_name].spec.persistent_volume_reclaim_policy == "Delete"
    # Nobody fills the disk of the VM's own DataVolume anew.
    assert world.volumes["web-root"].metadata.annotations[PRE_POPULATED] == "web-root"
    vm = world.vm
    assert vm is not None
    assert not vm.status.restore_in_progress
    assert status(world).deleted_data_volumes == []
    # The snapshot is still there.
    assert set(COPIES.values()) <= set(world.claims)


def test_a_claim_keeps_its_owner_unless_that_fills_it(world: Places) -> None:
    owner = OwnerReference(api_version="kubevirt.io/v1", kind="VirtualMachine", name="web", uid=VM_UID)
    filler = OwnerReference(api_version="cdi.kubevirt.io/v1beta1", kind="DataVolume", name="web-root", uid="d")
    for name in OLD.values():
        world.claims[name].metadata.owner_references = [owner, filler]
    world.fill_new()
    world.settle_restore()
    assert [world.claims[name].metadata.owner_references for name in OLD.values()] == [[owner], [owner]]


def test_a_controller_that_is_killed_after_each_write_goes_on_and_loses_nothing(world: Places) -> None:
    world.fill_new()
    for _ in range(80):
        assert is_whole(world)
        if not world.step():
            break
    assert status(world).complete
    assert [world.content_of(name) for name in OLD.values()] == list(NEW.values())


@pytest.mark.parametrize("steps", range(24))
def test_a_restore_that_is_deleted_leaves_old_disks_or_new_ones(world: Places, steps: int) -> None:
    world.fill_new()
    for _ in range(steps):
        world.step()
    if status(world).complete:
        return
    world.delete("restore")
    world.restore.metadata.finalizers = ["snapshot.kubevirt.io/vmrestore-protection"]  # type: ignore[union-attr]
    for _ in range(80):
        assert is_whole(world)
        if not world.step():
            break
    assert world.restore is None
    found = [world.content_of(name) for name in OLD.values()]
    assert found in (list(OLD.values()), list(NEW.values()))
    assert all(each.spec.persistent_volume_reclaim_policy == "Delete" for each in world.places.values())
    assert world.vm is not None
    assert not world.vm.status.restore_in_progress
    # What the other side was made of is gone.
    assert len(world.places) == len(OLD)


def test_a_claim_that_a_pod_still_has_is_waited_for(world: Places) -> None:
    world.users["web-data"] = "Pod copier"
    world.fill_new()
    world.settle_restore()
    assert "PVC web-data is in use by Pod copier" in message(world)
    assert all(world.content_of(name) == name for name in OLD.values())
    world.users.clear()
    world.held.add("web-data")
    world.settle_restore()
    assert "PVC web-data is being deleted" in message(world)
    assert set(world.places) == {f"pv-{name}" for name in (*OLD.values(), *NEW.values())}
    world.held.clear()
    world.live()
    world.settle_restore()
    assert status(world).complete


def test_a_claim_that_somebody_makes_meanwhile_is_left_alone_and_told(world: Places) -> None:
    world.fill_new()
    while "web-data" in world.claims:
        world.step()
    world.claims["web-data"] = a_claim("web-data", volume_name="pv-foreign")
    world.claims["web-data"].metadata.uid = "foreign"
    world.settle_restore()
    assert "made by somebody else meanwhile: delete it; PersistentVolume pv-restore-" in message(world)
    assert is_whole(world)
    del world.claims["web-data"]
    world.settle_restore()
    assert status(world).complete
    assert world.content_of("web-data") == NEW["data"]


def exchange_claims(world: Places) -> None:
    """Until each claim has its new data, and the VM is about to be written."""
    world.fill_new()
    for _ in range(80):
        plan = world.look_at_restore()
        if any(isinstance(each, Patch) and each.item is world.vm and not each.subresource for each in plan.actions):
            return
        world.step()
    raise AssertionError("the VM is never written")


def policies(world: Places) -> dict[str, str]:
    return {name: each.spec.persistent_volume_reclaim_policy for name, each in world.places.items()}


def test_a_vm_that_is_refused_after_the_exchange_is_tried_again_and_its_old_disks_stay(world: Places) -> None:
    exchange_claims(world)
    world.refusal = "admission webhook denied the request"
    for _ in range(3):
        plan = world.look_at_restore()
        written = [each for each in plan.actions if isinstance(each, Patch) and each.item is world.vm]
        assert len(written) == 1, "nothing else would ever write the VM"
        assert plan.again_after
        for action in plan.actions[1:]:
            world._do(action)
        world.live()
    assert "the VM was refused: admission webhook denied the request" in world.reason("restore")
    assert not world.reason("restore", "Failure")
    assert {f"pv-{name}" for name in OLD.values()} <= set(world.places)
    world.refusal = ""
    world.settle_restore()
    assert status(world).complete
    assert sorted(world.erased) == ["pv-web-data", "pv-web-root"]


def test_volumes_whose_claims_are_gone_are_kept_when_the_snapshot_goes_and_this_is_told(world: Places) -> None:
    exchange_claims(world)
    world.snapshot = world.content = None
    world.settle_restore()
    told = world.reason("restore", "Failure")
    assert "PersistentVolumes that keep the disks of before: pv-web-root, pv-web-data" in told
    assert world.erased == []
    kept = {f"pv-{name}": "Retain" for name in OLD.values()}
    assert policies(world) == {**kept, **{f"pv-{name}": "Delete" for name in NEW.values()}}
    assert world.vm is not None
    assert not world.vm.status.restore_in_progress


@pytest.mark.parametrize("steps", range(24))
def test_one_that_has_failed_erases_no_volume_whose_claim_is_gone(world: Places, steps: int) -> None:
    world.fill_new()
    for _ in range(steps):
        world.step()
    if status(world).complete or LAST_RESTORE in world.vm.metadata.annotations:  # type: ignore[union-attr]
        return
    status(world).conditions.append(Condition(type="Failure", status="True", reason="x"))
    world.settle_restore()
    world.live()
    assert {f"pv-{name}" for name in OLD.values()} <= set(world.places)


def let_namespace_go(world: Places) -> None:
    world.namespace_goes = True
    delete_restore(world)
    for claim in world.claims.values():
        claim.metadata.deletion_timestamp = rfc3339(world.now)
    world.live()


def delete_restore(world: Places) -> None:
    world.delete("restore")
    world.restore.metadata.finalizers = ["snapshot.kubevirt.io/vmrestore-protection"]  # type: ignore[union-attr]


@pytest.mark.parametrize("steps", range(24))
def test_a_namespace_that_goes_meanwhile_is_not_kept_and_no_disk_is_erased_by_us(world: Places, steps: int) -> None:
    world.fill_new()
    for _ in range(steps):
        world.step()
    if status(world).complete:
        return
    held = {name for name, policy in policies(world).items() if policy == "Retain"}
    let_namespace_go(world)
    for _ in range(80):
        if not world.step():
            break
    assert world.restore is None, "its finalizer would keep the namespace for ever"
    assert not world.vm.status.restore_in_progress  # type: ignore[union-attr]
    is_exchanged = LAST_RESTORE in world.vm.metadata.annotations  # type: ignore[union-attr]
    assert is_exchanged or held & {f"pv-{name}" for name in OLD.values()} <= set(world.places)


def test_a_deleted_restore_whose_new_volume_is_gone_ends_and_tells_what_is_kept(world: Places) -> None:
    world.fill_new()
    while {"web-root", "web-data"} & set(world.claims):
        world.step()
    del world.places[f"pv-{NEW['data']}"]
    world.settle_restore()
    assert "cannot be read" in message(world)
    delete_restore(world)
    world.settle_restore()
    assert world.restore is None
    assert world.told[-1].message.endswith("PersistentVolumes that keep the disks of before: pv-web-root, pv-web-data")
    assert {policies(world)[f"pv-{name}"] for name in OLD.values()} == {"Retain"}
    assert world.vm is not None
    assert not world.vm.status.restore_in_progress


def test_a_deleted_restore_ends_although_the_vm_is_refused(world: Places) -> None:
    exchange_claims(world)
    world.refusal = "admission webhook denied the request"
    delete_restore(world)
    for action in world.look_at_restore().actions:
        world._do(action)
    world.live()
    assert world.restore is None, "the VM would be written again"
    assert world.vm is not None
    assert not world.vm.status.restore_in_progress
    assert {policies(world)[f"pv-{name}"] for name in OLD.values()} == {"Retain"}


def test_what_a_role_may_not_do_is_told(world: Places) -> None:
    world.fill_new()
    while not read_record(world.restore):  # type: ignore[arg-type]
        world.step()
    world.refusal = "persistentvolumes is forbidden"
    plan = world.look_at_restore()
    assert [type(each.item) for each in plan.actions[:-1]] == [PersistentVolume] * 4  # type: ignore[union-attr]
    world._do(plan.actions[-1])
    assert "persistentvolumes is forbidden" in message(world)


def test_volumes_keep_the_policy_that_they_had() -> None:
    world = Places()
    world.begin(policy="Retain")
    world.fill_new()
    world.settle_restore()
    assert status(world).complete
    assert world.erased == []
    assert world.places["pv-web-data"].spec.persistent_volume_reclaim_policy == "Retain"
    assert world.places[f"pv-{NEW['data']}"].spec.persistent_volume_reclaim_policy == "Delete"


def test_a_claim_that_is_gone_is_made_again() -> None:
    world = Places()
    world.take()
    world.provision("web-root")
    del world.claims["web-data"]
    world.ask_restore(volumeRestorePolicy="InPlace")
    world.settle_restore()
    world.fill_new()
    world.settle_restore()
    assert status(world).complete
    assert world.content_of("web-data") == NEW["data"]


def test_a_volume_with_a_name_of_its_own_goes_there() -> None:
    world = Places()
    world.begin(volumeRestoreOverrides=[{"volumeName": "data", "restoreName": "apart"}])
    world.fill("apart", NEW["root"])
    world.provision(NEW["root"])
    world.provision("apart")
    world.settle_restore()
    assert status(world).complete
    assert (world.content_of("web-root"), world.content_of("web-data")) == (NEW["root"], "web-data")


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        pytest.param(lambda world: setattr(world, "vm", None), "the VM of the snapshot is not there", id="no vm"),
        pytest.param(
            lambda world: world.vm.spec.template.spec.volumes.pop(1),
            "web-data is no disk of the VM any more",
            id="let go",
        ),
        pytest.param(
            lambda world: world.claims["web-data"].metadata.annotations.update(x="y" * 200_000), "more than", id="long"
        ),
    ],
)
def test_what_cannot_be_done_in_place_fails_before_anything_is_touched(spoil: Any, words: str) -> None:
    world = Places()
    world.take()
    for name in OLD.values():
        world.provision(name)
    spoil(world)
    world.ask_restore(volumeRestorePolicy="InPlace")
    for _ in range(3):
        world.settle_restore()
        world.fill_new()
    world.settle_restore()
    assert words in world.reason("restore", "Failure")
    assert [world.content_of(name) for name in OLD.values()] == list(OLD.values())
    assert {f"pv-{name}" for name in OLD.values()} <= set(world.places)


def message(world: Places) -> str:
    found = next(each for each in status(world).conditions if each.type == "Progressing")
    return found.message or ""


@pytest.mark.parametrize(
    ("ref", "is_ours"),
    [
        ({"namespace": "default", "name": "web-root", "uid": "gone"}, True),
        ({"namespace": "default", "name": "web-root"}, True),
        ({"namespace": "other", "name": "web-root"}, False),
        ({"namespace": "default", "name": "mail-root"}, False),
        (None, False),
    ],
)
def test_no_volume_is_touched_but_those_of_the_restores_own_claims(ref: dict[str, str] | None, is_ours: bool) -> None:
    place = decode(PersistentVolume, {"metadata": {"name": "pv"}, "spec": {} if ref is None else {"claimRef": ref}})
    assert is_of_claims(place, "default", {"web-root", "restore-1-root"}) is is_ours

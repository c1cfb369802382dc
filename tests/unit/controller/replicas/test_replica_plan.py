"""Which VMIs a ReplicaSet claims, makes and deletes."""

from __future__ import annotations

from typing import Any

import pytest

from kvedge.controller.replicas.replica_plan import (
    MOST_AT_ONCE,
    Adopt,
    Release,
    ReplicaPlan,
    ReplicaView,
    plan_claims,
    plan_replicas,
    selector_fault,
    selector_in_use,
)
from kvedge.resources.codec import decode, encode
from kvedge.resources.meta import owner_reference
from kvedge.resources.types.scaling.replica_sets import VirtualMachineInstanceReplicaSet
from kvedge.resources.types.vmi import VirtualMachineInstance
from tests.support.builders import owned_by, replica_set_of, small_vmi, vmi_with

TERMINATING = {"conditions": [{"type": "Ready", "status": "False", "reason": "PodTerminating"}]}
READY = {"conditions": [{"type": "Ready", "status": "True"}]}
UNPLACED = {
    "matchLabels": {"app": "web"},
    "matchExpressions": [{"key": "kubevirt.io/nodeName", "operator": "DoesNotExist"}],
}
MOMENT = "2026-01-02T03:00:00Z"


def a_set(replicas: int | None = 2, deleting: bool = False, **spec: Any) -> VirtualMachineInstanceReplicaSet:
    document = replica_set_of(small_vmi(), replicas, **spec)
    document["metadata"] |= {"uid": "set", **({"deletionTimestamp": MOMENT} if deleting else {})}
    return decode(VirtualMachineInstanceReplicaSet, document)


def a_vmi(name: str, status: dict[str, Any] | None = None, **metadata: Any) -> VirtualMachineInstance:
    status = {"phase": "Running", "nodeName": "node-1", **(status or {})}
    return vmi_with(status=status, **{"name": name, "uid": f"uid-{name}", "labels": {"app": "web"}, **metadata})


def owned(name: str, status: dict[str, Any] | None = None, **metadata: Any) -> VirtualMachineInstance:
    owner = owned_by("VirtualMachineInstanceReplicaSet", "web", "set")
    return a_vmi(name, status, **{"ownerReferences": [owner], **metadata})


def names(vmis: tuple[VirtualMachineInstance, ...]) -> list[str]:
    return [vmi.metadata.name for vmi in vmis]


def plan(
    replica_set: VirtualMachineInstanceReplicaSet, *vmis: VirtualMachineInstance, ended: frozenset[str] = frozenset()
) -> ReplicaPlan:
    taken = {vmi.metadata.name for vmi in vmis}
    return plan_replicas(ReplicaView(replica_set, vmis, ended=ended), taken.__contains__)


def test_missing_vmis_are_made_of_the_template_and_owned() -> None:
    replica_set = a_set(3)
    assert replica_set.spec.template is not None
    replica_set.spec.template.metadata.annotations = {"note": "x"}
    planned = plan(replica_set, owned("web1"))
    assert len(planned.create) == 2
    made = planned.create[0]
    assert (made.metadata.namespace, made.metadata.labels) == ("default", {"app": "web"})
    assert made.metadata.annotations == {"note": "x"}
    assert made.metadata.owner_references == [owner_reference(replica_set)]
    assert encode(made.spec) == encode(replica_set.spec.template.spec)


def test_a_set_without_a_number_wants_one() -> None:
    assert len(plan(a_set(None)).create) == 1


@pytest.mark.parametrize(
    ("vmi", "is_deleted"),
    [
        (owned("web1", {"phase": "Succeeded"}), True),
        (owned("web1", {"phase": "Failed"}), True),
        (owned("web1", TERMINATING), True),
        (owned("web1", deletionTimestamp=MOMENT), False),
        (owned("web1", {"phase": "Failed"}, deletionTimestamp=MOMENT), False),
    ],
    ids=["succeeded", "failed", "its Pod is being deleted", "being deleted", "failed and being deleted"],
)
def test_a_vmi_that_is_over_does_not_count(vmi: VirtualMachineInstance, is_deleted: bool) -> None:
    planned = plan(a_set(1), vmi)
    assert len(planned.create) == 1
    assert names(planned.clean) == (["web1"] if is_deleted else [])
    assert planned.delete == ()


def test_a_vmi_that_was_deleted_does_not_count_though_the_cache_has_it() -> None:
    planned = plan(a_set(1), owned("web1"), owned("web2"), ended=frozenset({"uid-web1"}))
    assert (planned.create, planned.delete, planned.clean) == ((), (), ())


def test_the_least_useful_vmis_go_first() -> None:
    """In the order in which they go."""
    vmis = [
        owned("a", {"phase": "Pending", "nodeName": ""}, creationTimestamp="2026-01-02T01:00:00Z"),
        owned("b", {"phase": "Scheduled"}, creationTimestamp="2026-01-02T01:00:00Z"),
        owned("c", creationTimestamp="2026-01-02T02:00:00Z"),
        owned("d", creationTimestamp="2026-01-02T01:00:00Z"),
        owned("e", READY, creationTimestamp="2026-01-02T02:00:00Z"),
        owned("f", READY, creationTimestamp="2026-01-02T01:00:00Z"),
        owned("g", READY, creationTimestamp="2026-01-02T01:00:00Z"),
    ]
    assert names(plan(a_set(0), *reversed(vmis)).delete) == ["a", "b", "c", "d", "e", "f", "g"]
    assert names(plan(a_set(6), *vmis).delete) == ["a"]


@pytest.mark.parametrize("replica_set", [a_set(3, paused=True), a_set(3, deleting=True)], ids=["paused", "deleting"])
def test_a_set_that_rests_changes_nothing(replica_set: VirtualMachineInstanceReplicaSet) -> None:
    planned = plan(replica_set, owned("web1", {"phase": "Failed"}))
    assert (planned.create, planned.delete, planned.clean) == ((), (), ())


def test_no_more_is_made_or_deleted_at_one_go_than_kubevirt_does() -> None:
    planned = plan(a_set(1000))
    assert (len(planned.create), planned.goes_on) == (MOST_AT_ONCE, True)
    planned = plan(a_set(0), *(owned(f"web{number}") for number in range(300)))
    assert (len(planned.delete), planned.goes_on) == (MOST_AT_ONCE, True)
    planned = plan(a_set(0), *(owned(f"web{number}", {"phase": "Failed"}) for number in range(300)))
    assert (len(planned.clean), planned.goes_on) == (MOST_AT_ONCE, True)
    assert not plan(a_set(MOST_AT_ONCE)).goes_on


def claims(
    replica_set: VirtualMachineInstanceReplicaSet, **seen: list[VirtualMachineInstance]
) -> list[Adopt | Release]:
    selector = selector_in_use(replica_set)
    assert selector is not None
    return plan_claims(ReplicaView(replica_set, **seen), selector)


def test_an_orphan_with_the_labels_is_adopted_beside_its_other_owners() -> None:
    orphan = a_vmi("web1", ownerReferences=[{"apiVersion": "v1", "kind": "ConfigMap", "name": "c", "uid": "c"}])
    (claim,) = claims(
        a_set(), orphans=[orphan, a_vmi("web2", labels={"app": "x"}), a_vmi("w", deletionTimestamp=MOMENT)]
    )
    assert isinstance(claim, Adopt)
    assert claim.vmi is orphan
    owners = claim.body["metadata"]["ownerReferences"]
    assert [(owner["uid"], owner.get("controller")) for owner in owners] == [("c", None), ("set", True)]


def test_a_vmi_with_other_labels_is_released() -> None:
    stranger = owned("web1", labels={"app": "x"})
    (claim,) = claims(a_set(), owned=[stranger, owned("web2"), owned("web3", labels={}, deletionTimestamp=MOMENT)])
    assert isinstance(claim, Release)
    assert claim.vmi is stranger
    assert claim.body == {"metadata": {"ownerReferences": []}}


def test_a_set_that_is_being_deleted_claims_nothing() -> None:
    assert claims(a_set(deleting=True), orphans=[a_vmi("web1")], owned=[owned("web2", labels={})]) == []


@pytest.mark.parametrize(
    "spec",
    [
        {"selector": None},
        {"template": None},
        {"selector": {"matchLabels": {"app": "other"}}},
        {"selector": {"matchExpressions": [{"key": "app", "operator": "Like"}]}},
        {"selector": {}, "template": {"metadata": {}, "spec": {}}},
        {"selector": UNPLACED},
    ],
    ids=["no selector", "no template", "selects others", "unknown operator", "no labels", "a label of the controller"],
)
def test_a_set_that_would_never_find_what_it_makes_is_left_alone(spec: dict[str, Any]) -> None:
    assert selector_in_use(a_set(2, **spec)) is None
    assert selector_fault(a_set(2, **spec)).startswith("spec.")

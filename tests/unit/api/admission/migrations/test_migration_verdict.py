"""Which migrations enter, and what may be changed of them."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from kvedge.api.admission.admission_plan import plan_verdict
from kvedge.api.admission.migrations.migration_verdict import (
    Around,
    judge_spec,
    judge_surroundings,
    label_migration,
    refusal_words,
)
from kvedge.api.admission.mutation_plan import plan_mutation
from kvedge.api.admission.rules.subject import Cluster
from kvedge.api.admission.spec_verdict import Verdict
from kvedge.resources.codec import JsonObject, decode
from kvedge.resources.meta import Condition, ObjectMeta
from kvedge.resources.types.migrations import (
    MigrationPhase,
    VirtualMachineInstanceMigration,
    VirtualMachineInstanceMigrationStatus,
)
from tests.support.builders import a_vmi
from tests.support.reviews import request

CLUSTER = Cluster("amd64")
NODES = ("node-1", "node-2")


def migration(metadata: JsonObject | None = None, **spec: Any) -> JsonObject:
    return {
        "apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachineInstanceMigration",
        "metadata": {"name": "m", "namespace": "default", **(metadata or {})},
        "spec": {"vmiName": "web", **spec},
    }


def made(**spec: Any) -> VirtualMachineInstanceMigration:
    return decode(VirtualMachineInstanceMigration, migration(**spec))


def other(phase: MigrationPhase) -> VirtualMachineInstanceMigration:
    return VirtualMachineInstanceMigration(
        metadata=ObjectMeta(name="n", uid="uid-n"), status=VirtualMachineInstanceMigrationStatus(phase=phase)
    )


def test_a_migration_gets_its_label_and_its_finalizer_whatever_its_author_wrote() -> None:
    document = migration({"labels": {"kubevirt.io/vmi-name": "mine", "a": "b"}, "finalizers": ["example.com/x"]})
    metadata = label_migration(document)["metadata"]
    assert metadata["labels"] == {"kubevirt.io/vmi-name": "web", "a": "b"}
    assert metadata["finalizers"] == ["example.com/x", "kubevirt.io/migrationJobFinalize"]
    patch = plan_mutation(request(migration()), CLUSTER, "2026-01-01T00:00:00Z")
    assert [operation["path"] for operation in patch] == ["/metadata/labels", "/metadata/finalizers"]
    assert plan_mutation(request(label_migration(document)), CLUSTER, "2026-01-01T00:00:00Z") == []


@pytest.mark.parametrize(
    ("spec", "field", "message"),
    [
        pytest.param({"vmiName": ""}, "spec.vmiName", "vmiName is missing", id="no VMI"),
        pytest.param({"vmiName": 7}, "spec.vmiName", "spec.vmiName: Expected", id="a number"),
        pytest.param({"vmiName": "x" * 254}, "spec.vmiName", "at most 253 characters", id="a name that no VMI has"),
        pytest.param({"vminame": "w"}, "spec.vminame", "unknown field", id="misspelt"),
        pytest.param(
            {"addedNodeSelector": {"a b": "c"}}, "spec.addedNodeSelector", 'Invalid value: "a b"', id="no label's key"
        ),
        pytest.param(
            {"addedNodeSelector": {"zone": "a b"}},
            "spec.addedNodeSelector[zone]",
            'Invalid value: "a b"',
            id="no label's value",
        ),
        pytest.param(
            {"addedNodeSelector": {f"l{number}": "" for number in range(17)}},
            "spec.addedNodeSelector",
            "no more than 16 labels",
            id="too many labels",
        ),
        pytest.param(
            {"priority": "system-critical"},
            "spec.migrationPriority",
            "Migration priority queue, only virt-controller is allowed to set priority field",
            id="a user's priority",
        ),
    ],
)
def test_what_no_migration_can_be_is_refused_by_its_field(spec: dict[str, Any], field: str, message: str) -> None:
    document = migration(**spec)
    [cause] = judge_spec(request(document), document)
    assert cause.field == field
    assert message in cause.message


def test_the_controller_sets_a_priority() -> None:
    document = migration(priority="system-critical")
    assert judge_spec(request(document, groups=["kvedge:controllers"]), document) == ()


def test_a_vmi_that_is_not_there_does_not_move() -> None:
    assert refusal_words(made(), Around(None, (), NODES, NODES)) == 'the VMI "default/web" does not exist'


def test_a_vmi_that_has_ended_or_cannot_move_does_not() -> None:
    ended = a_vmi("Succeeded")
    assert refusal_words(made(), Around(ended, (), NODES, NODES)) == "Cannot migrate VMI in finalized state."
    fixed = a_vmi()
    reason = Condition(type="LiveMigratable", status="False", reason="DisksNotLiveMigratable", message="a host disk")
    fixed.status.conditions.append(reason)
    words = refusal_words(made(), Around(fixed, (), NODES, NODES))
    assert words == "Cannot migrate VMI, Reason: DisksNotLiveMigratable, Message: a host disk"


def test_a_vmi_moves_by_one_migration_at_a_time() -> None:
    seen = Around(a_vmi(), (other("Failed"), other("Running")), NODES, NODES)
    assert refusal_words(made(), seen) == (
        "in-flight migration detected. Active migration job (uid-n) is currently already in progress for VMI web."
    )
    assert refusal_words(made(), Around(a_vmi(), (other("Failed"), other("Succeeded")), NODES, NODES)) == ""


def test_a_vmi_that_has_not_started_waits_for_its_start() -> None:
    assert refusal_words(made(), Around(a_vmi("Pending"), (), NODES, NODES)) == ""


@pytest.mark.parametrize("half", ["sendTo", "receive"])
def test_a_migration_to_another_box_needs_no_other_node(half: str) -> None:
    seen = Around(a_vmi(), (), NODES[:1], ())
    assert judge_surroundings(made(**{half: {"migrationID": "x"}}), seen) == Verdict()


@pytest.mark.parametrize(("nodes", "only"), [(NODES[:1], "node node-1 is the only one"), ((), "there are no nodes")])
def test_where_there_is_one_node_a_user_hears_what_to_do(nodes: tuple[str, ...], only: str) -> None:
    [cause] = judge_surroundings(made(), Around(a_vmi(), (), nodes, nodes)).causes
    assert cause.message.startswith(f'VMI "default/web" has no other node to go to: {only}.')
    assert "join another node, or move it to another box by `kvedge migrate web --to KUBECONFIG`" in cause.message


def test_a_user_is_warned_when_no_other_node_has_the_labels() -> None:
    wanted = made(addedNodeSelector={"kubernetes.io/hostname": "elsewhere"})
    [warning] = judge_surroundings(wanted, Around(a_vmi(), (), NODES, ())).warnings
    assert warning.startswith("spec.addedNodeSelector: no other node that takes VMs has these labels")
    # The one that has them is where the guest is.
    assert judge_surroundings(wanted, Around(a_vmi(), (), NODES, ("node-1",))).warnings == (warning,)
    assert judge_surroundings(wanted, Around(a_vmi(), (), NODES, ("node-1", "node-2"))).warnings == ()
    [warning] = judge_surroundings(made(), Around(a_vmi(), (), NODES, ("node-1",))).warnings
    assert warning.startswith("no other node takes VMs now: ")


def test_a_user_is_warned_that_the_vmis_own_selector_wins() -> None:
    vmi = a_vmi()
    vmi.spec.node_selector = {"zone": "a"}
    [warning] = judge_surroundings(made(addedNodeSelector={"zone": "b"}), Around(vmi, (), NODES, NODES)).warnings
    assert warning == "spec.addedNodeSelector[zone]: the VMI's own nodeSelector says a, which wins"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        pytest.param({"spec": {"vmiName": "db"}}, "update of Migration object's spec is restricted", id="spec"),
        pytest.param({"labels": None}, "selector label can't be removed from an in-flight migration", id="no labels"),
        pytest.param(
            {"labels": {"a": "b"}}, "selector label can't be modified on an in-flight migration", id="label gone"
        ),
        pytest.param(
            {"labels": {"kubevirt.io/vmi-name": "db"}},
            "selector label can't be modified on an in-flight migration",
            id="another label",
        ),
        pytest.param({"labels": {"kubevirt.io/vmi-name": "web", "a": "b"}}, "", id="one more label"),
    ],
)
def test_a_migration_stays_what_it_was_made_for(change: JsonObject, message: str) -> None:
    old = label_migration(migration())
    old["status"] = {"phase": "Running"}
    new = copy.deepcopy(old)
    if "labels" in change:
        new["metadata"]["labels"] = change["labels"]
    new["spec"] = change.get("spec", new["spec"])
    causes = plan_verdict(request(new, old), CLUSTER).causes
    assert [cause.message for cause in causes] == ([message] if message else [])


@pytest.mark.parametrize("finalizers", [None, [], ["example.com/x"]])
def test_a_migration_keeps_its_finalizer_until_it_has_ended(finalizers: list[str] | None) -> None:
    old = label_migration(migration())
    new = copy.deepcopy(old)
    new["metadata"]["finalizers"] = finalizers
    for phase, refused in (("", 1), ("Running", 1), ("Failed", 0), ("Succeeded", 0)):
        old["status"] = new["status"] = {"phase": phase}
        causes = plan_verdict(request(new, old), CLUSTER).causes
        assert [cause.field for cause in causes] == ["metadata.finalizers"] * refused
    # Another's comes and goes, and one that never had ours is let be.
    more = copy.deepcopy(old)
    more["metadata"]["finalizers"] = ["example.com/x", *old["metadata"]["finalizers"]]
    more["status"] = old["status"] = new["status"] = {"phase": "Running"}
    assert plan_verdict(request(more, old), CLUSTER).causes == ()
    assert plan_verdict(request(old, more), CLUSTER).causes == ()
    assert plan_verdict(request(new, new), CLUSTER).causes == ()


def test_a_migration_that_has_ended_may_lose_its_label() -> None:
    old = label_migration(migration())
    old["status"] = {"phase": "Succeeded"}
    new = copy.deepcopy(old)
    new["metadata"]["labels"] = {}
    assert plan_verdict(request(new, old), CLUSTER).causes == ()

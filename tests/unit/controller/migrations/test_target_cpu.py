"""What the node of a migration's target must have of the CPU that the guest has."""

from __future__ import annotations

import pytest

from kvedge.controller.migrations.target_cpu import demand_cpu, demand_frequency, explain_unsuited
from kvedge.controller.migrations.target_pod import target_pod
from kvedge.resources.codec import JsonObject
from kvedge.resources.meta import Condition
from kvedge.resources.types.core import Pod
from kvedge.resources.types.domain import Cpu, Features, FeatureState, Hyperv
from kvedge.resources.types.migrations import VirtualMachineInstanceMigration
from kvedge.resources.types.vmi import TopologyHints, VirtualMachineInstance
from kvedge.runtime.clock import rfc3339
from tests.support.builders import CONFIG, a_pod, a_vmi
from tests.support.migrating import a_migration
from tests.unit.controller.migrations.small_server import SmallServer, a_namespaced_node
from tests.unit.controller.migrations.test_migration_loop import add_guest
from tests.unit.controller.migrations.test_target_creation import target

KNOWS, HAS, VENDOR = (
    "cpu-model-migration.node.kubevirt.io/Icelake",
    "cpu-feature.node.kubevirt.io/vmx",
    "cpu-vendor.node.kubevirt.io/Intel",
)
SOURCE = {
    "host-model-cpu.node.kubevirt.io/Icelake": "true",
    "host-model-required-features.node.kubevirt.io/vmx": "true",
    "cpu-model-migration.node.kubevirt.io/Nehalem": "true",
    "cpu-feature.node.kubevirt.io/aes": "true",
    VENDOR: "true",
    "kubernetes.io/hostname": "node-1",
}
REASON = "NoSuitableNodesForHostModelMigration"


def a_guest(model: str | None) -> tuple[VirtualMachineInstance, Pod]:
    vmi = a_vmi("Running")
    vmi.spec.domain.cpu = None if model is None else Cpu(model=model)
    return vmi, a_pod(vmi, "Running", "node-1")


@pytest.mark.parametrize("model", [None, "", "host-model"])
def test_a_guest_of_its_nodes_model_demands_that_model_and_what_it_has_beyond(model: str | None) -> None:
    assert demand_cpu(*a_guest(model), SOURCE) == {KNOWS: "true", HAS: "true", VENDOR: "true"}


def test_a_guest_with_all_of_its_nodes_cpu_demands_its_vendor_and_one_of_a_named_model_nothing() -> None:
    assert demand_cpu(*a_guest("host-passthrough"), SOURCE) == {VENDOR: "true"}
    assert demand_cpu(*a_guest("Nehalem"), SOURCE) == {}


def test_nothing_is_demanded_of_what_is_not_known() -> None:
    assert demand_cpu(*a_guest("host-model"), {"kubernetes.io/hostname": "node-1", HAS: "true"}) == {}
    assert demand_cpu(a_guest("host-model")[0], None, SOURCE) == {}, "it comes from another box"


def test_a_guest_that_has_moved_demands_the_cpu_of_where_it_started_and_can_go_back() -> None:
    vmi, pod = a_guest("host-model")
    first = {KNOWS: "true", HAS: "true", VENDOR: "true"}
    pod.spec.node_selector = {**pod.spec.node_selector, **first}
    newer = {"host-model-cpu.node.kubevirt.io/Sapphire": "true", "host-model-required-features.node.kubevirt.io/x": ""}
    assert demand_cpu(vmi, pod, newer) == first


def test_a_feature_that_a_vm_requires_itself_does_not_stand_for_a_move() -> None:
    vmi, pod = a_guest("host-model")
    pod.spec.node_selector = {**pod.spec.node_selector, "cpu-feature.node.kubevirt.io/pcid": "true"}
    assert demand_cpu(vmi, pod, SOURCE) == {KNOWS: "true", HAS: "true", VENDOR: "true"}


def test_that_no_other_node_has_the_cpu_is_told_in_kubevirts_words() -> None:
    vmi, pod = a_guest("host-model")
    pod.spec.node_selector = {**pod.spec.node_selector, KNOWS: "true", HAS: "true", VENDOR: "true"}
    able = {KNOWS: "true", HAS: "true"}
    said = (
        "Migration cannot proceed since no node is suitable to run the required CPU model / required features:"
        f" map[{HAS}:true {KNOWS}:true]"
    )
    assert explain_unsuited(vmi, pod, [("node-1", able), ("node-2", {KNOWS: "true"}), ("node-3", {})]) == said
    assert explain_unsuited(vmi, pod, [("node-1", {}), ("node-2", able)]) is None
    assert explain_unsuited(a_guest("Nehalem")[0], pod, []) is None
    assert explain_unsuited(vmi, a_pod(vmi, "Pending"), []) is None, "nothing was demanded"


@pytest.mark.parametrize("is_able", [False, True])
def test_a_vmi_whose_migration_finds_no_node_of_its_cpu_has_an_event(*, is_able: bool) -> None:
    server = SmallServer()
    add_guest(server)
    for name, labels in (("node-1", SOURCE), ("node-2", {KNOWS: "true", HAS: "true"} if is_able else {})):
        node = a_namespaced_node(name, name)
        node.metadata.labels |= labels
        server.put(node)
    server.tell()
    server.turn("move-web")
    made = target(server)
    assert made is not None
    assert made.spec.node_selector.items() >= {KNOWS: "true", HAS: "true", VENDOR: "true"}.items()
    made.metadata.creation_timestamp = rfc3339(server.clock.now())
    made.status.phase = "Pending"
    made.status.conditions = [Condition(type="PodScheduled", status="False", reason="Unschedulable", message="0/2")]
    server.put(made)
    server.tell()
    for _ in range(2):
        server.turn("move-web")
    told = {(type(call.args[0]), call.args[2]) for call in server.events.record.call_args_list}
    assert (VirtualMachineInstanceMigration, "migrationTargetPodUnschedulable") in told
    assert ((VirtualMachineInstance, REASON) in told) is not is_able
    assert (VirtualMachineInstanceMigration, REASON) not in told


FAST = {"key": "cpu-timer.node.kubevirt.io/tsc-frequency", "operator": "Gt", "values": ["999749"]}
SLOW = {"key": "cpu-timer.node.kubevirt.io/tsc-frequency", "operator": "Lt", "values": ["1000251"]}
SCALES = {"key": "cpu-timer.node.kubevirt.io/tsc-scalable", "operator": "In", "values": ["true"]}
SSD = {"key": "disk", "operator": "In", "values": ["ssd"]}


def required(*terms: JsonObject) -> JsonObject:
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}}


@pytest.mark.parametrize(
    ("own", "made"),
    [
        ({}, required({"matchExpressions": [FAST, SLOW]}, {"matchExpressions": [FAST, SCALES]})),
        (
            required({"matchExpressions": [SSD]}, {}),
            required({"matchExpressions": [SSD, FAST, SLOW]}, {"matchExpressions": [SSD, FAST, SCALES]}),
        ),
        (required({}), required({})),
    ],
    ids=["alone", "with every term", "no term matches"],
)
def test_a_guest_goes_where_the_counter_is_as_it_was_told_or_can_be_slowed_down(
    own: JsonObject, made: JsonObject
) -> None:
    assert demand_frequency(own, 1_000_000) == made
    assert demand_frequency(own, None) == own


def test_the_pod_of_a_guest_that_was_told_a_frequency_demands_it() -> None:
    vmi, pod = a_guest("host-model")
    vmi.spec.domain.features = Features(hyperv=Hyperv(reenlightenment=FeatureState()))
    migration = a_migration()
    assert "tsc" not in str(target_pod(vmi, migration, pod, CONFIG, {}).spec.affinity)
    vmi.status.topology_hints = TopologyHints(tsc_frequency=1_000_000)
    assert "999749" in str(target_pod(vmi, migration, pod, CONFIG, {}).spec.affinity)

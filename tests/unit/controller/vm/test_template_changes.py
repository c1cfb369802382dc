"""Which sockets and places of a VM are carried to its run, and which wait for a restart."""

from __future__ import annotations

from typing import Any

import pytest

from kvedge.controller.vm.template_changes import plan_placement, plan_sockets
from kvedge.controller.vm.typed_vm import TypedVm
from kvedge.controller.vm.vm_actions import ChangeRun, Hotplug, KeepRevision, Live, NoteMachine, PatchVmStatus, Rollout
from kvedge.controller.vm.vm_plan import plan_vm
from kvedge.controller.vm.vmi_template import vmi_from_vm
from kvedge.resources.codec import JsonObject, decode, encode
from kvedge.resources.meta import Condition
from kvedge.resources.names import PCI_TOPOLOGY, TEMPLATE_HASH, VM_FINALIZER
from kvedge.resources.types.domain import DomainSpec
from kvedge.resources.types.vm import VirtualMachine
from kvedge.resources.types.vmi import CpuTopology, PodRoom, VirtualMachineInstance
from tests.support.builders import NOW, a_vm, patched

ONE = {"sockets": 1, "cores": 2, "threads": 1}
LIVE = Hotplug(rollout=Rollout(is_live=True))
GENERIC = "a non-live-updatable field was changed in the template spec"


def a_run(cpu: JsonObject | None = ONE, **domain: Any) -> tuple[VirtualMachine, VirtualMachineInstance]:
    """A VM and its running guest with room for four sockets, as admission has made it."""
    vm = a_vm()
    vm.metadata.finalizers = [VM_FINALIZER]
    assert vm.spec.template is not None
    vm.spec.template.spec.domain = decode(DomainSpec, {**({"cpu": cpu} if cpu else {}), **domain})
    vmi = vmi_from_vm(vm, paused=False)
    vmi.metadata.uid, vmi.status.phase = "u", "Running"
    made = {"sockets": 1, "cores": 1, "threads": 1, **(cpu or {}), "maxSockets": 4}
    vmi.spec.domain = decode(DomainSpec, {**domain, "cpu": made})
    vmi.spec.architecture = "amd64"
    vmi.status.current_cpu_topology = CpuTopology(cores=made["cores"], sockets=made["sockets"], threads=made["threads"])
    # The start is recorded.
    vm.status.observed_generation = vm.metadata.generation
    return vm, vmi


def with_sockets(vm: VirtualMachine, sockets: int) -> VirtualMachine:
    assert vm.spec.template is not None
    domain = vm.spec.template.spec.domain
    if domain.cpu is None:
        vm.spec.template.spec.domain = decode(DomainSpec, {"cpu": {"sockets": sockets}})
    else:
        domain.cpu.sockets = sockets
    vm.metadata.generation += 1
    return vm


def outcome(vm: VirtualMachine, vmi: VirtualMachineInstance, hotplug: Hotplug = LIVE) -> tuple[str, JsonObject]:
    """What RestartRequired says, or nothing; and what is carried to the run."""
    actions = plan_vm(vm, vmi, NOW, 0.5, hotplug).actions
    told = [
        condition["message"]
        for action in actions
        if isinstance(action, PatchVmStatus)
        for condition in action.body["status"].get("conditions", [])
        if condition["type"] == "RestartRequired"
    ]
    carried = [action.body for action in actions if isinstance(action, ChangeRun)]
    return (told or [""])[0], (carried or [{}])[0]


def test_sockets_reach_the_run_where_changes_are_rolled_out_live() -> None:
    vm, vmi = a_run()
    assert outcome(with_sockets(vm, 2), vmi) == ("", {"spec": {"domain": {"cpu": {"sockets": 2}}}})
    assert outcome(vm, vmi, Hotplug()) == (GENERIC, {})


def test_sockets_of_a_vm_that_named_no_topology_reach_it_too() -> None:
    vm, vmi = a_run(cpu=None)
    assert outcome(with_sockets(vm, 2), vmi) == ("", {"spec": {"domain": {"cpu": {"sockets": 2}}}})


def test_a_request_grows_with_the_vcpus_by_the_clusters_ratio() -> None:
    vm, vmi = a_run(resources={"requests": {"cpu": "500m"}})
    assert vm.spec.template is not None
    template = with_sockets(vm, 3).spec.template
    assert template is not None
    body = plan_sockets(template.spec, vmi, 10)
    assert body["spec"]["domain"]["resources"] == {"requests": {"cpu": "900m"}}
    vmi.spec.domain.resources.limits["cpu"] = "2"
    body = plan_sockets(template.spec, vmi, 10)
    assert body["spec"]["domain"]["resources"] == {"requests": {"cpu": "900m"}, "limits": {"cpu": "2400m"}}


def test_sockets_that_the_pod_has_no_room_for_can_be_taken_back() -> None:
    vm, vmi = a_run()
    assert vmi.spec.domain.cpu is not None
    vmi.spec.domain.cpu.sockets = 3
    vm.metadata.generation += 1
    assert outcome(vm, vmi) == ("Reduction of CPU socket count requires a restart", {})
    vmi.status.pod_room = PodRoom(node=vmi.status.node_name, vcpus=2, reason="Deferred", message="no room")
    assert outcome(vm, vmi) == ("", {"spec": {"domain": {"cpu": {"sockets": 1}}}})
    vmi.status.pod_room.vcpus = 6
    assert outcome(vm, vmi) == ("Reduction of CPU socket count requires a restart", {}), "the launcher may be at it"


@pytest.mark.parametrize(
    ("sockets", "domain", "message"),
    [
        (5, {}, "CPU sockets updated in template spec to a value higher than what's available"),
        (2, {"devices": {"networkInterfaceMultiqueue": True}}, "CPU sockets updated in template spec. NICs with"),
        (
            2,
            {"cpu": {"sockets": 1, "maxSockets": 4, "dedicatedCpuPlacement": True}},
            "CPU sockets updated in template spec. A VM with dedicated CPUs keeps those of its start",
        ),
    ],
    ids=["no room", "queues", "CPUs for itself"],
)
def test_what_a_running_guest_cannot_get_asks_for_a_restart_by_name(
    sockets: int, domain: JsonObject, message: str
) -> None:
    vm, vmi = a_run(**domain)
    told, carried = outcome(with_sockets(vm, sockets), vmi)
    assert told.startswith(message)
    assert carried == {}


def test_sockets_are_never_taken_from_a_running_guest() -> None:
    vm, vmi = a_run({**ONE, "sockets": 2})
    assert outcome(with_sockets(vm, 1), vmi) == ("Reduction of CPU socket count requires a restart", {})


def test_no_cpus_are_plugged_in_on_arm() -> None:
    vm, vmi = a_run()
    vmi.spec.architecture = "arm64"
    assert outcome(with_sockets(vm, 2), vmi) == ("ARM doesn't support CPU hotplug", {})


def test_the_next_sockets_wait_until_the_guest_has_those_before() -> None:
    vm, vmi = a_run()
    assert vmi.spec.domain.cpu is not None
    vmi.spec.domain.cpu.sockets = 2
    assert outcome(with_sockets(vm, 3), vmi) == ("", {})


def test_a_change_that_needs_a_restart_holds_sockets_up() -> None:
    vm, vmi = a_run()
    assert vm.spec.template is not None
    vm.spec.template.spec.hostname = "another"
    assert outcome(with_sockets(vm, 2), vmi) == (GENERIC, {})


def test_nothing_is_carried_while_nobody_knows_the_vms_types() -> None:
    vm, vmi = a_run()
    vmi.spec.node_selector = {"zone": "of the type"}
    vm.metadata.generation += 1
    unknown = TypedVm(failure=Condition(type="Failure", status="True", reason="FailedFindInstancetype"))
    actions = plan_vm(vm, vmi, NOW, 0.5, LIVE, typed=unknown).actions
    assert not [action for action in actions if isinstance(action, ChangeRun)]


def test_nothing_of_an_adopted_vmi_is_changed() -> None:
    vm, vmi = a_run()
    del vmi.metadata.annotations[TEMPLATE_HASH]
    vmi.spec.node_selector = {"zone": "a"}
    assert outcome(with_sockets(vm, 2), vmi) == ("", {})


def test_a_presets_sockets_are_no_change_of_the_vm() -> None:
    vm, vmi = a_run(cpu=None)
    vmi.metadata.annotations["virtualmachinepreset.kubevirt.io/small"] = "kubevirt.io/v1"
    assert vmi.spec.domain.cpu is not None
    vmi.spec.domain.cpu.sockets = 2
    vm.metadata.generation += 1
    assert outcome(vm, vmi) == ("", {})


def test_where_a_guest_may_run_reaches_its_run_and_goes_from_it() -> None:
    vm, vmi = a_run()
    assert vm.spec.template is not None
    spec = vm.spec.template.spec
    vmi.spec.node_selector = {"old": "x"}
    spec.node_selector, spec.tolerations = {"zone": "b"}, [{"key": "k", "operator": "Exists"}]
    vm.metadata.generation += 1
    patch = {"nodeSelector": {"old": None, "zone": "b"}, "tolerations": [{"key": "k", "operator": "Exists"}]}
    assert plan_placement(spec, vmi) == {"spec": patch}
    actions = plan_vm(vm, vmi, NOW, 0.5, LIVE).actions
    assert [action.what for action in actions if isinstance(action, ChangeRun)] == [Live.PLACEMENT]
    assert outcome(vm, vmi, Hotplug()) == (GENERIC, {})


def test_a_guest_whose_handler_is_of_another_release_grows_once_its_node_is_upgraded() -> None:
    """Handlers once gave a guest all that its VMI says, whatever its Pod had room for."""
    vm, vmi = a_run()
    vmi.status.node_name = "n1"
    with_sockets(vm, 3)
    behind = Hotplug(rollout=Rollout(is_live=True, other_nodes=frozenset({"n1"})))
    assert outcome(vm, vmi, behind) == ("", {})
    assert plan_vm(vm, vmi, NOW, 0.5, behind).again_after == 30.0
    elsewhere = Hotplug(rollout=Rollout(is_live=True, other_nodes=frozenset({"n2"})))
    for upgraded in (elsewhere, LIVE):
        assert outcome(vm, vmi, upgraded)[1]["spec"]["domain"]["cpu"] == {"sockets": 3}
        assert plan_vm(vm, vmi, NOW, 0.5, upgraded).again_after is None


def test_a_vm_that_has_room_as_the_kubevirt_object_says_so_keeps_it_without_that_word() -> None:
    said = Hotplug(rollout=Rollout(is_live=True, is_said=True))

    def marks(vm: VirtualMachine, vmi: VirtualMachineInstance, hotplug: Hotplug) -> list[JsonObject]:
        return [each.body for each in plan_vm(vm, vmi, NOW, 0.5, hotplug).actions if isinstance(each, NoteMachine)]

    vm, vmi = a_run()
    assert marks(vm, vmi, LIVE) == []
    (body,) = marks(vm, vmi, said)
    assert body["spec"] == {"template": {"metadata": {"annotations": {"kvedge.io/growth-room": "v1"}}}}
    vm = decode(VirtualMachine, patched(encode(vm), body))
    vm.metadata.generation += 1
    assert marks(vm, vmi, said) == []
    assert outcome(vm, vmi, said) == ("", {}), "the mark asks for no restart"
    vm, vmi = a_run()
    assert vmi.spec.domain.cpu is not None
    vmi.spec.domain.cpu.max_sockets = 1
    assert marks(vm, vmi, said) == [], "its guest has none"


def test_a_vm_keeps_the_layout_of_slots_that_its_guest_runs_with() -> None:
    vm, vmi = a_run()
    vmi.metadata.annotations[PCI_TOPOLOGY] = "v3"

    def marks() -> list[JsonObject]:
        return [each.body for each in plan_vm(vm, vmi, NOW, 0.5, Hotplug()).actions if isinstance(each, NoteMachine)]

    (body,) = marks()
    assert body["spec"] == {"template": {"metadata": {"annotations": {PCI_TOPOLOGY: "v3"}}}}
    marked = decode(VirtualMachine, patched(encode(vm), body))
    marked.metadata.generation += 1
    assert outcome(marked, vmi) == ("", {}), "it asks for no restart"
    assert vm.spec.template is not None
    # What somebody has written there stays.
    vm.spec.template.metadata.annotations[PCI_TOPOLOGY] = "v2"
    assert marks() == []


def test_marks_do_not_have_a_run_compared_that_an_earlier_release_has_started() -> None:
    """Its hash may have been taken of other parts of the template than ours, of which nothing has changed."""
    said = Hotplug(rollout=Rollout(is_live=True, is_said=True))
    vm, vmi = a_run()
    vmi.metadata.annotations |= {TEMPLATE_HASH: "of-another-form"}

    def with_marks(vm: VirtualMachine, hotplug: Hotplug) -> VirtualMachine:
        (body,) = [each.body for each in plan_vm(vm, vmi, NOW, 0.5, hotplug).actions if isinstance(each, NoteMachine)]
        marked = decode(VirtualMachine, patched(encode(vm), body))
        marked.metadata.generation += 1
        return marked

    vmi.metadata.annotations.pop(PCI_TOPOLOGY, None)
    once = with_marks(vm, said)
    assert outcome(once, vmi, said) == ("", {})
    vmi.metadata.annotations[PCI_TOPOLOGY] = "v3"
    twice = with_marks(once, said)
    assert outcome(twice, vmi, said) == ("", {}), "a mark that comes later changes nothing either"
    copied = decode(VirtualMachine, encode(twice))
    vmi.metadata.uid = "of a run of its copy"
    assert outcome(copied, vmi, said)[0] == GENERIC, "it is said of that run alone"
    vmi.metadata.uid = "u"
    edited = with_sockets(decode(VirtualMachine, encode(twice)), 2)
    assert outcome(edited, vmi, said)[0] == GENERIC, "an edit is compared"


def test_marks_of_a_vm_that_was_edited_leave_the_run_compared() -> None:
    vm, vmi = a_run()
    with_sockets(vm, 1)
    vmi.metadata.annotations[PCI_TOPOLOGY] = "v3"
    (body,) = [each.body for each in plan_vm(vm, vmi, NOW, 0.5, LIVE).actions if isinstance(each, NoteMachine)]
    assert "metadata" not in body


def test_a_vm_gets_no_marks_before_the_start_of_its_run_is_recorded() -> None:
    vm, vmi = a_run()
    vmi.metadata.annotations[PCI_TOPOLOGY] = "v3"
    vm.status.observed_generation = vm.metadata.generation - 1
    actions = plan_vm(vm, vmi, NOW, 0.5, LIVE).actions
    assert any(isinstance(each, KeepRevision) for each in actions)
    assert not any(isinstance(each, NoteMachine) for each in actions)


def test_a_vm_whose_mark_is_refused_says_so_until_it_is_tried_again_and_grows_meanwhile() -> None:
    refused = {Live.MACHINE: "no edits of this VM"}
    said = Hotplug(refusals=refused, rollout=Rollout(is_live=True, is_said=True))
    vm, vmi = a_run()
    actions = plan_vm(vm, vmi, NOW, 0.5, said).actions
    (status,) = [each.body["status"] for each in actions if isinstance(each, PatchVmStatus)]
    (failure,) = [each for each in status["conditions"] if each["type"] == "Failure"]
    assert (failure["reason"], failure["message"]) == ("MachineMarksError", "no edits of this VM")
    assert not any(isinstance(each, NoteMachine) for each in actions)
    assert outcome(with_sockets(vm, 2), vmi, said)[1] == {"spec": {"domain": {"cpu": {"sockets": 2}}}}


@pytest.mark.parametrize("reason", ["Infeasible", "ResizeKeepsFailing"])
def test_a_vm_whose_pod_can_be_no_larger_asks_for_a_restart_where_nobody_migrates_it(reason: str) -> None:
    vm, vmi = a_run({**ONE, "sockets": 2})
    vmi.status.node_name = "n1"
    vmi.status.pod_room = PodRoom(node="n1", vcpus=2, memory="1Gi", reason=reason, message="in another Pod")
    vmi.status.conditions = [Condition(type="LiveMigratable", status="True")]

    def told(**rollout: bool) -> str:
        return outcome(vm, vmi, Hotplug(rollout=Rollout(is_live=True, **rollout)))[0]

    assert told() == "in another Pod"
    assert told(migrates=True, is_alone=True) == "in another Pod"
    assert told(migrates=True) == ""
    vmi.status.pod_room.vcpus = 4
    assert told() == "", "the guest has room"


def test_a_vm_that_is_to_have_more_than_the_only_node_has_is_not_asked_to_restart() -> None:
    """Its Pod would wait for ever for a node of that size."""
    vm, vmi = a_run({**ONE, "sockets": 2})
    why = "no: Node didn't have enough capacity: memory"
    vmi.status.node_name = "n1"
    vmi.status.pod_room = PodRoom(node="n1", vcpus=2, memory="1Gi", reason="NodeTooSmall", message=why)
    assert outcome(vm, vmi, Hotplug(rollout=Rollout(is_live=True)))[0] == why
    assert outcome(vm, vmi, Hotplug(rollout=Rollout(is_live=True, is_alone=True)))[0] == ""

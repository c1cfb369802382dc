"""What is told of a guest that waits for its Pod to join a network, or to leave one."""

from __future__ import annotations

from datetime import timedelta

from kvedge.controller.vm.vm_actions import Hotplug, PatchVmStatus, Rollout
from kvedge.controller.vm.vm_plan import plan_vm
from kvedge.controller.vmi.pending_networks import PATIENCE_SECONDS, with_pending_networks
from kvedge.controller.vmi.switched_networks import Elsewhere
from kvedge.resources.meta import Condition
from kvedge.resources.types.vmi import InterfaceStatus, VirtualMachineInstance
from tests.support.builders import NOW, a_vm, a_vmi, vmi_with

LATER = NOW + timedelta(seconds=PATIENCE_SECONDS)


def a_guest(source: str, state: str = "") -> VirtualMachineInstance:
    """One with an interface on another network, of which its status says this much."""
    spec = {
        "domain": {"devices": {"interfaces": [{"name": "lan", "bridge": {}, **({"state": state} if state else {})}]}},
        "networks": [{"name": "lan", "multus": {"networkName": "red"}}],
    }
    vmi = vmi_with(spec, {"phase": "Running"})
    vmi.status.interfaces = [InterfaceStatus(name="lan", info_source=source)]
    return vmi


def told(vmi: VirtualMachineInstance, now: object = NOW) -> tuple[list[Condition], float | None]:
    return with_pending_networks(vmi, vmi.status, now)  # type: ignore[arg-type]


def test_nothing_is_told_of_networks_that_are_as_wanted() -> None:
    for vmi in (a_guest("multus-status"), a_guest("domain"), a_guest("domain, multus-status", "absent"), a_guest("")):
        expected = "" if vmi.status.interfaces[0].info_source else "False"
        conditions, _ = told(vmi)
        assert "".join(item.status for item in conditions) == expected


def test_a_network_that_is_not_joined_is_waited_for_and_then_wants_another_pod() -> None:
    vmi = a_guest("")
    conditions, again = told(vmi)
    (first,) = conditions
    assert (first.type, first.status, first.reason, again) == (
        "MigrationRequired",
        "False",
        "AutoMigrationPending",
        PATIENCE_SECONDS,
    )
    vmi.status.conditions = conditions
    (still,), again = told(vmi, NOW + timedelta(seconds=5))
    assert (still.status, again) == ("False", PATIENCE_SECONDS - 5)
    (due,), again = told(vmi, LATER)
    assert (due.status, due.reason, again) == ("True", "AutoMigrationDueToLiveUpdate", None)
    assert "the Pod has not joined the network of interface lan" in due.message
    vmi.status.conditions = [due]
    assert told(vmi, LATER + timedelta(seconds=1))[0] == [due]
    vmi.status.interfaces[0].info_source = "multus-status"
    assert told(vmi, LATER) == ([], None)


def test_a_network_that_is_not_left_is_waited_for_too() -> None:
    (found,), _ = told(a_guest("multus-status", "absent"))
    assert found.message == "the Pod has not left the network of interface lan"


def test_a_guest_that_does_not_run_waits_for_nothing() -> None:
    vmi = a_guest("")
    vmi.status.phase = "Scheduled"
    assert told(vmi) == ([], None)


def test_the_vm_asks_for_a_restart_once_another_pod_is_wanted() -> None:
    vm = a_vm()
    vmi = a_vmi(owner=vm)
    waits = Condition(type="MigrationRequired", status="True", message="the Pod has not joined")
    vmi.status.conditions = [waits]
    (status,) = [action for action in plan_vm(vm, vmi, NOW, 0.5).actions if isinstance(action, PatchVmStatus)]
    conditions = {item["type"]: item for item in status.body["status"]["conditions"]}
    assert conditions["RestartRequired"]["message"] == "the Pod has not joined"
    vmi.status.conditions = [waits, Condition(type="LiveMigratable", status="True")]
    moves = Hotplug(rollout=Rollout(migrates=True))
    (status,) = [action for action in plan_vm(vm, vmi, NOW, 0.5, moves).actions if isinstance(action, PatchVmStatus)]
    assert "RestartRequired" not in {item["type"] for item in status.body["status"]["conditions"]}
    vmi.status.conditions = [Condition(type="MigrationRequired", status="False")]
    (status,) = [action for action in plan_vm(vm, vmi, NOW, 0.5).actions if isinstance(action, PatchVmStatus)]
    assert "RestartRequired" not in {item["type"] for item in status.body["status"]["conditions"]}


def test_a_pod_on_another_network_is_waited_for_only_where_its_nics_follow() -> None:
    vmi = a_guest("domain, multus-status")
    wanted = (("lan", "default/blue"),)
    (at_once,), again = with_pending_networks(vmi, vmi.status, NOW, Elsewhere(wanted))
    assert (at_once.status, at_once.reason, again) == ("True", "AutoMigrationDueToLiveUpdate", None)
    assert "the Pod is on another network than default/blue, that of interface lan" in at_once.message
    (waits,), again = with_pending_networks(vmi, vmi.status, NOW, Elsewhere(wanted, follows=True))
    assert (waits.status, again) == ("False", PATIENCE_SECONDS)

# Tests: kvedge/controller/vm/live_changes.py
"""Which interfaces of a VM are carried to its run, and which changes wait for a restart."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from kvedge.controller.vm.network_changes import plan_interfaces, without_absent
from kvedge.controller.vm.vm_actions import ChangeRun, Hotplug, Live, PatchVm, PatchVmStatus
from kvedge.controller.vm.vm_plan import plan_vm
from kvedge.controller.vm.vmi_template import needs_restart, template_hash
from kvedge.controller.vm.volume_changes import permanent_spec
from kvedge.resources.codec import JsonObject, decode, encode_json
from kvedge.resources.identity import guest_mac
from kvedge.resources.meta import Condition
from kvedge.resources.names import TEMPLATE_HASH, VM_GENERATION
from kvedge.resources.types.devices import Interface
from kvedge.resources.types.vm import VirtualMachine
from kvedge.resources.types.vmi import InterfaceStatus, VirtualMachineInstance
from kvedge.resources.types.volumes import Network
from tests.support.builders import NOW, VM_UID, a_vm, a_vmi

MAC = "02:00:00:00:00:01"


def nic(name: str, **fields: Any) -> dict[str, Any]:
    return {"name": name, "bridge": {}, **fields}


DEFAULT = nic("default", macAddress=MAC)
LAN = nic("lan", macAddress=MAC[:-1] + "2")


def network(name: str, of: str = "red") -> dict[str, Any]:
    return {"name": name, "pod": {}} if name == "default" else {"name": name, "multus": {"networkName": of}}


def a_pair(
    wanted: list[dict[str, Any]], there: list[dict[str, Any]], rows: tuple[str, ...] = (), of: str = "red"
) -> tuple[VirtualMachine, VirtualMachineInstance]:
    """A VM with these interfaces, and its run with others."""
    vm = a_vm()
    assert vm.spec.template is not None
    vmi = a_vmi(owner=vm)
    for spec, nics, network_name in ((vm.spec.template.spec, wanted, of), (vmi.spec, there, "red")):
        spec.domain.devices.interfaces = [decode(Interface, item) for item in nics]
        spec.networks = [decode(Network, network(item["name"], network_name)) for item in nics]
    vmi.status.interfaces = [InterfaceStatus(name=name) for name in rows]
    return vm, vmi


def carried(vm: VirtualMachine, vmi: VirtualMachineInstance) -> JsonObject:
    """The run's interfaces by name, with their states, after the change; empty without one."""
    body = plan_interfaces(vm, vmi)
    spec = body.get("spec", {})
    interfaces = spec.get("domain", {}).get("devices", {}).get("interfaces", [])
    return {item["name"]: item.get("state", "") for item in interfaces}


def test_a_new_interface_comes_with_its_network_and_the_mac_that_it_has_in_all_runs() -> None:
    vm, vmi = a_pair([DEFAULT, nic("lan")], [DEFAULT])
    spec = plan_interfaces(vm, vmi)["spec"]
    assert spec["networks"] == [network("default"), network("lan")]
    assert spec["domain"]["devices"]["interfaces"] == [DEFAULT, nic("lan", macAddress=guest_mac(VM_UID, "lan"))]


@pytest.mark.parametrize(
    ("wanted", "there", "rows", "after"),
    [
        ([DEFAULT, LAN], [DEFAULT, LAN], ("lan",), {}),
        ([DEFAULT, LAN | {"state": "up"}], [DEFAULT, LAN], ("lan",), {}),
        ([DEFAULT, LAN | {"state": "down"}], [DEFAULT, LAN], ("lan",), {"default": "", "lan": "down"}),
        ([DEFAULT | {"state": "down"}], [DEFAULT], (), {"default": "down"}),
        ([DEFAULT], [DEFAULT | {"state": "down"}], (), {"default": ""}),
        ([DEFAULT, LAN | {"state": "absent"}], [DEFAULT, LAN], ("lan",), {"default": "", "lan": "absent"}),
        ([DEFAULT, LAN | {"state": "absent"}], [DEFAULT, LAN | {"state": "absent"}], ("lan",), {}),
        ([DEFAULT, LAN], [DEFAULT, LAN | {"state": "absent"}], ("lan",), {}),
        ([DEFAULT, LAN], [DEFAULT, LAN | {"state": "absent"}], (), {"default": ""}),
        ([DEFAULT], [DEFAULT, LAN], ("lan",), {}),
        ([DEFAULT, LAN | {"state": "absent"}], [DEFAULT], (), {}),
        ([DEFAULT, {"name": "lan", "masquerade": {}}], [DEFAULT], (), {}),
        ([DEFAULT | {"state": "absent"}], [DEFAULT], ("default",), {}),
    ],
    ids=[
        "nothing new",
        "up is the default",
        "link down",
        "link down on the Pod network",
        "link up again",
        "one that is to go",
        "one that is going",
        "one that is wanted again while it goes",
        "one of which nothing is left",
        "one that is taken out of the template waits for a restart",
        "one that is absent before it came",
        "another binding waits for a restart",
        "the Pod network's never goes",
    ],
)
def test_the_run_follows_the_template(
    wanted: list[dict[str, Any]], there: list[dict[str, Any]], rows: tuple[str, ...], after: JsonObject
) -> None:
    assert carried(*a_pair(wanted, there, rows)) == after


def test_one_of_which_nothing_is_left_comes_back_in_the_next_pass() -> None:
    vm, vmi = a_pair([DEFAULT, LAN], [DEFAULT, LAN | {"state": "absent"}])
    assert [each["name"] for each in plan_interfaces(vm, vmi)["spec"]["networks"]] == ["default"]
    vm, vmi = a_pair([DEFAULT, LAN], [DEFAULT])
    assert carried(vm, vmi) == {"default": "", "lan": ""}


@pytest.mark.parametrize("phase", ["", "Pending", "Scheduled", "Succeeded"])
def test_a_run_that_has_not_begun_or_is_over_is_left_as_it_is(phase: Any) -> None:
    vm, vmi = a_pair([DEFAULT, LAN], [DEFAULT])
    vmi.status.phase = phase
    assert plan_interfaces(vm, vmi) == {}


def test_the_vm_forgets_an_absent_interface_once_its_run_has_nothing_of_it() -> None:
    absent = LAN | {"state": "absent"}
    vm, vmi = a_pair([DEFAULT, absent], [DEFAULT, absent], ("lan",))
    assert without_absent(vm, vmi) == {}
    vm, vmi = a_pair([DEFAULT, absent], [DEFAULT], ("lan",))
    assert without_absent(vm, vmi) == {}
    vm, vmi = a_pair([DEFAULT, absent], [DEFAULT])
    for run in (vmi, None):
        spec = without_absent(vm, run)["spec"]["template"]["spec"]
        assert spec == {"domain": {"devices": {"interfaces": [DEFAULT]}}, "networks": [network("default")]}


@pytest.mark.parametrize(("wanted", "needed"), [([DEFAULT, LAN], False), ([LAN], True)])
def test_a_run_of_a_version_before_needs_a_restart_for_what_has_changed_alone(wanted: Any, needed: bool) -> None:
    started_from, vmi = a_pair([DEFAULT, LAN], [DEFAULT, LAN])
    template = started_from.spec.template
    assert template is not None
    # As that version wrote it, with all of the interfaces.
    whole = hashlib.sha256(encode_json(permanent_spec(template.spec))).hexdigest()[:16]
    assert whole != template_hash(started_from)
    vmi.metadata.annotations = {TEMPLATE_HASH: whole, VM_GENERATION: "0"}
    assert needs_restart(a_pair(wanted, [DEFAULT, LAN])[0], vmi) is needed


def restarts(vm: VirtualMachine, vmi: VirtualMachineInstance, started_from: VirtualMachine) -> bool:
    vmi.metadata.annotations = {TEMPLATE_HASH: template_hash(started_from), VM_GENERATION: "0"}
    return needs_restart(vm, vmi)


@pytest.mark.parametrize(
    ("wanted", "of", "needed"),
    [
        ([DEFAULT, LAN], "red", False),
        ([DEFAULT, LAN, nic("more")], "red", False),
        ([DEFAULT, LAN | {"state": "down"}], "red", False),
        ([DEFAULT | {"state": "down"}, LAN], "red", False),
        ([DEFAULT, LAN | {"state": "absent"}], "red", False),
        ([DEFAULT], "red", True),
        ([DEFAULT, LAN | {"model": "e1000"}], "red", True),
        ([DEFAULT | {"model": "e1000"}, LAN], "red", True),
        ([DEFAULT, LAN, {"name": "more", "masquerade": {}}], "red", True),
        ([DEFAULT, LAN, {"name": "more", "sriov": {}}], "red", True),
        ([DEFAULT, LAN], "blue", True),
    ],
    ids=[
        "nothing changed",
        "one that comes",
        "link of a LAN",
        "link of the Pod network",
        "one that goes",
        "one that was taken out",
        "another model on a LAN",
        "another model on the Pod network",
        "another binding",
        "a function of a NIC",
        "another network",
    ],
)
def test_what_cannot_change_while_the_guest_runs_asks_for_a_restart(
    wanted: list[dict[str, Any]], of: str, needed: bool
) -> None:
    before, _ = a_pair([DEFAULT, LAN], [DEFAULT, LAN])
    vm, vmi = a_pair(wanted, [DEFAULT, LAN], ("default", "lan"), of)
    assert restarts(vm, vmi, before) is needed


def test_an_interface_that_has_gone_asks_for_no_restart() -> None:
    before, _ = a_pair([DEFAULT, LAN], [DEFAULT, LAN])
    vm, vmi = a_pair([DEFAULT], [DEFAULT])
    assert not restarts(vm, vmi, before)


def test_what_is_refused_is_a_failure_and_not_tried_for_a_while() -> None:
    vm, vmi = a_pair([DEFAULT, LAN], [DEFAULT])
    vmi.status.interfaces = []
    (change,) = [action for action in plan_vm(vm, vmi, NOW, 0.5).actions if isinstance(action, ChangeRun)]
    assert change.what is Live.INTERFACES
    refused = plan_vm(vm, vmi, NOW, 0.5, Hotplug(refusals={Live.INTERFACES: "no"})).actions
    assert not [action for action in refused if isinstance(action, ChangeRun)]
    (status,) = [action for action in refused if isinstance(action, PatchVmStatus)]
    (failure,) = [item for item in status.body["status"]["conditions"] if item["type"] == "Failure"]
    assert (failure["reason"], failure["message"]) == ("HotPlugNetworkInterfaceError", "no")


def test_a_vm_without_a_run_forgets_at_once() -> None:
    vm, _ = a_pair([DEFAULT, LAN | {"state": "absent"}], [])
    vm.spec.run_strategy = "Halted"
    vm.spec.running = None
    assert [action for action in plan_vm(vm, None, NOW, 0.5).actions if isinstance(action, PatchVm)] != []


def test_an_interface_of_a_plugin_comes_when_the_plugin_makes_a_link() -> None:
    plugged = {"name": "lan", "binding": {"name": "macvtap"}}
    vm, vmi = a_pair([DEFAULT, plugged], [DEFAULT])
    assert plan_interfaces(vm, vmi) == {}
    spec = plan_interfaces(vm, vmi, {"macvtap"})["spec"]
    assert [item["name"] for item in spec["domain"]["devices"]["interfaces"]] == ["default", "lan"]
    (action,) = [
        each
        for each in plan_vm(vm, vmi, NOW, 0.5, Hotplug(plugins=frozenset({"macvtap"}))).actions
        if isinstance(each, ChangeRun)
    ]
    assert action.what is Live.INTERFACES


def test_an_interface_of_a_plugin_goes_while_the_guest_runs() -> None:
    plugged = {"name": "lan", "binding": {"name": "macvtap"}, "macAddress": LAN["macAddress"]}
    vm, vmi = a_pair([DEFAULT, plugged | {"state": "absent"}], [DEFAULT, plugged], ("lan",))
    assert carried(vm, vmi) == {"default": "", "lan": "absent"}


@pytest.mark.parametrize(("plugins", "needed"), [({"macvtap"}, False), (frozenset(), True)], ids=["a link", "no link"])
def test_an_interface_of_a_plugin_that_makes_no_link_waits_for_a_restart(plugins: frozenset[str], needed: bool) -> None:
    vm, vmi = a_pair([DEFAULT, {"name": "lan", "binding": {"name": "macvtap"}}], [DEFAULT])
    vmi.metadata.annotations |= {TEMPLATE_HASH: template_hash(vm), VM_GENERATION: "0"}
    assert needs_restart(vm, vmi, plugins) is needed


MOVES = [Condition(type="LiveMigratable", status="True")]


@pytest.mark.parametrize(
    ("conditions", "is_alone", "source", "is_carried"),
    [
        (MOVES, False, "domain, multus-status", True),
        ([], True, "domain, multus-status", True),
        ([], False, "domain, multus-status", False),
        (MOVES, True, "domain", False),
    ],
    ids=["it can be migrated", "the only node", "it cannot leave its node", "the Pod does not say what it is on"],
)
def test_another_network_reaches_the_run_where_its_nic_can_be_taken_there(
    conditions: list[Condition], is_alone: bool, source: str, is_carried: bool
) -> None:
    before, _ = a_pair([DEFAULT, LAN], [DEFAULT, LAN])
    vm, vmi = a_pair([DEFAULT, LAN], [DEFAULT, LAN], ("default",), "blue")
    vmi.status.interfaces.append(InterfaceStatus(name="lan", info_source=source))
    vmi.status.conditions = conditions
    body = plan_interfaces(vm, vmi, is_alone=is_alone)
    expected = {"spec": {"networks": [network("default"), network("lan", "blue")]}} if is_carried else {}
    assert body == expected
    vmi.metadata.annotations = {TEMPLATE_HASH: template_hash(before), VM_GENERATION: "0"}
    assert needs_restart(vm, vmi, is_alone=is_alone) is not is_carried


def test_a_network_that_is_no_longer_multus_waits_for_a_restart() -> None:
    before, _ = a_pair([DEFAULT, LAN], [DEFAULT, LAN])
    vm, vmi = a_pair([DEFAULT, LAN], [DEFAULT, LAN], ("default",))
    assert vm.spec.template is not None
    vm.spec.template.spec.networks = [decode(Network, {"name": "lan", "pod": {}})]
    vmi.status.conditions = MOVES
    assert plan_interfaces(vm, vmi) == {}
    assert restarts(vm, vmi, before)

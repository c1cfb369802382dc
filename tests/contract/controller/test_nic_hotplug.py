"""NICs of running guests with the controller against both servers; node and Multus are played."""

from __future__ import annotations

import json
from typing import Any

from kvedge.kube.patches import MergePatch
from kvedge.resources.codec import JsonObject, encode
from kvedge.resources.meta import Condition, condition
from kvedge.resources.names import SKIP_BACKUP_HOOKS, SWITCHED_NETWORKS, SWITCHES_NETWORKS
from kvedge.resources.types.core import Pod
from kvedge.resources.types.pod_networks import NETWORK_STATUS, NETWORKS, JoinedNetwork, network_status, pod_nic
from kvedge.resources.types.vm import VirtualMachine
from kvedge.resources.types.vmi import InterfaceStatus, VirtualMachineInstance
from tests.contract.controller.played_node import PlayedNode
from tests.support.either_server import EitherServer
from tests.support.waiting import wait_until


def template(*lan: JsonObject, of: str = "red") -> JsonObject:
    interfaces = [{"name": "default", "bridge": {}}, *lan]
    networks = [
        {"name": "default", "pod": {}},
        *({"name": nic["name"], "multus": {"networkName": of}} for nic in lan),
    ]
    return {"spec": {"template": {"spec": {"domain": {"devices": {"interfaces": interfaces}}, "networks": networks}}}}


class Scene:
    """A VM whose guest runs, and who plays the rest."""

    def __init__(self, server: EitherServer, node: PlayedNode) -> None:
        self.client, self.node, self.namespace = server.admin, node, node.namespace
        body = {"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "metadata": {"name": "web"}, **template()}
        body["spec"]["runStrategy"] = "Always"
        self.client.request("POST", VirtualMachine.KIND.path(self.namespace), body)
        node.starts(node.pod())
        node.runs()

    def edit(self, *lan: JsonObject, of: str = "red") -> None:
        self.client.patch(VirtualMachine, self.namespace, "web", MergePatch(template(*lan, of=of)))

    def asked(self) -> list[str]:
        """The NICs that the launcher's Pod is to have."""
        return [each["interface"] for each in json.loads(self.node.pod().metadata.annotations.get(NETWORKS, "[]"))]

    def networks(self) -> list[str]:
        """The networks that the launcher's Pod is to have."""
        return [each["name"] for each in json.loads(self.node.pod().metadata.annotations.get(NETWORKS, "[]"))]

    def multus_says(self, *names: str, of: str = "red", more: str = "") -> None:
        told = network_status([JoinedNetwork(name=of, interface=pod_nic(name)) for name in names])
        change: Any = {"metadata": {"annotations": {NETWORK_STATUS: told, **({more: "true"} if more else {})}}}
        self.client.patch(Pod, self.namespace, self.node.pod().metadata.name, MergePatch(change))

    def sources(self) -> str | None:
        rows = {row.name: row.info_source for row in self.node.vmi().status.interfaces}
        return rows.get("lan")

    def handler_says(self, *rows: InterfaceStatus) -> None:
        body: JsonObject = {"status": {"interfaces": [encode(row) for row in rows]}}
        self.client.patch(VirtualMachineInstance, self.namespace, "web", MergePatch(body))

    def interfaces(self) -> tuple[list[str], list[str]]:
        """Of the VM, and of its run."""
        vm = self.client.get(VirtualMachine, self.namespace, "web")
        assert vm.spec.template is not None
        of_vm, of_vmi = vm.spec.template.spec, self.node.vmi().spec
        return (
            [item.name for item in of_vm.domain.devices.interfaces],
            [item.name for item in of_vmi.domain.devices.interfaces],
        )

    def condition(self, kind: str) -> str:
        vm = self.client.get(VirtualMachine, self.namespace, "web")
        found = condition(vm.status.conditions, kind)
        return found.status if found is not None else ""


def test_a_nic_comes_and_goes_from_the_template_to_the_pod_and_back(
    either_server: EitherServer, node: PlayedNode
) -> None:
    scene = Scene(either_server, node)
    scene.edit({"name": "lan", "bridge": {}})
    wait_until(lambda: scene.asked() == [pod_nic("lan")], "the Pod is to join the network")
    wait_until(lambda: scene.condition("MigrationRequired") == "False", "it is told what is waited for")
    scene.multus_says("lan")
    wait_until(lambda: scene.sources() == "multus-status", "the VMI shows that it has")
    wait_until(lambda: scene.condition("MigrationRequired") == "", "nothing is waited for")
    first = InterfaceStatus(name="default", pod_interface_name="eth0", info_source="domain")
    lan = InterfaceStatus(name="lan", pod_interface_name=pod_nic("lan"), info_source="domain, multus-status")
    scene.handler_says(first, lan)
    scene.edit({"name": "lan", "bridge": {}, "state": "absent"})
    wait_until(lambda: node.vmi().spec.domain.devices.interfaces[1].state == "absent", "the run is to lose it")
    assert scene.asked() == [pod_nic("lan")], "the guest has it still"
    scene.handler_says(
        first, InterfaceStatus(name="lan", pod_interface_name=pod_nic("lan"), info_source="multus-status")
    )
    wait_until(lambda: scene.asked() == [], "the Pod is to leave")
    scene.multus_says()
    wait_until(lambda: scene.sources() == "", "the VMI shows that it has")
    scene.handler_says(first)
    wait_until(lambda: scene.interfaces() == (["default"], ["default"]), "VM and run have forgotten it")
    assert scene.condition("RestartRequired") == ""


LAN = {"name": "lan", "bridge": {}}


def plug_in(scene: Scene, mark: str = "") -> None:
    """A NIC that is in, of a guest that can be migrated; `mark` is on the Pod of a node that switches networks."""
    scene.edit(LAN)
    wait_until(lambda: scene.networks() == ["red"], "the Pod is to join the network")
    scene.multus_says("lan", more=mark)
    rows = [
        InterfaceStatus(name="default", pod_interface_name="eth0", info_source="domain"),
        InterfaceStatus(name="lan", pod_interface_name=pod_nic("lan"), info_source="domain, multus-status"),
    ]
    movable = Condition(type="LiveMigratable", status="True")
    kept = [each for each in scene.node.vmi().status.conditions if each.type != "MigrationRequired"]
    body: JsonObject = {"status": {"interfaces": [encode(row) for row in rows]}}
    body["status"]["conditions"] = [encode(each) for each in (*kept, movable)]
    scene.client.patch(VirtualMachineInstance, scene.namespace, "web", MergePatch(body))
    wait_until(lambda: scene.condition("MigrationRequired") == "", "nothing is waited for")


def test_another_network_reaches_the_pod_where_its_nics_are_taken_there(
    either_server: EitherServer, node: PlayedNode
) -> None:
    scene = Scene(either_server, node)
    plug_in(scene, SWITCHES_NETWORKS)
    scene.edit(LAN, of="blue")
    wait_until(lambda: scene.networks() == ["blue"], "the Pod is to be there")
    wait_until(lambda: scene.condition("MigrationRequired") == "False", "it is told what is waited for")
    assert node.vmi().metadata.annotations[SWITCHED_NETWORKS] == '{"lan":""}'
    scene.multus_says("lan", of=f"{scene.namespace}/blue")
    wait_until(
        lambda: node.vmi().metadata.annotations[SWITCHED_NETWORKS] == f'{{"lan":"{scene.namespace}/blue"}}',
        "the launcher is told",
    )
    wait_until(lambda: scene.condition("MigrationRequired") == "", "nothing is waited for")
    assert scene.condition("RestartRequired") == ""


def test_elsewhere_another_network_asks_for_a_migration_at_once(either_server: EitherServer, node: PlayedNode) -> None:
    scene = Scene(either_server, node)
    plug_in(scene)
    scene.edit(LAN, of="blue")
    wait_until(lambda: scene.condition("MigrationRequired") == "True", "another Pod is wanted")
    assert scene.networks() == ["red"], "the Pod that runs is left as it is"
    (wanted,) = [each.multus.network_name for each in node.vmi().spec.networks if each.multus is not None]
    assert wanted == "blue"
    scene.edit(LAN)
    wait_until(lambda: scene.condition("MigrationRequired") == "", "it is where it was wanted before")


def test_the_word_about_backups_reaches_a_launcher_that_runs(either_server: EitherServer, node: PlayedNode) -> None:
    scene = Scene(either_server, node)

    def has_hooks() -> bool:
        return "pre.hook.backup.velero.io/command" in node.pod().metadata.annotations

    assert has_hooks()
    for said, has in (("true", False), (None, True)):
        change: Any = {"metadata": {"annotations": {SKIP_BACKUP_HOOKS: said}}}
        scene.client.patch(VirtualMachine, scene.namespace, "web", MergePatch(change))
        wait_until(lambda has=has: has_hooks() is has, f"the VM says {said}")

"""Roles whose server has forgotten what they missed: etcd is compacted while they are cut off, so that they list anew.

A kube-apiserver with and without its watch cache: without, etcd itself says that the version is gone; with one, a
restart has emptied it. Between roles and server stands a proxy that can be shut.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from kvedge.api.api_service import ApiRole
from kvedge.controller.controller_service import ControllerRole
from kvedge.kube.kube_client import KubeClient
from kvedge.kube.patches import MergePatch
from kvedge.resources.meta import ObjectMeta
from kvedge.resources.role_users import API_GROUP, API_USER, CONTROLLER_GROUP, CONTROLLER_USER
from kvedge.resources.types.core import ConfigMap, Pod
from kvedge.resources.types.vm import VirtualMachine, VirtualMachineInstanceTemplate, VirtualMachineSpec
from kvedge.resources.types.vmi import VirtualMachineInstance
from tests.contract.controller.played_node import PlayedNode
from tests.support.builders import CONFIG
from tests.support.either_server import REAL, EitherServer, install_kinds, lone_server
from tests.support.kube_apiserver import RealApiServer, reachable_address
from tests.support.role_rights import give_roles_their_rights
from tests.support.tearing_proxy import TearingProxy
from tests.support.waiting import wait_until

pytestmark = pytest.mark.contract

KEPT, GONE, CHANGED = "kept", "gone", "changed"


@dataclass
class Cut:
    """A server, roles that reach it through a proxy, and the way to cut them off."""

    server: RealApiServer
    admin: KubeClient
    proxy: TearingProxy
    restarts: bool

    def forgets(self) -> None:
        """Nobody can be told of anything before now."""
        self.server.compact()
        if self.restarts:
            self.server.restart_server()

    def lists(self, group: str) -> list[str]:
        """What the roles of a group have listed so far."""
        return [call.resource for call in self.server.role_calls() if (call.group, call.verb) == (group, "list")]

    def kubeconfig(self, user: str, group: str) -> Path:
        path = self.server.write_kubeconfig(user, [group])
        path.write_text(path.read_text().replace(f":{self.server.port}'", f":{self.proxy.port}'"))
        return path


@pytest.fixture(scope="module", params=[False, True], ids=["etcd is asked", "the watch cache is empty"])
def cut(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cut]:
    options = [] if request.param else ["--watch-cache=false"]
    with lone_server(tmp_path_factory.mktemp("compaction"), *options) as (server, admin):
        install_kinds(admin)
        give_roles_their_rights(admin)
        with TearingProxy("127.0.0.1", server.port) as proxy:
            yield Cut(server, admin, proxy, request.param)


def vms(client: KubeClient, namespace: str) -> list[str]:
    """The VMs that have a run, with a Pod each."""
    owners = {vmi.metadata.uid: vmi.metadata.name for vmi in client.list(VirtualMachineInstance, namespace)}
    pods = client.list(Pod, namespace, "kubevirt.io=virt-launcher")
    found = [pod.metadata.controller_reference() for pod in pods]
    return sorted(owners[owner.uid] for owner in found if owner is not None and owner.uid in owners)


def create(client: KubeClient, namespace: str, name: str, strategy: str = "Always") -> None:
    spec = VirtualMachineSpec(run_strategy=strategy, template=VirtualMachineInstanceTemplate())
    client.create(VirtualMachine(metadata=ObjectMeta(name=name, namespace=namespace), spec=spec))


def test_a_controller_that_missed_what_etcd_has_forgotten_lists_anew_and_loses_nothing(cut: Cut) -> None:
    either = EitherServer(REAL, cut.server.directory, cut.server.kubeconfig, cut.admin, cut.server)
    namespace, admin = either.new_namespace(), cut.admin
    role = ControllerRole(cut.kubeconfig(CONTROLLER_USER, CONTROLLER_GROUP), CONFIG, leader_election=False)
    role.start()
    try:
        for name, strategy in ((KEPT, "Always"), (GONE, "Always"), (CHANGED, "Halted")):
            create(admin, namespace, name, strategy)
        wait_until(lambda: vms(admin, namespace) == [GONE, KEPT], "the controller works")
        kept = admin.get(VirtualMachineInstance, namespace, KEPT).metadata.uid
        listed = cut.lists(CONTROLLER_GROUP)
        cut.proxy.freeze()
        cut.proxy.tear()
        admin.delete(VirtualMachine, namespace, GONE)
        admin.patch(VirtualMachine, namespace, CHANGED, MergePatch({"spec": {"runStrategy": "Always"}}))
        for number in range(3):
            create(admin, namespace, f"new-{number}")
        cut.forgets()
        assert vms(admin, namespace) == [GONE, KEPT]
        cut.proxy.thaw()
        wanted = [CHANGED, KEPT, "new-0", "new-1", "new-2"]
        wait_until(lambda: vms(admin, namespace) == wanted, f"{wanted} run", 60)
        assert admin.get(VirtualMachineInstance, namespace, KEPT).metadata.uid == kept
        wait_until(
            lambda: sorted(vm.metadata.name for vm in admin.list(VirtualMachine, namespace)) == wanted,
            "the VM that was deleted is gone",
        )
        assert role.failure() is None
        again = cut.lists(CONTROLLER_GROUP)[len(listed) :]
        assert {"virtualmachines", "virtualmachineinstances", "pods"} <= set(again)

        def is_told_by_a_watch(name: str) -> bool:
            count = len(cut.lists(CONTROLLER_GROUP))
            pods = wait_until(lambda: admin.list(Pod, namespace, f"vm.kubevirt.io/name={name}"), f"{name} has a Pod")
            PlayedNode(either, namespace).starts(pods[0])
            wait_until(
                lambda: admin.get(VirtualMachineInstance, namespace, name).status.phase == "Scheduled",
                "it follows its Pods",
            )
            return len(cut.lists(CONTROLLER_GROUP)) == count

        # And from there on; a server that has just begun may first refuse a watch or two, which is listed for again.
        assert any(is_told_by_a_watch(name) for name in wanted)
    finally:
        role.stop()


def test_an_api_role_that_missed_what_etcd_has_forgotten_lists_anew(cut: Cut) -> None:
    role = ApiRole(cut.kubeconfig(API_USER, API_GROUP), f"{reachable_address()}:0")
    role.start()
    try:
        wait_until(lambda: "kubevirts" in cut.lists(API_GROUP), "it follows the configuration")
        listed = cut.lists(API_GROUP)
        cut.proxy.freeze()
        cut.proxy.tear()
        cut.admin.create(ConfigMap(metadata=ObjectMeta(name="bystander", namespace="default")))
        cut.forgets()
        cut.proxy.thaw()
        wait_until(lambda: "kubevirts" in cut.lists(API_GROUP)[len(listed) :], "it lists anew", 60)
        assert role.failure() is None
    finally:
        role.stop()

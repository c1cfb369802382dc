"""A guest that moves under the roles' own rights: the Pods and both handlers are played, all else is real.

Used by test_role_rights.py. What the handlers write here they write with handlers' credentials, past the webhooks and
the policy that keep each to its part.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

from kvedge import __version__
from kvedge.kube.kube_client import KubeClient
from kvedge.kube.patches import MergePatch
from kvedge.resources.meta import ObjectMeta
from kvedge.resources.names import MIGRATION_TARGET_NODE, NODE_NAME, SCHEDULABLE, VERSION
from kvedge.resources.role_users import HANDLER_GROUP, handler_user
from kvedge.resources.types.core import Node, Pod
from kvedge.resources.types.migrations import (
    MIGRATION_JOB_UID,
    MigrationPolicy,
    MigrationPolicySpec,
    PolicySelectors,
    VirtualMachineInstanceMigration,
)
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.runtime.clock import rfc3339
from tests.contract.controller.played_node import PlayedNode
from tests.support.either_server import EitherServer
from tests.support.waiting import wait_until

OTHER_NODE: Final = "node-2"
_MIGRATE: Final = "/apis/subresources.kubevirt.io/v1/namespaces/{}/virtualmachines/web/migrate"


def move_guest(server: EitherServer, node: PlayedNode, source: KubeClient) -> tuple[Pod, KubeClient]:
    """Move `web` to another node, as a user asks; its launcher there, and that node's handler."""
    labels, annotations = {SCHEDULABLE: "true"}, {VERSION: __version__}
    server.admin.create(Node(metadata=ObjectMeta(name=OTHER_NODE, labels=labels, annotations=annotations)))
    target = KubeClient.from_kubeconfig(server.kubeconfig_of(handler_user(OTHER_NODE), HANDLER_GROUP))
    (leaving,) = node.pods()
    write(source, node, {"status": {"conditions": [{"type": "LiveMigratable", "status": "True"}]}})
    where = PolicySelectors(namespace_selector={"kubernetes.io/metadata.name": node.namespace})
    policy = MigrationPolicy(
        metadata=ObjectMeta(name="slow"), spec=MigrationPolicySpec(selectors=where, bandwidth_per_migration="64Mi")
    )
    server.admin.create(policy)
    server.admin.request("PUT", _MIGRATE.format(node.namespace), {})
    coming = wait_until(lambda: find_target(node), "the target's Pod")
    server.bind(coming, OTHER_NODE)
    node.starts(server.admin.get(Pod, node.namespace, coming.metadata.name))
    wait_until(lambda: MIGRATION_TARGET_NODE in node.vmi().metadata.labels, "the VMI is handed over")
    found = node.vmi().status.migration_state
    assert found is not None
    assert found.migration_policy_name == "slow"
    write(target, node, state(targetNodeAddress="192.0.2.2:8186"))
    write(source, node, state(startTimestamp=now(), mode="PreCopy"))
    write(source, node, state(sourceNodeDomainGoneTimestamp=now()))
    node.reports(leaving, "Succeeded", {"compute": {"terminated": {"exitCode": 0}}})
    taken = {NODE_NAME: OTHER_NODE, MIGRATION_TARGET_NODE: None}
    ended = {"nodeName": OTHER_NODE, **state(completed=True, endTimestamp=now())["status"]}
    write(target, node, {"metadata": {"labels": taken}, "status": ended})
    wait_until(lambda: phases(server, node) == ["Succeeded"], "the migration has succeeded")
    wait_until(lambda: list(node.vmi().status.active_pods.values()) == [OTHER_NODE], "the source is forgotten")
    node.removes(leaving)
    return server.admin.get(Pod, node.namespace, coming.metadata.name), target


def find_target(node: PlayedNode) -> Pod | None:
    return next((pod for pod in node.pods() if MIGRATION_JOB_UID in pod.metadata.labels), None)


def phases(server: EitherServer, node: PlayedNode) -> list[str]:
    return [item.status.phase for item in server.admin.list(VirtualMachineInstanceMigration, node.namespace)]


def state(**members: Any) -> dict[str, Any]:
    return {"status": {"migrationState": members}}


def write(client: KubeClient, node: PlayedNode, body: dict[str, Any]) -> None:
    client.patch(VirtualMachineInstance, node.namespace, "web", MergePatch(body))


def now() -> str:
    return rfc3339(datetime.now(UTC))

"""What else there is when a migration is made: its VMI, the VMI's other migrations, and nodes.

Called by the webhook of new migrations and by the subresource that makes them. Reads the API.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from kvedge.api.admission.migrations.migration_verdict import Around
from kvedge.kube.errors import NotFound
from kvedge.kube.kube_client import KubeClient
from kvedge.resources.names import SCHEDULABLE
from kvedge.resources.types.core import Node
from kvedge.resources.types.migrations import VMI_NAME_LABEL, VirtualMachineInstanceMigration
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.resources.values.label_values import as_label_value

# One node is the VMI's own, so that two say whether there is another one.
_ENOUGH_NODES: Final = "2"


def look_around(client: KubeClient, migration: VirtualMachineInstanceMigration) -> Around:
    """Ask for what the verdict needs.

    Raises:
        KubeError: when the API server refuses or does not answer.
    """
    namespace, name = migration.metadata.namespace, migration.spec.vmi_name
    try:
        vmi = client.get(VirtualMachineInstance, namespace, name)
    except NotFound:
        return Around(None, (), (), ())
    others = client.list(VirtualMachineInstanceMigration, namespace, f"{VMI_NAME_LABEL}={as_label_value(name)}")
    wanted = {SCHEDULABLE: "true", **migration.spec.added_node_selector}
    return Around(vmi, others, _nodes(client, {}), _nodes(client, wanted))


def _nodes(client: KubeClient, labels: Mapping[str, str]) -> Sequence[str]:
    """The names of some nodes with these labels: two of them, if there are so many."""
    query = {"limit": _ENOUGH_NODES}
    if labels:
        query["labelSelector"] = ",".join(f"{key}={value}" for key, value in labels.items())
    found = client.request("GET", Node.KIND.path(), query=query)
    return [str(item["metadata"]["name"]) for item in found.get("items") or ()]

"""Nodes. See `builtin_kind`."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from kvedge.resources.codec import JsonObject
from kvedge.standalone.apiserver.kinds.builtin_kind import CORE, BuiltinKind
from kvedge.standalone.apiserver.kinds.rules import core_rules
from kvedge.standalone.apiserver.kinds.table_columns import AGE, NAME, NONE, Column, at, text
from kvedge.standalone.apiserver.wire.human_ages import UNKNOWN
from kvedge.standalone.apiserver.wire.protobuf_body import IN_KUBERNETES

_ROLE_PREFIX: Final = "node-role.kubernetes.io/"


def _status(node: JsonObject, now: datetime) -> str:
    ready = next((item for item in at(node, "status.conditions", []) if item.get("type") == "Ready"), None)
    if ready is None:
        word = "Unknown"
    else:
        word = {"True": "Ready", "False": "NotReady"}.get(ready.get("status", ""), "NotReady")
    return word + (",SchedulingDisabled" if at(node, "spec.unschedulable") else "")


def _roles(node: JsonObject, now: datetime) -> str:
    labels = at(node, "metadata.labels", {})
    roles = {key.removeprefix(_ROLE_PREFIX) for key in labels if key.startswith(_ROLE_PREFIX)} - {""}
    if labels.get("kubernetes.io/role"):
        roles.add(labels["kubernetes.io/role"])
    return ",".join(sorted(roles)) or NONE


def _address(kind: str) -> Column:
    def cell(node: JsonObject, now: datetime) -> str:
        addresses = at(node, "status.addresses", [])
        return next((item.get("address", "") for item in addresses if item.get("type") == kind), NONE)

    return Column(f"{kind[:8]}-IP", cell, description=f"The node's {kind} address.", priority=1)


KINDS: Final = (
    BuiltinKind(
        *CORE,
        kind="Node",
        plural="nodes",
        namespaced=False,
        short_names=("no",),
        subresources=("status",),
        columns=(
            NAME,
            Column("Status", _status, description="Whether the node takes Pods."),
            Column("Roles", _roles, description="The node's roles."),
            AGE,
            text("Version", "status.nodeInfo.kubeletVersion", description="Version of the node's agent."),
            _address("InternalIP"),
            _address("ExternalIP"),
            text("OS-Image", "status.nodeInfo.osImage", UNKNOWN, 1),
            text("Kernel-Version", "status.nodeInfo.kernelVersion", UNKNOWN, 1),
            text("Container-Runtime", "status.nodeInfo.containerRuntimeVersion", UNKNOWN, 1),
        ),
        field_labels={"spec.unschedulable": "false"},
        # A node registers itself with its status in one request, as a kubelet does.
        status_on_create=True,
        metadata_with_status=True,
        check=core_rules.check_node,
        protobuf=IN_KUBERNETES,
    ),
)

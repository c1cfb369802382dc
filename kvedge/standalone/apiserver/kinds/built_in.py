"""The built-in kinds: all rows, and what the write path and the tables ask of them.

Called by routing, the write path and whoever renders documents about kinds. Pure; the rows are in `groups/`.
"""

from __future__ import annotations

from typing import Final

from kvedge.resources.codec import JsonObject
from kvedge.standalone.apiserver.kinds.builtin_kind import BuiltinKind
from kvedge.standalone.apiserver.kinds.groups import (
    admissionregistration,
    apiextensions,
    apiregistration,
    apps,
    certificates,
    coordination,
    core,
    core_nodes,
    core_pods,
    core_services,
    core_volumes,
    discovery,
    events,
    metrics,
    networking,
    policy,
    rbac,
    reviews,
    scheduling,
    snapshots,
    storage,
)
from kvedge.standalone.apiserver.wire.protobuf_body import IN_KUBERNETES, MessageType

# Discovery lists groups in this order.
BUILT_IN: Final[tuple[BuiltinKind, ...]] = (
    *core.KINDS,
    *core_nodes.KINDS,
    *core_pods.KINDS,
    *core_services.KINDS,
    *core_volumes.KINDS,
    *events.KINDS,
    *apps.KINDS,
    *certificates.KINDS,
    *coordination.KINDS,
    *discovery.KINDS,
    *events.KINDS_OF_EVENTS,
    *networking.KINDS,
    *policy.KINDS,
    *apiextensions.KINDS,
    *apiregistration.KINDS,
    *admissionregistration.KINDS,
    *storage.KINDS,
    *snapshots.KINDS,
    *scheduling.KINDS,
    *rbac.KINDS,
    *reviews.KINDS,
    *metrics.KINDS,
)
_BY_STORAGE: Final = {kind.storage: kind for kind in BUILT_IN if not kind.stored_as}
# What is sent to subresources and is no kind of its own.
_SUBRESOURCE_BODIES: Final = (
    ("v1", "Binding"),
    ("authentication.k8s.io/v1", "TokenRequest"),
    ("autoscaling/v1", "Scale"),
    ("policy/v1", "Eviction"),
)
# By apiVersion and kind: what may be sent in protobuf.
MESSAGES: Final[dict[tuple[str, str], MessageType]] = {
    **dict.fromkeys(_SUBRESOURCE_BODIES, IN_KUBERNETES),
    **{(kind.api_version, kind.kind): kind.protobuf for kind in BUILT_IN if kind.protobuf is not None},
}


def find_built_in(resource: str) -> BuiltinKind | None:
    """The row of a stored resource, such as `pods` or `leases.coordination.k8s.io`; None for a custom one."""
    return _BY_STORAGE.get(resource)


def apply_built_in_defaults(resource: str, obj: JsonObject) -> None:
    """Fill in what an object of this stored resource leaves out; the object is altered."""
    row = find_built_in(resource)
    if row is not None and row.set_defaults is not None:
        row.set_defaults(obj)


def initial_status(resource: str, obj: JsonObject) -> JsonObject | None:
    """The status that a new object of a built-in kind, its defaults set, starts with."""
    row = find_built_in(resource)
    return row.initial_status(obj) if row is not None and row.initial_status is not None else None

"""Which writer may change which part of a VMI that is there.

A VMI has no status subresource: spec and status come in one document, so that the writer's name decides. Works on
documents as they came. Called by admission_plan.py; touches nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

from kvedge.api.admission.rules.causes import Cause, Field
from kvedge.api.admission.rules.storage.volume_update_rules import volumes_may_change
from kvedge.resources.codec import JsonObject
from kvedge.resources.names import RESERVED_LABELS
from kvedge.resources.role_users import UserInfo

_RESTRICTED = "update of VMI object is restricted"
_LABELS = "modification of the following reserved kubevirt.io/ labels on a VMI object is prohibited"
_NODE = "Node restriction, virt-handler is only allowed to modify VMIs it owns"
# By these a VMI is kept, and goes with its VM.
_OWNERSHIP = ("ownerReferences", "finalizers")


def update_is_allowed(old: JsonObject, new: JsonObject, user: UserInfo) -> Iterator[Cause]:
    """A cause for each thing that this user may not change."""
    if user.is_handler:
        yield from _node_restriction(old, new, user)
    if user.is_role and not user.is_handler:
        if old.get("spec") != new.get("spec"):
            yield from volumes_may_change(old, new)
        return
    if old.get("spec") != new.get("spec"):
        # The handler describes what is; what should be is not its to say.
        yield Cause("spec", _RESTRICTED, "FieldValueNotSupported")
    # Nor do a handler's labels move a VMI: which node has it is the controller's to say.
    yield from _check_reserved_labels(old, new)


def keep_status(old: JsonObject, new: JsonObject, user: UserInfo) -> JsonObject:
    """The document with the status that it had, unless a role writes it."""
    if user.is_role or old.get("status") == new.get("status"):
        return new
    kept = {key: value for key, value in new.items() if key != "status"}
    return {**kept, "status": old["status"]} if "status" in old else kept


def _node_restriction(old: JsonObject, new: JsonObject, user: UserInfo) -> Iterator[Cause]:
    before, after = _node(old), _node(new)
    if not user.node or before != user.node:
        yield Cause("status.nodeName", _NODE, "FieldValueNotSupported")
    elif after != user.node:
        text = "Node restriction, virt-handler is not allowed to give a VMI to another node"
        yield Cause("status.nodeName", text, "FieldValueNotSupported")
    if _target(old) != _target(new):
        text = "Node restriction, virt-handler is not allowed to set target node"
        yield Cause("status.migrationState.targetNode", text, "FieldValueNotSupported")
    for member in _OWNERSHIP:
        if old["metadata"].get(member) != new["metadata"].get(member):
            text = f"Node restriction, virt-handler is not allowed to change {member}"
            yield Cause(f"metadata.{member}", text, "FieldValueNotSupported")


def _check_reserved_labels(old: JsonObject, new: JsonObject) -> Iterator[Cause]:
    before, after = _labels(old), _labels(new)
    changed = sorted(label for label in RESERVED_LABELS if before.get(label) != after.get(label))
    if changed:
        yield Cause(Field("metadata.labels").key(changed[0]), f"{_LABELS}: {', '.join(changed)}")


def _node(document: JsonObject) -> str:
    status = document.get("status")
    return str(status.get("nodeName") or "") if isinstance(status, dict) else ""


def _target(document: JsonObject) -> str:
    status = document.get("status")
    state = status.get("migrationState") if isinstance(status, dict) else None
    return str(state.get("targetNode") or "") if isinstance(state, dict) else ""


def _labels(document: JsonObject) -> JsonObject:
    labels = document["metadata"].get("labels")
    return labels if isinstance(labels, dict) else {}

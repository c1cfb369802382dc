"""Which writer may change which part of a VMI that is there.

A VMI has no status subresource: spec and status come in one document, so that the writer's name decides. Works on
documents as they came. Called by admission_plan.py; touches nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kvedge.api.admission.rules.causes import Cause, Field
from kvedge.api.admission.rules.storage.volume_update_rules import volumes_may_change
from kvedge.resources.codec import JsonObject
from kvedge.resources.disks.moved_volumes import IN_PLACE, VOLUMES_CHANGE
from kvedge.resources.names import MIGRATION_TARGET_NODE, NODE_NAME, RESERVED_LABELS
from kvedge.resources.role_users import UserInfo
from kvedge.resources.types.migrations import CONTROLLERS_PART, ENDS_PART, SOURCE_IS_GONE, SOURCES_PART, TARGETS_PART
from kvedge.resources.values.hook_names import HOOK_SIDECARS

_RESTRICTED = "update of VMI object is restricted"
_LABELS = "modification of the following reserved kubevirt.io/ labels on a VMI object is prohibited"
_NODE = "Node restriction, virt-handler is only allowed to modify VMIs it owns"
# By these a VMI is kept, and goes with its VM.
_OWNERSHIP = ("ownerReferences", "finalizers")
# What the write changes that takes a VMI over; which values they get, the rule of reserved labels says.
_MOVED_LABELS = frozenset({NODE_NAME, MIGRATION_TARGET_NODE})


def update_is_allowed(old: JsonObject, new: JsonObject, user: UserInfo) -> Iterator[Cause]:
    """A cause for each thing that this user may not change."""
    if user.is_handler:
        yield from _node_restriction(old, new, user)
    if not user.is_controller:
        yield from _copies_are_the_controllers(old, new)
    yield from _hooks_stay(old, new)
    if user.is_role and not user.is_handler:
        if old.get("spec") != new.get("spec"):
            yield from _guest_is_not_moving(old, new)
            yield from _disks_are_not_copied(old, new)
            yield from volumes_may_change(old, new)
        return
    if old.get("spec") != new.get("spec") and not (user.is_handler and _exchanges_claims(old, new, user.node)):
        # The handler describes what is; what should be is not its to say, but for the claims that disks were copied to.
        yield Cause("spec", _RESTRICTED, "FieldValueNotSupported")
    # Nor do a handler's labels move a VMI: which node has it is the controller's to say, until its guest has moved.
    yield from _check_reserved_labels(old, new, user.node if user.is_handler else "")


def _copies_are_the_controllers(old: JsonObject, new: JsonObject) -> Iterator[Cause]:
    """Who says where the disks of a guest are copied to could read them, or have another claim written over."""
    before, after = (_member(document, "spec", "utilityVolumes") or [] for document in (old, new))
    if before != after:
        text = f"{_RESTRICTED}: only kvedge's controller adds and removes utility volumes"
        yield Cause("spec.utilityVolumes", text, "FieldValueNotSupported")
    if _member(old, "status", "diskCopy") != _member(new, "status", "diskCopy"):
        text = f"{_RESTRICTED}: only kvedge's controller asks for copies of disks"
        yield Cause("status.diskCopy", text, "FieldValueNotSupported")


def _hooks_stay(old: JsonObject, new: JsonObject) -> Iterator[Cause]:
    """Containers beside the launcher are judged when the VMI is made, and its Pod may be made long after that."""
    before, after = ((document["metadata"].get("annotations") or {}).get(HOOK_SIDECARS) for document in (old, new))
    if before != after:
        at = Field("metadata.annotations").key(HOOK_SIDECARS)
        text = f"{at}: {_RESTRICTED}; change the VM's template, and restart the VM"
        yield Cause(at, text, "FieldValueNotSupported")


def keep_status(old: JsonObject, new: JsonObject, user: UserInfo) -> JsonObject:
    """The document with the status that it had, unless a role writes it."""
    if user.is_role or old.get("status") == new.get("status"):
        return new
    kept = {key: value for key, value in new.items() if key != "status"}
    return {**kept, "status": old["status"]} if "status" in old else kept


def _node_restriction(old: JsonObject, new: JsonObject, user: UserInfo) -> Iterator[Cause]:
    node, before, after = user.node, _node(old), _node(new)
    if not node or (before != node and not _is_target(old, node)):
        yield Cause("status.nodeName", _NODE, "FieldValueNotSupported")
    elif before != after and not _takes_over(old, new, node):
        text = "Node restriction, virt-handler is not allowed to give a VMI to another node"
        yield Cause("status.nodeName", text, "FieldValueNotSupported")
    elif before != node and not _source_is_gone(old) and _other_status(old) != _other_status(new):
        text = "Node restriction, virt-handler is not allowed to report on a VMI before its source is gone"
        yield Cause("status", text, "FieldValueNotSupported")
    yield from _migration_restriction(_migration(old), _migration(new), node)
    yield from _taken_restriction(old, new)
    yield from _end_restriction(old, new, node)
    claims = _find_moves(new)
    if claims != _find_moves(old) and (claims or not _takes_over(old, new, node)):
        # A guest gets the claims that the controller has judged: another one's disk would come along otherwise.
        text = "Node restriction, virt-handler is not allowed to say which claims volumes move to"
        yield Cause("status.migratedVolumes", text, "FieldValueNotSupported")
    if before != node and _other_metadata(old) != _other_metadata(new):
        text = "Node restriction, virt-handler is not allowed to change labels and annotations of a VMI it does not own"
        yield Cause("metadata", text, "FieldValueNotSupported")
    for member in _OWNERSHIP:
        if old["metadata"].get(member) != new["metadata"].get(member):
            text = f"Node restriction, virt-handler is not allowed to change {member}"
            yield Cause(f"metadata.{member}", text, "FieldValueNotSupported")


def _guest_is_not_moving(old: JsonObject, new: JsonObject) -> Iterator[Cause]:
    """What a guest has must not change while it is made on another node."""
    if not _is_migrating(old):
        return
    if _parts(old, "volumes", "disks") != _parts(new, "volumes", "disks"):
        text = "Cannot handle volume requests while VMI migration is in progress"
        yield Cause("spec", text, "FieldValueNotSupported")
    if _parts(old, "networks", "interfaces") != _parts(new, "networks", "interfaces"):
        text = "Cannot change interfaces while VMI migration is in progress"
        yield Cause("spec", text, "FieldValueNotSupported")
    if _cpus(old) != _cpus(new):
        yield Cause("spec", "CPU hotplug is not allowed while VMI is migrating", "FieldValueNotSupported")
    if _memory(old) != _memory(new):
        yield Cause("spec", "memory hotplug is not allowed while VMI is migrating", "FieldValueNotSupported")


def _memory(document: JsonObject) -> object:
    return (document["spec"].get("domain") or {}).get("memory") or {}


def _cpus(document: JsonObject) -> object:
    return (document["spec"].get("domain") or {}).get("cpu") or {}


def _disks_are_not_copied(old: JsonObject, new: JsonObject) -> Iterator[Cause]:
    """A disk that is being copied stays; others wait as well."""
    if _member(old, "status", "diskCopy") and _parts(old, "volumes", "disks") != _parts(new, "volumes", "disks"):
        yield Cause("spec", "Cannot handle volume requests while disks of the VMI are copied", "FieldValueNotSupported")


def _member(document: JsonObject, parent: str, name: str) -> object:
    """A member's member; None when the member is no object."""
    member = document.get(parent)
    return member.get(name) if isinstance(member, dict) else None


def _parts(document: JsonObject, sources: str, devices: str) -> tuple[object, object]:
    spec = document["spec"]
    return spec.get(sources) or [], ((spec.get("domain") or {}).get("devices") or {}).get(devices) or []


def _migration_restriction(old: JsonObject, new: JsonObject, node: str) -> Iterator[Cause]:
    """Each part of the state of a migration has one writer."""
    source, target = old.get("sourceNode"), old.get("targetNode")
    # Between two boxes a handler also writes what the other box's has told it.
    parts = (
        (CONTROLLERS_PART, ()),
        (SOURCES_PART, (source, target) if "sourceState" in old else (source,)),
        (TARGETS_PART, (source, target) if "targetState" in old else (target,)),
    )
    for member in ("sourceState", "targetState"):
        if (member in old) != (member in new):
            text = "Node restriction, virt-handler is not allowed to say that a guest moves between boxes"
            yield Cause(f"status.migrationState.{member}", text, "FieldValueNotSupported")
    for fields, writers in parts:
        name = next((name for name in fields if old.get(name) != new.get(name)), "")
        if name and node not in writers:
            text = "is not allowed to set target node" if name == "targetNode" else f"is not allowed to change {name}"
            at = f"status.migrationState.{name}"
            yield Cause(at, f"Node restriction, virt-handler {text}", "FieldValueNotSupported")


def _taken_restriction(old: JsonObject, new: JsonObject) -> Iterator[Cause]:
    """By this word VM and VMI name another claim: it comes once nothing of the guest is at the source, and stays."""
    before, after = (_migration(document).get("targetTakenTimestamp") for document in (old, new))
    if before != after and (before or not _source_is_gone(old)):
        text = "Node restriction, virt-handler is not allowed to say that a guest is taken before its source is gone"
        text = "Node restriction, virt-handler is not allowed to take back that a guest is taken" if before else text
        yield Cause("status.migrationState.targetTakenTimestamp", text, "FieldValueNotSupported")


def _end_restriction(old: JsonObject, new: JsonObject, node: str) -> Iterator[Cause]:
    """An end that has no write to go with it would have a guest ended that has not moved."""
    before, after = _migration(old), _migration(new)
    name = next((name for name in ENDS_PART if before.get(name) != after.get(name)), "")
    if not name or _takes_over(old, new, node):
        return
    hears_source = _source_is_gone(old) or "sourceState" in before
    knows = before.get("sourceNode") == node or (before.get("targetNode") == node and hears_source)
    # Another box's handler has told it before, and that is written down.
    is_taken = "targetState" in before and _source_is_gone(old) and bool(before.get("targetTakenTimestamp"))
    has_left = is_taken and before.get("sourceNode") == node
    if not (_is_migrating(old) and ((knows and after.get("failed")) or has_left)):
        text = f"Node restriction, virt-handler is not allowed to change {name}"
        yield Cause(f"status.migrationState.{name}", text, "FieldValueNotSupported")


def _check_reserved_labels(old: JsonObject, new: JsonObject, node: str) -> Iterator[Cause]:
    before, after = _labels(old), _labels(new)
    moved = {NODE_NAME: node, MIGRATION_TARGET_NODE: None} if _takes_over(old, new, node) else {}
    changed = sorted(
        label
        for label in RESERVED_LABELS
        if before.get(label) != after.get(label) and not (label in moved and after.get(label) == moved[label])
    )
    if changed:
        yield Cause(Field("metadata.labels").key(changed[0]), f"{_LABELS}: {', '.join(changed)}")


def _node(document: JsonObject) -> str:
    status = document.get("status")
    return str(status.get("nodeName") or "") if isinstance(status, dict) else ""


def _is_target(old: JsonObject, node: str) -> bool:
    """Whether the VMI is about to come to this node."""
    return _is_migrating(old) and _migration(old).get("targetNode") == node


def _is_migrating(document: JsonObject) -> bool:
    state = _migration(document)
    return bool(state.get("migrationUid")) and not state.get("completed") and not state.get("failed")


def _takes_over(old: JsonObject, new: JsonObject, node: str) -> bool:
    """Whether this is the write by which the VMI becomes this node's."""
    state = _migration(new)
    is_taken = _node(old) != node and _node(new) == node and state.get("completed") and not state.get("failed")
    return bool(is_taken) and _is_target(old, node) and _source_is_gone(old)


def _exchanges_claims(old: JsonObject, new: JsonObject, node: str) -> bool:
    """Whether a guest's target, once its source is gone, changes claims alone, and those as its status has it; or the
    guest's own node does, for disks that move in place, which may come to nothing as well.
    """
    before, after = ({name: value for name, value in spec.items() if name != "volumes"} for spec in _specs(old, new))
    is_in_place = _node(old) == node and not _is_migrating(old) and _moves_in_place(old)
    if before != after or not (is_in_place or (_is_target(old, node) and _source_is_gone(old))):
        return False
    moved = {entry["volumeName"]: entry for entry in _find_moves(old)}
    volumes, exchanged = (spec.get("volumes") or [] for spec in _specs(old, new))
    return len(volumes) == len(exchanged) and all(
        here == there
        or _is_exchanged(here, there, moved.get(here.get("name")))
        or (is_in_place and _is_exchanged(here, there, _turn(moved.get(here.get("name")))))
        for here, there in zip(volumes, exchanged, strict=True)
    )


def _is_exchanged(old: JsonObject, new: JsonObject, moved: JsonObject | None) -> bool:
    if moved is None:
        return False
    source = (old.get("persistentVolumeClaim") or {}).get("claimName") or (old.get("dataVolume") or {}).get("name")
    claim = new.get("persistentVolumeClaim") or {}
    return (
        source == (moved.get("sourcePVCInfo") or {}).get("claimName")
        and claim.get("claimName") == (moved.get("destinationPVCInfo") or {}).get("claimName")
        and set(new) == {"name", "persistentVolumeClaim"}
        and new["name"] == old.get("name")
        and set(claim) <= {"claimName", "hotpluggable"}
    )


def _turn(moved: JsonObject | None) -> JsonObject | None:
    if moved is None:
        return None
    return {"sourcePVCInfo": moved.get("destinationPVCInfo"), "destinationPVCInfo": moved.get("sourcePVCInfo")}


def _moves_in_place(document: JsonObject) -> bool:
    conditions = (document.get("status") or {}).get("conditions") or []
    return any(
        (item.get("type"), item.get("status"), item.get("reason")) == (VOLUMES_CHANGE, "True", IN_PLACE)
        for item in conditions
    )


def _find_moves(document: JsonObject) -> Sequence[JsonObject]:
    found: Sequence[JsonObject] = (document.get("status") or {}).get("migratedVolumes") or []
    return found


def _specs(old: JsonObject, new: JsonObject) -> tuple[JsonObject, JsonObject]:
    return old.get("spec") or {}, new.get("spec") or {}


def _source_is_gone(old: JsonObject) -> bool:
    state = _migration(old)
    return any(state.get(name) for name in SOURCE_IS_GONE)


def _other_status(document: JsonObject) -> JsonObject:
    status = document.get("status")
    return {name: value for name, value in status.items() if name != "migrationState"} if status else {}


def _other_metadata(document: JsonObject) -> tuple[JsonObject, object]:
    labels = {name: value for name, value in _labels(document).items() if name not in _MOVED_LABELS}
    return labels, document["metadata"].get("annotations") or {}


def _migration(document: JsonObject) -> JsonObject:
    status = document.get("status")
    state = status.get("migrationState") if isinstance(status, dict) else None
    return state if isinstance(state, dict) else {}


def _labels(document: JsonObject) -> JsonObject:
    labels = document["metadata"].get("labels")
    return labels if isinstance(labels, dict) else {}

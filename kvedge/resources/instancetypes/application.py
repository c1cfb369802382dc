"""What a VM's template becomes with its instance type and its preference: the one home of how they are applied.

Called by admission, which judges the result, by the controller, which makes VMIs of it, and by the calls that expand
VMs. Pure; documents that are given are not touched.
"""

from __future__ import annotations

import copy
import struct
from collections.abc import Sequence

from msgspec import Struct

from kvedge.resources.codec import JsonObject
from kvedge.resources.instancetypes.cpu_topology import indivisible
from kvedge.resources.instancetypes.default_devices import attach_volumes, set_default_network
from kvedge.resources.instancetypes.preference_application import apply_autoattach, apply_preference
from kvedge.resources.instancetypes.type_application import Conflict, apply_type


class BadTypes(ValueError):
    """What a VM names cannot be counted with: it has not come through admission."""


class VmTypes(Struct, frozen=True):
    """The specs of the instance type and of the preference that a VM has, as documents; None for none."""

    instancetype: JsonObject | None = None
    preference: JsonObject | None = None

    def __bool__(self) -> bool:
        return self.instancetype is not None or self.preference is not None


NO_TYPES = VmTypes()


class Applied(Struct, frozen=True):
    """A template with its types; or the paths below the template's spec that contradict the instance type."""

    template: JsonObject
    conflicts: Sequence[Conflict] = ()
    # Why the type's vCPUs do not fit the preference; empty when they do.
    indivisible: str = ""


def apply_types(template: JsonObject, types: VmTypes, default_interface: str = "") -> Applied:
    """Apply the types of a VM to its template.

    Args:
        template: the VM's template.
        types: what it has.
        default_interface: the binding of the NIC of a VM without one. Volumes get disks, and the VM gets its NIC,
            before a preference is applied, which is for these, too. Without it they get none here.

    Raises:
        QuantityError: when the instance type's memory is no quantity.
        BadTypes: when the types cannot be counted with.
    """
    if not types:
        return Applied(template)
    try:
        return _apply(template, types, default_interface)
    except (ArithmeticError, struct.error) as error:
        raise BadTypes(f"the numbers of the instance type or the preference cannot be used: {error}") from error


def _apply(template: JsonObject, types: VmTypes, default_interface: str) -> Applied:
    made = copy.deepcopy(template)
    spec = made.setdefault("spec", {})
    metadata = made["metadata"] = made.get("metadata") or {}
    annotations = dict(metadata.get("annotations") or {})
    if default_interface and types.preference is not None:
        apply_autoattach(spec, types.preference)
        attach_volumes(spec)
        set_default_network(spec, default_interface)
    conflicts: list[Conflict] = []
    if types.instancetype is not None:
        if fault := indivisible(int(types.instancetype["cpu"]["guest"]), types.preference):
            return Applied(template, indivisible=fault)
        conflicts = apply_type(spec, annotations, types.instancetype, types.preference)
    if conflicts:
        return Applied(template, conflicts)
    if types.preference is not None:
        apply_preference(spec, annotations, types.preference)
    if annotations:
        metadata["annotations"] = annotations
    return Applied(made)

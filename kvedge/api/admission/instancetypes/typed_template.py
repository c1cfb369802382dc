"""A VM's template with its instance type and preference, as the rules of admission judge it.

Called by admission_plan.py. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from kvedge.api.admission.rules.causes import Cause, Field
from kvedge.api.admission.rules.subject import Cluster
from kvedge.api.admission.vmi_defaults_plan import with_defaults
from kvedge.resources.codec import JsonObject
from kvedge.resources.instancetypes.application import NO_TYPES, BadTypes, VmTypes, apply_types
from kvedge.resources.instancetypes.requirements import find_unmet
from kvedge.resources.instancetypes.type_application import ANNOTATIONS
from kvedge.resources.values.quantities import QuantityError

_AT: Final = Field("spec").at("template", "spec")
_FROM_TYPES: Final = "; it comes with the VM's instance type or preference"


class SeenTypes(Struct, frozen=True):
    """What a VM's types are, and what is to be told of those that are not there."""

    types: VmTypes = NO_TYPES
    missing: tuple[str, ...] = ()


NOTHING_SEEN: Final = SeenTypes()


def apply_to_template(template: JsonObject, types: VmTypes, cluster: Cluster) -> JsonObject | list[Cause]:
    """The template that is judged; or why it contradicts its types."""
    try:
        applied = apply_types(template, types, cluster.configuration.default_interface)
    except QuantityError as error:
        return [Cause("spec.instancetype", f"spec.instancetype: its memory: {error}")]
    except BadTypes as error:
        return [Cause("spec.instancetype", f"spec.instancetype: {error}")]
    if applied.indivisible:
        return [Cause("instancetype.spec.cpu.guest", applied.indivisible)]
    if applied.conflicts:
        paths = [Field(".".join(each)) if each[0] == ANNOTATIONS else _AT.at(*each) for each in applied.conflicts]
        return [Cause(path, f"VM field(s) {path} conflicts with selected instance type") for path in paths]
    return applied.template


def requirements_are_met(template: JsonObject, types: VmTypes, cluster: Cluster) -> Iterator[Cause]:
    """A preference may ask for more than a VM has; `template` is the one with its types."""
    if types.preference is None:
        return
    spec = with_defaults(template.get("spec") or {}, cluster)
    fields, fault = find_unmet(types.instancetype, types.preference, spec)
    if fault:
        yield Cause(fields, f"failure checking preference requirements: {fault}", "FieldValueNotFound")


def name_origin(causes: Iterator[Cause], own: Iterator[Cause]) -> Iterator[Cause]:
    """The causes; those that the author has not written (`own` has what is wrong with that) say where they are from."""
    known = {(cause.field, cause.message) for cause in own}
    for cause in causes:
        if (cause.field, cause.message) in known:
            yield cause
        else:
            yield Cause(cause.field, f"{cause.message}{_FROM_TYPES}", cause.reason)

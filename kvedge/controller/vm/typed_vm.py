"""A VM as its instance type and preference make it: what its VMI is made from.

Made by the keeper of types, read by the VM's plan. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec import Struct, field

from kvedge.resources.codec import decode, encode
from kvedge.resources.instancetypes.application import VmTypes, apply_types
from kvedge.resources.instancetypes.matchers import INSTANCETYPE, PREFERENCE, UnknownKind
from kvedge.resources.instancetypes.type_application import ANNOTATIONS
from kvedge.resources.meta import Condition
from kvedge.resources.types.protection.backups import BackupRestore
from kvedge.resources.types.vm import VirtualMachine, VirtualMachineInstanceTemplate

_HARDWARE: Final = ("gpus", "hostDevices")


class TypeConflict(ValueError):
    """The VM says what its instance type says, too; the text is KubeVirt's."""


class TypedVm(Struct, frozen=True):
    """The template that counts; None for a VM that names no types, whose own does.

    With a failure nobody knows what the VM is: it does not start, and nothing is said of the run that it has.
    """

    template: VirtualMachineInstanceTemplate | None = None
    # Those by which a VMI says what its types are.
    annotations: Mapping[str, str] = field(default_factory=dict)
    failure: Condition | None = None

    def template_of(self, vm: VirtualMachine) -> VirtualMachineInstanceTemplate:
        """The template that counts."""
        return self.template or vm.spec.template or VirtualMachineInstanceTemplate()


UNTYPED = TypedVm()


def make_typed(vm: VirtualMachine, types: VmTypes, default_interface: str) -> TypedVm:
    """The VM with its types.

    Raises:
        TypeConflict: when it contradicts them.
    """
    template = encode(vm.spec.template or VirtualMachineInstanceTemplate())
    applied = apply_types(template, types_for(vm, types), default_interface)
    if applied.indivisible:
        raise TypeConflict(applied.indivisible)
    if applied.conflicts:
        at = "spec.template.spec"
        paths = [".".join(each if each[0] == ANNOTATIONS else (at, *each)) for each in applied.conflicts]
        raise TypeConflict(f"VM field(s) {', '.join(paths)} conflicts with selected instance type")
    return TypedVm(decode(VirtualMachineInstanceTemplate, applied.template), _annotations(vm))


def types_for(vm: VirtualMachine, types: VmTypes) -> VmTypes:
    """The types that count for a VM: one that tries a backup gets no hardware, which the one that runs may have."""
    owner, given = vm.metadata.controller_reference(), types.instancetype
    if given is None or owner is None or owner.kind != BackupRestore.KIND.kind:
        return types
    return VmTypes({name: value for name, value in given.items() if name not in _HARDWARE}, types.preference)


def with_template(vm: VirtualMachine, typed: TypedVm) -> VirtualMachine:
    """The VM with the template that counts."""
    if typed.template is None:
        return vm
    return msgspec.structs.replace(vm, spec=msgspec.structs.replace(vm.spec, template=typed.template))


def _annotations(vm: VirtualMachine) -> dict[str, str]:
    made = {}
    for part, matcher in ((INSTANCETYPE, vm.spec.instancetype), (PREFERENCE, vm.spec.preference)):
        if matcher is None:
            continue
        try:
            made[part.annotation_of(part.kind_of(matcher))] = matcher.name
        except UnknownKind:
            # Its copy is used by the revision's name alone, whatever the kind is called.
            continue
    return made

"""Keeps what a VM's instance type and preference were when it was made, and says what the VM is with them.

Used by the VM loop before it plans. Asks the API server when a VM or what it names has changed, and remembers the
answer. The user hears by an event why a copy cannot be kept.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

import msgspec
from msgspec import Struct

from kvedge.controller.vm.create_refusal import is_passing
from kvedge.controller.vm.typed_vm import UNTYPED, TypeConflict, TypedVm, make_typed, types_for
from kvedge.kube.errors import AlreadyExists, Conflict, KubeError, NotFound
from kvedge.kube.events import EventRecorder
from kvedge.kube.kube_client import KubeClient
from kvedge.kube.patches import at_version, merge_difference
from kvedge.kube.type_finder import FoundType, TypeFinder, TypeMissing
from kvedge.resources.codec import DecodeError, JsonObject, encode
from kvedge.resources.configuration.configuration import EXPAND, EXPAND_ALL, REFERENCE
from kvedge.resources.instancetypes.application import BadTypes, VmTypes, apply_types
from kvedge.resources.instancetypes.kept_types import kept_object
from kvedge.resources.instancetypes.matchers import INSTANCETYPE, PARTS, PREFERENCE, Part
from kvedge.resources.instancetypes.revisions import (
    BadRevision,
    is_current,
    object_in,
    revision_of,
    same_spec,
    spec_of,
    sync_ref,
)
from kvedge.resources.meta import Condition, owner_reference
from kvedge.resources.names import KEPT_TYPES
from kvedge.resources.types.controller_revision import ControllerRevision
from kvedge.resources.types.vm import ControllerRevisionRef, InstancetypeStatusRef, Matcher, VirtualMachine
from kvedge.resources.values.quantities import QuantityError

log = logging.getLogger(__name__)

_NOT_STORED: Final = "error encountered while storing instancetype.kubevirt.io controllerRevisions: "


class _NotKept(Exception):
    """A copy cannot be made, for good; the text is for the condition."""


class TypeSettings(Struct, frozen=True):
    """What of the configuration counts here."""

    reference_policy: str = REFERENCE
    default_interface: str = "bridge"


class _Known(Struct, frozen=True):
    """What a VM was with its types, and of which state of it that was said."""

    generation: int
    refs: tuple[InstancetypeStatusRef | None, InstancetypeStatusRef | None]
    default_interface: str
    typed: TypedVm


class TypeKeeper:
    """What is known of the VMs with types, by UID."""

    def __init__(self, client: KubeClient, events: EventRecorder, settings: Callable[[], TypeSettings]) -> None:
        self._client = client
        self._events = events
        self._settings = settings
        self._finder = TypeFinder(client)
        self._known: dict[str, _Known] = {}
        # What each VM's user was told last.
        self._told: dict[str, str] = {}

    def forget(self, uid: str) -> None:
        """The VM is gone."""
        self._known.pop(uid, None)
        self._told.pop(uid, None)

    def sync(self, vm: VirtualMachine) -> VirtualMachine | TypedVm:
        """What the VM is with its types; or the VM as the server has it now, after something of it was written.

        Raises:
            KubeError: when the pass should be repeated.
        """
        if vm.metadata.deletion_timestamp is not None:
            return UNTYPED
        if vm.spec.instancetype is None and vm.spec.preference is None:
            self._known.pop(vm.metadata.uid, None)
            return self._drop_refs(vm) or UNTYPED
        settings = self._settings()
        try:
            return self._sync(vm, settings)
        except TypeMissing as error:
            return _make_failure(error.part.missing, str(error))
        except (TypeConflict, _NotKept, DecodeError, QuantityError, BadTypes) as error:
            text = str(error)
        except KubeError as error:
            if is_passing(error) or isinstance(error, (Conflict, NotFound)):
                raise
            text = f"{_NOT_STORED}{error}"
        self._tell(vm, text)
        return _make_failure("FailedCreate", text)

    def _sync(self, vm: VirtualMachine, settings: TypeSettings) -> VirtualMachine | TypedVm:
        known, refs = self._known.get(vm.metadata.uid), (vm.status.instancetype_ref, vm.status.preference_ref)
        state = (vm.metadata.generation, refs, settings.default_interface)
        is_known = known is not None and (known.generation, known.refs, known.default_interface) == state
        is_back = KEPT_TYPES in vm.metadata.annotations
        if known is not None and is_known and not is_back and settings.reference_policy != EXPAND_ALL:
            return known.typed
        if settings.reference_policy in (EXPAND, EXPAND_ALL):
            has_copies = any(ref is not None and ref.controller_revision_ref is not None for ref in refs)
            if settings.reference_policy == EXPAND_ALL or not has_copies:
                return self._expand(vm, settings)
        elif changed := self._capture(vm):
            return changed
        found = {part: self._find(vm, part) for part in PARTS}
        if upgraded := self._upgrade(vm, found):
            return upgraded
        typed = make_typed(vm, _types(found), settings.default_interface)
        self._known[vm.metadata.uid] = _Known(*state, typed)
        self._told.pop(vm.metadata.uid, None)
        return typed

    def _find(self, vm: VirtualMachine, part: Part) -> FoundType | None:
        matcher = _find_matcher(vm, part)
        return None if matcher is None else self._finder.find(part, vm.metadata.namespace, matcher, _ref(vm, part))

    def _capture(self, vm: VirtualMachine) -> VirtualMachine | None:
        """Keep copies of what the VM names and has no copy of; the VM with the copies' names, if that is news."""
        status: JsonObject = {}
        for part in PARTS:
            matcher, old = _find_matcher(vm, part), _ref(vm, part)
            if matcher is None:
                continue
            ref = sync_ref(matcher, old)
            kept = None if matcher.revision_name else kept_object(vm.metadata.annotations, part, matcher)
            if ref.controller_revision_ref is None or kept is not None:
                document = kept or self._finder.find_object(part, vm.metadata.namespace, matcher)
                self._check(vm, part, document)
                name = self._keep(vm, part, document)
                ref = msgspec.structs.replace(ref, controller_revision_ref=ControllerRevisionRef(name=name))
            if ref != old:
                status[part.status] = merge_difference({} if old is None else encode(old), encode(ref))
        if status:
            return self._patch_status(vm, status)
        if KEPT_TYPES in vm.metadata.annotations:
            # The VM has copies of its own by now, and another type may come to it later.
            patch = at_version({"metadata": {"annotations": {KEPT_TYPES: None}}}, vm.metadata.resource_version)
            return self._client.patch(VirtualMachine, vm.metadata.namespace, vm.metadata.name, patch)
        return None

    def _check(self, vm: VirtualMachine, part: Part, document: JsonObject) -> None:
        """It may have been edited since the VM was admitted, so that the VM contradicts it by now."""
        try:
            spec = spec_of(part, document)
        except BadRevision as error:
            raise TypeMissing(part, str(error)) from error
        if part is INSTANCETYPE:
            try:
                make_typed(vm, VmTypes(instancetype=spec), "")
            except TypeConflict as error:
                raise _NotKept(f"{_NOT_STORED}{error}") from error

    def _keep(self, vm: VirtualMachine, part: Part, document: JsonObject) -> str:
        try:
            wanted = revision_of(vm.metadata.name, vm.metadata.namespace, owner_reference(vm), document)
        except BadRevision as error:
            raise _NotKept(f"{_NOT_STORED}{error}") from error
        name = wanted.metadata.name
        try:
            self._client.create(wanted)
        except AlreadyExists:
            there = self._client.get(ControllerRevision, vm.metadata.namespace, name)
            owner = there.metadata.controller_reference()
            if owner is not None and owner.uid != vm.metadata.uid:
                # The garbage collector takes it at any moment.
                text = f"ControllerRevision {name} is of a VM that was called {vm.metadata.name} before, and goes"
                raise Conflict(409, "Conflict", text) from None
            try:
                is_same = same_spec(object_in(part, there), document)
            except BadRevision:
                is_same = False
            if not is_same:
                text = f"found existing ControllerRevision with unexpected data: {name}"
                raise _NotKept(f"{_NOT_STORED}{text}") from None
        return name

    def _upgrade(self, vm: VirtualMachine, found: dict[Part, FoundType | None]) -> VirtualMachine | None:
        """Make copies anew that are in a version of before; those that the VM's spec names stay as they are."""
        for part in PARTS:
            each, matcher = found[part], _find_matcher(vm, part)
            if each is None or matcher is None or each.revision is None or is_current(each.revision):
                continue
            if matcher.revision_name:
                continue
            name = self._keep(vm, part, each.document)
            changed = self._patch_status(vm, {part.status: {"controllerRevisionRef": {"name": name}}})
            self._delete(vm, each.revision.metadata.name)
            return changed
        return None

    def _expand(self, vm: VirtualMachine, settings: TypeSettings) -> VirtualMachine:
        """Write what the types say into the VM, which then names none."""
        meta = vm.metadata
        types = types_for(vm, _types({part: self._find(vm, part) for part in PARTS}))
        make_typed(vm, types, settings.default_interface)
        # As the server has it: what our types do not know stays.
        before: JsonObject = self._client.request("GET", VirtualMachine.KIND.path(meta.namespace, meta.name))
        template = before["spec"]["template"]
        changed = merge_difference(template, apply_types(template, types, settings.default_interface).template)
        spec = {"template": changed, INSTANCETYPE.member: None, PREFERENCE.member: None}
        patch = at_version({"spec": spec}, meta.resource_version)
        return self._client.patch(VirtualMachine, meta.namespace, meta.name, patch)

    def _drop_refs(self, vm: VirtualMachine) -> VirtualMachine | None:
        """A VM that names nothing any more has no copies; the words about them go first."""
        refs = [ref for part in PARTS if (ref := _ref(vm, part)) is not None]
        if not refs:
            return None
        left = self._patch_status(vm, {part.status: None for part in PARTS if _ref(vm, part) is not None})
        if self._settings().reference_policy == EXPAND_ALL:
            for ref in refs:
                if ref.controller_revision_ref is not None:
                    self._delete(vm, ref.controller_revision_ref.name)
        return left

    def _delete(self, vm: VirtualMachine, name: str) -> None:
        """Delete a copy that is the VM's own."""
        namespace = vm.metadata.namespace
        try:
            owner = self._client.get(ControllerRevision, namespace, name).metadata.controller_reference()
            if owner is not None and owner.uid == vm.metadata.uid:
                self._client.delete(ControllerRevision, namespace, name)
        except NotFound:
            return

    def _patch_status(self, vm: VirtualMachine, status: JsonObject) -> VirtualMachine:
        meta = vm.metadata
        patch = at_version({"status": status}, meta.resource_version)
        return self._client.patch(VirtualMachine, meta.namespace, meta.name, patch, "status")

    def _tell(self, vm: VirtualMachine, text: str) -> None:
        if self._told.get(vm.metadata.uid) != text:
            self._told[vm.metadata.uid] = text
            log.warning("types not kept", extra={"facts": {"vm": vm.metadata.name, "error": text}})
            self._events.record(vm, "Warning", "FailedCreate", text)


def _make_failure(reason: str, text: str) -> TypedVm:
    return TypedVm(failure=Condition(type="Failure", status="True", reason=reason, message=text))


def _types(found: dict[Part, FoundType | None]) -> VmTypes:
    specs = {}
    for part, each in found.items():
        try:
            specs[part.member] = None if each is None else spec_of(part, each.document)
        except BadRevision as error:
            raise TypeMissing(part, str(error)) from error
    return VmTypes(**specs)


def _find_matcher(vm: VirtualMachine, part: Part) -> Matcher | None:
    return vm.spec.instancetype if part is INSTANCETYPE else vm.spec.preference


def _ref(vm: VirtualMachine, part: Part) -> InstancetypeStatusRef | None:
    return vm.status.instancetype_ref if part is INSTANCETYPE else vm.status.preference_ref

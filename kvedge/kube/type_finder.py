"""Reads the instance type and the preference that a VM names: the VM's own copy, or the object itself.

Used by admission, by the controller and by the calls that expand VMs, each time that they need one: nobody follows
these objects, of which there are a hundred and which few VMs name. Asks one API server.
"""

from __future__ import annotations

from msgspec import Struct

from kvedge.kube.errors import NotFound
from kvedge.kube.kube_client import KubeClient
from kvedge.resources.codec import JsonObject, decode
from kvedge.resources.instancetypes.application import VmTypes
from kvedge.resources.instancetypes.matchers import INSTANCETYPE, PREFERENCE, Part, UnknownKind
from kvedge.resources.instancetypes.revisions import BadRevision, is_of, named_revision, object_in, spec_of
from kvedge.resources.kinds import Kind
from kvedge.resources.types.controller_revision import ControllerRevision
from kvedge.resources.types.vm import InstancetypeStatusRef, Matcher, VirtualMachine


class TypeMissing(Exception):
    """What a VM names is not there, or is none; `part` says which of the two."""

    def __init__(self, part: Part, text: str) -> None:
        super().__init__(text)
        self.part = part


class FoundType(Struct, frozen=True):
    """An object, and the VM's copy that it was read from; None when it is the object itself."""

    document: JsonObject
    revision: ControllerRevision | None = None


class TypeFinder:
    """Questions to one API server; they may be asked in any thread."""

    def __init__(self, client: KubeClient) -> None:
        self._client = client

    def find_types(self, vm: VirtualMachine) -> VmTypes:
        """The specs of what a VM names.

        Raises:
            TypeMissing: when one is not there.
            KubeError: when the server refuses or does not answer.
        """
        return VmTypes(
            self.find_spec(INSTANCETYPE, vm.metadata.namespace, vm.spec.instancetype, vm.status.instancetype_ref),
            self.find_spec(PREFERENCE, vm.metadata.namespace, vm.spec.preference, vm.status.preference_ref),
        )

    def find_spec(
        self, part: Part, namespace: str, matcher: Matcher | None, ref: InstancetypeStatusRef | None
    ) -> JsonObject | None:
        """The spec of one of the two; None when the VM names none. Raises as :meth:`find_types`."""
        if matcher is None:
            return None
        found = self.find(part, namespace, matcher, ref)
        try:
            return spec_of(part, found.document)
        except BadRevision as error:
            raise TypeMissing(part, str(error)) from error

    def find(self, part: Part, namespace: str, matcher: Matcher, ref: InstancetypeStatusRef | None) -> FoundType:
        """The object, from the VM's copy where there is one of what it names now. Raises as :meth:`find_types`."""
        name = named_revision(matcher, ref)
        if name:
            revision = self._revision(part, namespace, name)
            if matcher.revision_name or is_of(revision, part, matcher):
                try:
                    return FoundType(object_in(part, revision), revision)
                except BadRevision as error:
                    raise TypeMissing(part, str(error)) from error
        return FoundType(self.find_object(part, namespace, matcher))

    def find_object(self, part: Part, namespace: str, matcher: Matcher) -> JsonObject:
        """The object itself, as it is now. Raises as :meth:`find_types`."""
        try:
            kind = part.kind_of(matcher)
            found = self._read(part, kind, namespace, matcher.name)
        except UnknownKind as error:
            raise TypeMissing(part, str(error)) from error
        if (found.get("metadata") or {}).get("name") != matcher.name:
            raise TypeMissing(part, f"the server has another object for {kind.kind} {matcher.name}")
        return found

    def _revision(self, part: Part, namespace: str, name: str) -> ControllerRevision:
        return decode(ControllerRevision, self._read(part, ControllerRevision.KIND, namespace, name))

    def _read(self, part: Part, kind: Kind, namespace: str, name: str) -> JsonObject:
        """The object of that kind. The name is a user's word, and the question is asked with the role's rights."""
        try:
            path = kind.path(namespace, name)
        except ValueError as error:
            raise TypeMissing(part, f"{kind.qualified_plural} not found: {error}") from error
        if not name:
            raise TypeMissing(part, f"{kind.qualified_plural} not found: no name is given")
        try:
            found = self._client.request("GET", path)
        except NotFound as error:
            raise TypeMissing(part, str(error)) from error
        if not isinstance(found, dict) or found.get("kind") != kind.kind:
            raise TypeMissing(part, f"the server has no {kind.kind} {name}")
        return found

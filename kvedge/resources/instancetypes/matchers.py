"""The kind that a VM means by `spec.instancetype` or `spec.preference`, and what its VMI and volumes say of it.

Used by admission, by the controller and by the door that reads these objects. Touches nothing.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from kvedge.resources.kinds import Kind
from kvedge.resources.types.vm import Matcher
from kvedge.resources.types.vm_types.instancetypes import (
    INSTANCETYPE_GROUP,
    VirtualMachineClusterInstancetype,
    VirtualMachineInstancetype,
    VirtualMachineInstancetypeSpec,
)
from kvedge.resources.types.vm_types.preferences import (
    VirtualMachineClusterPreference,
    VirtualMachinePreference,
    VirtualMachinePreferenceSpec,
)

IGNORE: Final = "Ignore"
REJECT: Final = "Reject"


class UnknownKind(ValueError):
    """A matcher's kind is none of its two; the text is KubeVirt's."""


class Part(Struct, frozen=True):
    """One of the two things that a VM may name, by its member in the VM's spec."""

    member: str
    # What messages call it.
    words: str
    # What KubeVirt's messages call the member's type.
    matcher: str
    # The reason of the condition Failure when it is not there.
    missing: str
    # The member of the VM's status.
    status: str
    in_namespace: Kind
    in_cluster: Kind
    spec: type

    def kind_of(self, matcher: Matcher) -> Kind:
        """The kind that a matcher means: the one of the cluster when it says none.

        Raises:
            UnknownKind: for any other.
        """
        asked = matcher.kind.lower()
        if asked in ("", self.in_cluster.kind.lower(), self.in_cluster.plural):
            return self.in_cluster
        if asked in (self.in_namespace.kind.lower(), self.in_namespace.plural):
            return self.in_namespace
        raise UnknownKind(f"got unexpected kind in {self.matcher}: {matcher.kind}")

    @property
    def default_label(self) -> str:
        """The label of a volume that names it."""
        return f"{INSTANCETYPE_GROUP}/default-{self.member}"

    @property
    def default_kind_label(self) -> str:
        """The label of a volume with its kind."""
        return f"{self.default_label}-kind"

    def annotation_of(self, kind: Kind) -> str:
        """The annotation of a VMI that names it."""
        return f"kubevirt.io/{'' if kind.namespaced else 'cluster-'}{self.member}-name"


INSTANCETYPE: Final = Part(
    "instancetype",
    "instance type",
    "InstancetypeMatcher",
    "FailedFindInstancetype",
    "instancetypeRef",
    VirtualMachineInstancetype.KIND,
    VirtualMachineClusterInstancetype.KIND,
    VirtualMachineInstancetypeSpec,
)
PREFERENCE: Final = Part(
    "preference",
    "preference",
    "PreferenceMatcher",
    "FailedFindPreference",
    "preferenceRef",
    VirtualMachinePreference.KIND,
    VirtualMachineClusterPreference.KIND,
    VirtualMachinePreferenceSpec,
)
PARTS: Final = (INSTANCETYPE, PREFERENCE)

"""VirtualMachineInstancePreset: parts of a domain for VMIs with certain labels (kubevirt.io/v1); deprecated.

Touches nothing. The api role hands a preset on as it was written: it reads the domain as a document.
"""

from __future__ import annotations

from typing import ClassVar, Final

from msgspec import field

from kvedge.resources.codec import JsonObject, KubeStruct
from kvedge.resources.kinds import Kind
from kvedge.resources.meta import LabelSelector, ObjectMeta
from kvedge.resources.types.domain import DomainSpec

PRESET_KIND: Final = Kind("kubevirt.io", "v1", "VirtualMachineInstancePreset", "virtualmachineinstancepresets")


class VirtualMachineInstancePresetSpec(KubeStruct, kw_only=True):
    """Which VMIs get what."""

    selector: LabelSelector | None = None
    domain: DomainSpec | None = None


class _Preset(KubeStruct, kw_only=True):
    KIND: ClassVar[Kind] = PRESET_KIND
    metadata: ObjectMeta = field(default_factory=ObjectMeta)


class VirtualMachineInstancePreset(_Preset, kw_only=True):
    """kubevirt.io/v1 VirtualMachineInstancePreset."""

    spec: VirtualMachineInstancePresetSpec = field(default_factory=VirtualMachineInstancePresetSpec)


class WrittenPresetSpec(KubeStruct, kw_only=True):
    """The same, with the domain as it was written."""

    selector: LabelSelector | None = None
    domain: JsonObject = {}


class WrittenPreset(_Preset, kw_only=True):
    """A preset of which the domain is read as a document."""

    spec: WrittenPresetSpec = field(default_factory=WrittenPresetSpec)

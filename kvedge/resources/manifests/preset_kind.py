"""The deprecated kind of presets: its CRD, and what `kubectl explain` says of its fields.

Called by crd_manifest.py and field_descriptions.py. Touches nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kvedge.resources.manifests.custom_kind import CustomKind
from kvedge.resources.types.presets import VirtualMachineInstancePreset, VirtualMachineInstancePresetSpec

PRESET: Final = CustomKind(
    kind=VirtualMachineInstancePreset.KIND,
    description="Deprecated: parts of a domain for VMIs with certain labels, which they get when they are made. Use an "
    "instance type with a preference instead.",
    spec=VirtualMachineInstancePresetSpec,
    status=None,
    short_names=("vmipreset", "vmipresets"),
    columns=(),
    has_status_subresource=False,
    required_spec=("selector",),
    deprecation="kubevirt.io/{version} VirtualMachineInstancePresets is now deprecated and will be removed in v2.",
)

PRESET_DESCRIPTIONS: Final[Mapping[str, Mapping[str, str]]] = {
    "VirtualMachineInstancePresetSpec": {
        "selector": "The labels of the VMIs that get it.",
        "domain": "What they get: requests of resources, cpu, firmware, clock, features, the watchdog and "
        "ioThreadsPolicy, each where a VMI has none. No VMI gets anything else.",
    },
}

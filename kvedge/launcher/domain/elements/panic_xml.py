"""`<panic>`: how a guest tells that its kernel has crashed.

Touches nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from xml.etree.ElementTree import Element

from kvedge.launcher.domain.context import DomainContext
from kvedge.launcher.domain.conversion_error import ConversionError
from kvedge.launcher.domain.libvirt_versions import PVPANIC_ON_PCI, require_libvirt
from kvedge.launcher.domain.platform import Platform
from kvedge.launcher.domain.xml_tree import add
from kvedge.resources.types.devices import PanicDevice

_MODELS: Final = ("isa", "hyperv", "pvpanic")


def add_panic_devices(
    devices: Element, panics: Sequence[PanicDevice], platform: Platform, context: DomainContext
) -> None:
    """The panic devices: `isa` and `hyperv` on amd64, `pvpanic` anywhere with PCI.

    Raises:
        ConversionError: for a model that this VM cannot have.
    """
    for index, panic in enumerate(panics):
        field = f"spec.domain.devices.panicDevices[{index}].model"
        model = panic.model or ("isa" if platform.architecture == "x86_64" else "pvpanic")
        if model not in _MODELS:
            raise ConversionError(field, f"{model} is not supported", f"use one of {', '.join(_MODELS)}")
        if model != "pvpanic" and platform.architecture == "aarch64":
            raise ConversionError(field, f"{model} is not there on arm64", "use pvpanic")
        if model == "pvpanic":
            require_libvirt(context, PVPANIC_ON_PCI, field, "use isa")
        add(devices, "panic", model=model)

"""`<sound>` and `<audio>`: a sound card that nobody on the node hears, but a SPICE client does.

Touches nothing.
"""

from __future__ import annotations

from typing import Final
from xml.etree.ElementTree import Element

from kvedge.launcher.domain.conversion_error import ConversionError
from kvedge.launcher.domain.elements.alias_xml import add_alias
from kvedge.launcher.domain.xml_tree import add
from kvedge.resources.types.devices import Sound

_MODELS: Final = ("ich9", "ac97")


def add_sound(devices: Element, sound: Sound | None, *, by_spice: bool = False) -> None:
    """The card, ich9 unless the VMI says otherwise.

    Raises:
        ConversionError: for a model that does not exist.
    """
    if sound is None:
        return
    model = sound.model or "ich9"
    if model not in _MODELS:
        raise ConversionError("spec.domain.devices.sound.model", f"{model} is not supported", "use ich9 or ac97")
    element = add(devices, "sound", model=model)
    if sound.name:
        add_alias(element, sound.name, "spec.domain.devices.sound.name")
    # Stated, so that QEMU does not look for a sound server.
    add(devices, "audio", id=1, type="spice" if by_spice else "none")

"""`<alias>`: the name by which kvedge finds a device of the VMI in a running domain.

Touches nothing.
"""

from __future__ import annotations

import re
from typing import Final
from xml.etree.ElementTree import Element

from kvedge.launcher.domain.conversion_error import ConversionError
from kvedge.launcher.domain.xml_tree import add

# libvirt keeps aliases of its users apart from its own by this prefix.
PREFIX: Final = "ua-"
_NAME: Final = re.compile(r"[A-Za-z0-9_-]+")


def add_alias(device: Element, name: str, field: str) -> None:
    """The alias of a device that the VMI calls `name`.

    Raises:
        ConversionError: when libvirt does not take such a name.
    """
    if _NAME.fullmatch(name) is None:
        raise ConversionError(field, f"{name!r} is no name", "use letters, digits, dashes and underscores")
    add(device, "alias", name=PREFIX + name)

"""`<watchdog>`: what ends or resets a guest that hangs.

Touches nothing.
"""

from __future__ import annotations

from typing import Final
from xml.etree.ElementTree import Element

from kvedge.launcher.domain.conversion_error import ConversionError
from kvedge.launcher.domain.elements.alias_xml import add_alias
from kvedge.launcher.domain.platform import Platform
from kvedge.launcher.domain.xml_tree import add
from kvedge.resources.types.devices import Watchdog

_FIELD: Final = "spec.domain.devices.watchdog"
_ACTIONS: Final = ("poweroff", "reset", "shutdown")


def add_watchdog(devices: Element, watchdog: Watchdog | None, platform: Platform) -> None:
    """Intel's 6300ESB, which resets the guest unless the VMI says otherwise.

    Raises:
        ConversionError: where there is none, and for an action that does not exist.
    """
    if watchdog is None:
        return
    if platform.architecture == "aarch64":
        raise ConversionError(_FIELD, "there is no watchdog on arm64", "remove it")
    if watchdog.diag288 is not None:
        raise ConversionError(f"{_FIELD}.diag288", "is a watchdog of s390x", "use i6300esb: {action: reset}")
    action = (watchdog.i6300esb.action if watchdog.i6300esb is not None else "") or "reset"
    if action not in _ACTIONS:
        raise ConversionError(
            f"{_FIELD}.i6300esb.action", f"{action} is not supported", f"use one of {', '.join(_ACTIONS)}"
        )
    element = add(devices, "watchdog", model="i6300esb", action=action)
    add_alias(element, watchdog.name, f"{_FIELD}.name")

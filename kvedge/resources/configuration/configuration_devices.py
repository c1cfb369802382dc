"""The devices that VMs may be given, from the KubeVirt object to the configuration in force.

Part of configuration_reading.py. Pure. An entry that cannot be used is a finding and counts as not there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from msgspec.structs import replace

from kvedge.resources.configuration.configuration_checks import Checks
from kvedge.resources.host_devices.permitted_devices import (
    MdevPermit,
    PciPermit,
    PermittedDevices,
    UsbMatch,
    UsbPermit,
)
from kvedge.resources.names import DEVICES_PREFIX
from kvedge.resources.types.kubevirt_configuration import PermittedHostDevices, UsbHostDevice, UsbSelector
from kvedge.resources.types.sriov_networks import is_resource

AT: Final = "spec.configuration.permittedHostDevices"
# Entries of each kind, and devices that go to a guest together: more than any node has.
MOST_ENTRIES: Final = 256
MOST_TOGETHER: Final = 16
_LONGEST_TEXT: Final = 128
_PCI: Final = re.compile(r"([0-9a-f]{4}):([0-9a-f]{4})")
_USB_NUMBER: Final = re.compile(r"[0-9a-f]{1,4}")
# A bus, then the ports from hub to hub, as /sys/bus/usb/devices has them.
_USB_PORT: Final = re.compile(r"[1-9][0-9]{0,2}-[1-9][0-9]{0,2}(\.[1-9][0-9]{0,2}){0,6}")


def read_permitted(given: PermittedHostDevices | None, checks: Checks) -> PermittedDevices | None:
    """What is permitted; None where the object does not speak of it."""
    if given is None:
        return None
    for name, entries in (
        ("pciHostDevices", given.pci_host_devices),
        ("mediatedDevices", given.mediated_devices),
        ("usb", given.usb),
    ):
        if len(entries) > MOST_ENTRIES:
            checks.note_invalid(f"{AT}.{name}", f"has {len(entries)} entries; give at most {MOST_ENTRIES}")
            return PermittedDevices()
    kinds: dict[str, str] = {}
    made = PermittedDevices()
    made = replace(made, pci=tuple(_pci(given, kinds, checks)))
    made = replace(made, mdev=tuple(_mdev(given, kinds, checks)))
    return replace(made, usb=tuple(_usb(given, kinds, checks)))


def _pci(given: PermittedHostDevices, kinds: dict[str, str], checks: Checks) -> Iterator[PciPermit]:
    known: dict[str, int] = {}
    for index, entry in enumerate(given.pci_host_devices):
        at, selector = f"{AT}.pciHostDevices[{index}]", entry.pci_vendor_selector.lower()
        found = _PCI.fullmatch(selector)
        if found is None:
            shown = entry.pci_vendor_selector[:40]
            checks.note_invalid(
                f"{at}.pciVendorSelector", f"{shown!r} is no vendor:product; give it as lspci -nn shows it: 10de:1eb8"
            )
        elif _is_new(known, selector, index, f"{at}.pciVendorSelector", checks) and _is_usable(
            entry.resource_name, "pciHostDevices", at, kinds, checks
        ):
            yield PciPermit(entry.resource_name, found[1], found[2], entry.external_resource_provider)


def _mdev(given: PermittedHostDevices, kinds: dict[str, str], checks: Checks) -> Iterator[MdevPermit]:
    known: dict[str, int] = {}
    for index, entry in enumerate(given.mediated_devices):
        at, name = f"{AT}.mediatedDevices[{index}]", entry.mdev_name_selector.replace(" ", "_")
        if not 0 < len(name) <= _LONGEST_TEXT:
            checks.note_invalid(
                f"{at}.mdevNameSelector",
                "is no name of a type; give what mdev_supported_types/<type>/name has, with _ for spaces",
            )
        elif _is_new(known, name, index, f"{at}.mdevNameSelector", checks) and _is_usable(
            entry.resource_name, "mediatedDevices", at, kinds, checks
        ):
            yield MdevPermit(entry.resource_name, name, entry.external_resource_provider)


def _usb(given: PermittedHostDevices, kinds: dict[str, str], checks: Checks) -> Iterator[UsbPermit]:
    known: dict[str, int] = {}
    for index, entry in enumerate(given.usb):
        at = f"{AT}.usb[{index}]"
        matches = tuple(_matches(entry, at, checks))
        if (
            len(matches) == len(entry.selectors)
            and _has_selectors(entry, at, checks)
            and _is_new(known, entry.resource_name, index, f"{at}.resourceName", checks)
            and _is_usable(entry.resource_name, "usb", at, kinds, checks)
        ):
            yield UsbPermit(entry.resource_name, matches, entry.external_resource_provider)


def _has_selectors(entry: UsbHostDevice, at: str, checks: Checks) -> bool:
    if entry.external_resource_provider or 0 < len(entry.selectors) <= MOST_TOGETHER:
        return True
    checks.note_invalid(f"{at}.selectors", f"give 1 to {MOST_TOGETHER}, each with vendor and product as lsusb has them")
    return False


def _matches(entry: UsbHostDevice, at: str, checks: Checks) -> Iterator[UsbMatch]:
    ports: dict[str, int] = {}
    for index, selector in enumerate(entry.selectors[: MOST_TOGETHER + 1]):
        here = f"{at}.selectors[{index}]"
        if _is_match(selector, here, checks) and (
            not selector.port or _is_new(ports, selector.port, index, f"{here}.port", checks)
        ):
            yield UsbMatch(
                selector.vendor.lower().zfill(4), selector.product.lower().zfill(4), selector.serial, selector.port
            )


def _is_match(selector: UsbSelector, at: str, checks: Checks) -> bool:
    for name, text in (("vendor", selector.vendor), ("product", selector.product)):
        if _USB_NUMBER.fullmatch(text.lower()) is None:
            checks.note_invalid(f"{at}.{name}", f"{text[:40]!r} is no number of USB's; give it as lsusb shows it: 46f4")
            return False
    if selector.port and _USB_PORT.fullmatch(selector.port) is None:
        shown = selector.port[:40]
        checks.note_invalid(f"{at}.port", f"{shown!r} is no port; give it as `kvedge device list` shows it: 1-2.3")
        return False
    if len(selector.serial) > _LONGEST_TEXT:
        checks.note_invalid(f"{at}.serial", f"is longer than {_LONGEST_TEXT}, which no device's is")
        return False
    return True


def _is_new(known: dict[str, int], text: str, index: int, at: str, checks: Checks) -> bool:
    first = known.setdefault(text, index)
    if first != index:
        checks.note_invalid(at, f"{text[:80]} is that of entry {first} too; name it once")
    return first == index


def _is_usable(resource: str, kind: str, at: str, kinds: dict[str, str], checks: Checks) -> bool:
    here, shown = f"{at}.resourceName", resource[:80]
    if not is_resource(resource):
        checks.note_invalid(here, f"{shown!r} is no name of a resource; give one such as example.com/gpu")
        return False
    domain = resource.partition("/")[0]
    if domain.endswith("kubernetes.io") or resource.startswith(DEVICES_PREFIX):
        checks.note_invalid(here, f"{shown} is not for devices of hosts; give a domain of your own")
        return False
    if (other := kinds.setdefault(resource, kind)) != kind:
        checks.note_invalid(here, f"{shown} is that of {other} too; a resource has devices of one kind")
        return False
    return True

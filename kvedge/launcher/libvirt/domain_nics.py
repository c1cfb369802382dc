"""The NICs in a running domain's document: read, and with another link state.

Called by `libvirt_session` and `domain_reading`. Pure: the document is libvirt's.
"""

from __future__ import annotations

from collections.abc import Iterator
from xml.etree import ElementTree

from kvedge.launcher.libvirt.domain_facts import DomainNic
from kvedge.resources.names import SRIOV_PREFIX


def read_nics(document: ElementTree.Element, prefix: str) -> Iterator[DomainNic]:
    """The NICs of the VMI; `prefix` is before the names that it gave."""
    for nic in document.iterfind("devices/interface"):
        alias = nic.find("alias")
        name = "" if alias is None else alias.get("name", "")
        if not name.startswith(prefix):
            continue
        link = nic.find("link")
        queues = _attribute(nic, "driver", "queues")
        yield DomainNic(
            name=name.removeprefix(prefix),
            mac=_attribute(nic, "mac", "address").lower(),
            tap=_attribute(nic, "target", "dev"),
            is_down=link is not None and link.get("state") == "down",
            queues=int(queues) if queues.isdecimal() else 1,
        )

    yield from _functions(document, f"{prefix}{SRIOV_PREFIX}")


def _functions(document: ElementTree.Element, prefix: str) -> Iterator[DomainNic]:
    """NICs that the guest has for itself: the domain knows neither their MAC nor their link or queues."""
    for device in document.iterfind("devices/hostdev"):
        name = _attribute(device, "alias", "name")
        if name.startswith(prefix):
            yield DomainNic(name=name.removeprefix(prefix), mac="", tap="", queues=0, is_function=True)


def drop_functions(document: ElementTree.Element, prefix: str) -> bool:
    """Take those out of the document, `prefix` being before the names; whether there were any."""
    devices = document.find("devices")
    found = [
        device
        for device in document.iterfind("devices/hostdev")
        if _attribute(device, "alias", "name").startswith(f"{prefix}{SRIOV_PREFIX}")
    ]
    for device in found:
        assert devices is not None
        devices.remove(device)
    return bool(found)


def nic_with_link(document: ElementTree.Element, alias: str, *, down: bool) -> str | None:
    """The NIC of this alias as it is, with its carrier or without; None when there is none."""
    found = next(
        (nic for nic in document.iterfind("devices/interface") if _attribute(nic, "alias", "name") == alias), None
    )
    if found is None:
        return None
    for link in found.findall("link"):
        found.remove(link)
    ElementTree.SubElement(found, "link", {"state": "down" if down else "up"})
    return ElementTree.tostring(found, encoding="unicode")


def _attribute(nic: ElementTree.Element, child: str, name: str) -> str:
    element = nic.find(child)
    return "" if element is None else element.get(name, "")

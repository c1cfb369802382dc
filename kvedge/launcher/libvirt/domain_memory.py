"""The memory and the devices of a guest, saved into a file while it stands, and the guest that goes on from there.

Part of the door to libvirt; made by `libvirt_session`. The disks are none of it: whoever saves keeps them as they are
at the same moment, and whoever resumes has put them in place.
"""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from typing import Any, Final

import libvirt

from kvedge.launcher.libvirt.libvirt_errors import translate_errors

# libvirt wants a name for what it forgets at once.
_NAME: Final = "memory"
_COUNTER: Final = "timer[@name='tsc']"
# Of a CPU in a document: what is no model.
_PLACES: Final = frozenset({"topology", "numa"})


class DomainMemory:
    """The saved memory of one domain; every method may be called from any thread."""

    def __init__(self, connection: Any, find: Callable[[], Any]) -> None:
        """`find()` is the domain; raises LauncherError."""
        self._connection = connection
        self._find = find

    def save(self, path: str) -> None:
        """Write the memory of a guest that is paused into a file; the guest stays as it is.

        Raises:
            LauncherError: when it is not written.
        """
        with translate_errors("saving the guest's memory"):
            domain = self._find()
            targets = [each.get("dev", "") for each in _targets(domain.XMLDesc())]
            domain.snapshotCreateXML(render_save(path, targets), libvirt.VIR_DOMAIN_SNAPSHOT_CREATE_NO_METADATA)

    def resume(self, path: str, document: str) -> None:
        """Start the defined domain from a saved memory, paused; libvirt and QEMU refuse one that is of another machine.

        Raises:
            LauncherError: when the file is damaged, or does not fit the domain or the host.
        """
        with translate_errors("resuming the guest from its saved memory"):
            saved = self._connection.saveImageGetXMLDesc(path, 0)
            document = with_saved_counter(with_saved_vcpus(with_saved_cpu(document, saved), saved), saved)
            self._connection.restoreFlags(path, document, libvirt.VIR_DOMAIN_SAVE_PAUSED)


def with_saved_cpu(document: str, saved: str) -> str:
    """The domain's document with the CPU model that the guest had, where the document leaves that to the host.

    libvirt has written down what it made of that; the host must still have it all, or the guest does not start. How
    many CPUs there are, and where, stays the document's, so that libvirt compares it.
    """
    root, cpu = ElementTree.fromstring(document), ElementTree.fromstring(saved).find("cpu")
    own = root.find("cpu")
    if own is None or cpu is None or own.get("mode") != "host-model":
        return document
    for each in [each for each in cpu if each.tag in _PLACES]:
        cpu.remove(each)
    cpu.extend(each for each in own if each.tag in _PLACES)
    place = list(root).index(own)
    root.remove(own)
    root.insert(place, cpu)
    return ElementTree.tostring(root, encoding="unicode")


def with_saved_vcpus(document: str, saved: str) -> str:
    """The domain's document with the order in which the guest's vCPUs were plugged in, where it has as many as that.

    libvirt numbers them when a guest starts, and compares the numbers.
    """
    root, had = ElementTree.fromstring(document), ElementTree.fromstring(saved).find("vcpus")
    own = root.find("vcpus")
    if own is None or had is None or _list_enabled(own) != _list_enabled(had):
        return document
    place = list(root).index(own)
    root.remove(own)
    root.insert(place, had)
    return ElementTree.tostring(root, encoding="unicode")


def with_saved_counter(document: str, saved: str) -> str:
    """The domain's document with the frequency of the TSC that the guest was told, or without one if it was told none.

    A host tells another one with each of its starts, by a little, and QEMU loads memory with the same one alone.
    """
    root, had = ElementTree.fromstring(document), ElementTree.fromstring(saved).find(f"clock/{_COUNTER}")
    clock = root.find("clock")
    own = None if clock is None else clock.find(_COUNTER)
    if clock is None or (own is None and had is None):
        return document
    if own is not None:
        clock.remove(own)
    if had is not None:
        clock.append(had)
    return ElementTree.tostring(root, encoding="unicode")


def _list_enabled(vcpus: ElementTree.Element) -> list[tuple[str | None, str | None]]:
    return [(each.get("id"), each.get("enabled")) for each in vcpus]


def render_save(path: str, targets: list[str]) -> str:
    """libvirt's document: memory alone, and none of the disks with these targets."""
    document = ElementTree.Element("domainsnapshot")
    ElementTree.SubElement(document, "name").text = _NAME
    ElementTree.SubElement(document, "memory", snapshot="external", file=path)
    disks = ElementTree.SubElement(document, "disks")
    for target in targets:
        ElementTree.SubElement(disks, "disk", name=target, snapshot="no")
    return ElementTree.tostring(document, encoding="unicode")


def _targets(text: str) -> list[ElementTree.Element]:
    return ElementTree.fromstring(text).findall("./devices/disk/target")

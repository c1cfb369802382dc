"""A domain's document for the launcher that its guest goes to, where the disks on some claims are other ones.

Called by `domain_migration` with the documents that libvirt would send, and by `domain_reading`, which finds in the
document of a guest that came what came with it. Pure.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, NamedTuple
from xml.etree import ElementTree

from kvedge.launcher.libvirt.domain_disks import ALIAS
from kvedge.launcher.libvirt.domain_nics import drop_functions

# A word of ours in the document's metadata, which libvirt keeps and nobody else reads.
_NAMESPACE: Final = "https://kvedge.io/copied/v1"
_COPIED: Final = f"{{{_NAMESPACE}}}copied"
_VOLUME: Final = f"{{{_NAMESPACE}}}volume"
ElementTree.register_namespace("copied", _NAMESPACE)


class CopiedClaim(NamedTuple):
    """A disk on a claim that is copied: its volume and target, and what it is over there.

    `path` is a device when `block`, of which the guest's disk may be a part.
    """

    volume: str
    target: str
    path: str
    block: bool


class Renaming(NamedTuple):
    """The UIDs of the VMI here and on another box, by which a Pod's sockets lie."""

    here: str
    there: str


def render_destination(
    document: str,
    claims: Collection[CopiedClaim],
    sizes: dict[str, int],
    migration: str,
    renaming: Renaming | None = None,
) -> str:
    """The document with the disks as they are over there; `sizes` are those that the guest sees, by target."""
    root = ElementTree.fromstring(document)
    by_target = {claim.target: claim for claim in claims}
    for disk in root.iterfind("devices/disk"):
        target = disk.find("target")
        claim = by_target.get("" if target is None else target.get("dev", ""))
        if claim is not None:
            _exchange(disk, claim, sizes[claim.target])
    if claims:
        _note(root, [claim.volume for claim in claims], migration)
    if renaming is not None:
        _rename(root, renaming)
    # A guest that runs has given them back.
    drop_functions(root, ALIAS)
    return ElementTree.tostring(root, encoding="unicode")


def find_copied_volumes(document: ElementTree.Element) -> tuple[str, tuple[str, ...]]:
    """By which migration a guest came with copies of its disks on claims, and of which volumes."""
    found = document.find(f"metadata/{_COPIED}")
    if found is None:
        return "", ()
    return found.get("migration", ""), tuple(each.get("name", "") for each in found.iterfind(_VOLUME))


def _exchange(disk: ElementTree.Element, claim: CopiedClaim, size: int) -> None:
    disk.set("type", "block" if claim.block else "file")
    source = disk.find("source")
    if source is None:
        source = ElementTree.SubElement(disk, "source")
    was_block = "dev" in source.attrib
    for name in ("file", "dev", "index"):
        source.attrib.pop(name, None)
    source.set("dev" if claim.block else "file", claim.path)
    for slices in source.findall("slices"):
        source.remove(slices)
    if claim.block:
        slices = ElementTree.SubElement(source, "slices")
        ElementTree.SubElement(slices, "slice", {"type": "storage", "offset": "0", "size": str(size)})
    driver = disk.find("driver")
    if driver is not None and was_block and not claim.block and driver.get("io") == "native":
        # On a sparse file it blocks the guest whenever a block has to be allocated.
        del driver.attrib["io"]


def _rename(root: ElementTree.Element, renaming: Renaming) -> None:
    """What names the VMI of here names that of there: our metadata, and the folder of its sockets."""
    here, there = f"/{renaming.here}/", f"/{renaming.there}/"
    for element in root.iter():
        for name, value in element.attrib.items():
            if here in value:
                element.set(name, value.replace(here, there))
            elif value == renaming.here and name == "uid":
                element.set(name, renaming.there)


def _note(root: ElementTree.Element, volumes: list[str], migration: str) -> None:
    metadata = root.find("metadata")
    if metadata is None:
        metadata = ElementTree.SubElement(root, "metadata")
    for old in metadata.findall(_COPIED):
        metadata.remove(old)
    note = ElementTree.SubElement(metadata, _COPIED, {"migration": migration})
    for volume in volumes:
        ElementTree.SubElement(note, _VOLUME, {"name": volume})

"""The document of a guest for the launcher that it goes to, where some disks are others."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from kvedge.launcher.libvirt.destination_xml import CopiedClaim, Renaming, find_copied_volumes, render_destination
from kvedge.launcher.libvirt.domain_disks import read_disks

DISKS = "/var/run/kubevirt-private/vmi-disks"
FILE = CopiedClaim("data", "vdb", f"{DISKS}/data/disk.img", block=False)
DEVICE = CopiedClaim("data", "vdb", "/dev/data", block=True)
ON_FILE = f'<disk type="file"><driver io="native"/><source file="{DISKS}/data/disk.img" index="2"/>'
ON_DEVICE = (
    '<disk type="block"><driver io="native"/><source dev="/dev/data">'
    '<slices><slice type="storage" offset="0" size="512"/></slices></source>'
)


def document(disk: str, more: str = "") -> str:
    other = '<disk type="file"><source file="/root.qcow2"/><target dev="vda"/></disk>'
    own = f'{disk}<target dev="vdb"/><alias name="ua-data"/></disk>'
    return f"<domain><name>n</name>{more}<devices>{other}{own}</devices></domain>"


@pytest.mark.parametrize("before", [ON_FILE, ON_DEVICE], ids=["from a file", "from a device"])
@pytest.mark.parametrize(
    ("claim", "kind", "part"), [(FILE, "file", 0), (DEVICE, "block", 1024)], ids=["to a file", "to a device"]
)
def test_a_disk_is_what_its_claim_is_over_there(before: str, claim: CopiedClaim, kind: str, part: int) -> None:
    found = ElementTree.fromstring(render_destination(document(before), [claim], {"vdb": 1024}, "m-1"))
    root, data = found.findall("devices/disk")
    assert (root.get("type"), data.get("type")) == ("file", kind)
    other, disk = read_disks(found)
    # Of a device, which may be larger, the guest sees as much as before.
    assert (other.source, disk.source, disk.part_bytes) == ("/root.qcow2", claim.path, part)
    assert len(data.findall("source")) == 1


@pytest.mark.parametrize(
    ("before", "claim", "io"), [(ON_DEVICE, FILE, None), (ON_DEVICE, DEVICE, "native"), (ON_FILE, FILE, "native")]
)
def test_a_disk_that_becomes_a_file_with_holes_does_not_wait_for_their_blocks(
    before: str, claim: CopiedClaim, io: str | None
) -> None:
    found = ElementTree.fromstring(render_destination(document(before), [claim], {"vdb": 1024}, "m-1"))
    driver = found.find("devices/disk[2]/driver")
    assert driver is not None
    assert driver.get("io") == io


def test_the_guest_says_what_it_brings_and_nothing_of_earlier_ways() -> None:
    words = '<metadata><k:pod xmlns:k="https://kvedge.io/domain/v1">x</k:pod></metadata>'
    first = render_destination(document(ON_FILE, words), [FILE], {"vdb": 1024}, "m-1")
    second = ElementTree.fromstring(render_destination(first, [FILE], {"vdb": 1024}, "m-2"))
    assert find_copied_volumes(ElementTree.fromstring(first)) == ("m-1", ("data",))
    assert find_copied_volumes(second) == ("m-2", ("data",))
    assert second.findtext("metadata/{https://kvedge.io/domain/v1}pod") == "x"
    assert find_copied_volumes(ElementTree.fromstring(document(ON_FILE, words))) == ("", ())


def test_on_another_box_sockets_lie_by_the_uid_of_the_vmi_there() -> None:
    own = '<metadata><k:vmi xmlns:k="https://kvedge.io/domain/v1" name="n" uid="a-1"/></metadata>'
    socket = '<serial><source mode="bind" path="/var/run/kubevirt-private/a-1/virt-serial0"/></serial>'
    text = document(socket + ON_FILE, own)
    found = ElementTree.fromstring(render_destination(text, [], {}, "m-1", Renaming("a-1", "b-2")))
    source = found.find("devices/serial/source")
    vmi = found.find("metadata/{https://kvedge.io/domain/v1}vmi")
    assert source is not None
    assert vmi is not None
    assert source.get("path") == "/var/run/kubevirt-private/b-2/virt-serial0"
    assert (vmi.get("uid"), vmi.get("name")) == ("b-2", "n")
    assert find_copied_volumes(found) == ("", ())


def test_a_function_of_this_node_goes_nowhere() -> None:
    function = "<hostdev mode='subsystem' type='pci'><alias name='ua-sriov-fast'/></hostdev></disk>"
    given = document(ON_FILE).replace("</disk></devices>", "</disk>" + function.removesuffix("</disk>") + "</devices>")
    assert "ua-sriov-fast" in given
    assert "hostdev" not in render_destination(given, [], {}, "m-1", Renaming("u-1", "u-2"))

"""PCI devices on the root complex: each has a slot of its own there, as long as there is one."""

from __future__ import annotations

from xml.etree.ElementTree import Element, fromstring

import pytest

from kvedge.launcher.domain.conversion_error import ConversionError
from kvedge.launcher.domain.domain_xml import render_domain
from kvedge.launcher.domain.placement.root_complex import place_on_root
from kvedge.launcher.domain.platform import platform_of
from kvedge.resources.names import PCI_ON_ROOT
from tests.support.golden.domain_cases import load_case
from tests.support.values import replace

CASE = load_case("on-root-complex")
PCIE = platform_of(CASE.vmi, "x86_64")


def slots(devices: Element) -> list[str]:
    return [address.get("slot", "") for address in devices.iterfind("*/address[@type='pci']")]


@pytest.mark.parametrize("word", ["", "false", "True"])
def test_only_the_word_true_asks_for_it(word: str) -> None:
    vmi = replace(CASE.vmi, metadata=replace(CASE.vmi.metadata, annotations={PCI_ON_ROOT: word}))
    rendered = render_domain(vmi, CASE.context)
    assert ("pcie-root-port" in rendered, rendered.count('<address type="pci"')) == (True, 1)


def test_a_machine_without_pcie_has_them_there_by_itself() -> None:
    devices = fromstring("<devices><rng model='virtio-transitional'/></devices>")
    place_on_root(devices, replace(PCIE, pcie=False))
    assert slots(devices) == []


def test_what_sits_elsewhere_stays_there_and_takes_no_slot() -> None:
    at_two = "domain='0x0000' bus='{}' slot='0x02' function='0x0'"
    elsewhere, here = at_two.format("0x05"), at_two.format("0x00")
    placed = "<hostdev type='pci'><address type='pci' {}/></hostdev>"
    devices = fromstring(f"<devices>{placed.format(elsewhere)}<rng/></devices>")
    place_on_root(devices, PCIE)
    assert slots(devices) == ["0x02", "0x02"]
    devices = fromstring(f"<devices>{placed.format(here)}<rng/></devices>")
    place_on_root(devices, PCIE)
    assert slots(devices) == ["0x02", "0x03"]


@pytest.mark.parametrize(
    "text",
    [
        "<disk><target bus='sata'/></disk>",
        "<controller type='usb' model='none'/>",
        "<controller type='pci' model='pcie-root-port'/>",
        "<input type='tablet' bus='usb'/>",
        "<hostdev type='usb'/>",
        "<memballoon model='none'/>",
        "<memory model='dimm'/>",
        "<video/>",
        "<serial/>",
    ],
)
def test_what_is_no_pci_device_or_has_its_place_gets_none(text: str) -> None:
    devices = fromstring(f"<devices>{text}</devices>")
    place_on_root(devices, PCIE)
    assert slots(devices) == []


def test_more_devices_than_slots_are_refused_with_the_way() -> None:
    devices = fromstring(f"<devices>{'<rng/>' * 29}</devices>")
    place_on_root(devices, PCIE)
    assert slots(devices)[::28] == ["0x02", "0x1e"]
    with pytest.raises(ConversionError, match="has 29 slots") as caught:
        place_on_root(fromstring(f"<devices>{'<rng/>' * 30}</devices>"), PCIE)
    assert caught.value.field == f"metadata.annotations[{PCI_ON_ROOT}]"

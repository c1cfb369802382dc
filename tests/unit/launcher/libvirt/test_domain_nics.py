"""NICs in a running domain's document."""

from __future__ import annotations

from copy import deepcopy
from xml.etree.ElementTree import fromstring

from kvedge.launcher.libvirt.domain_facts import DomainNic
from kvedge.launcher.libvirt.domain_nics import drop_functions, nic_with_link, read_nics

DOMAIN = fromstring(
    "<domain><devices>"
    "<interface type='ethernet'><mac address='02:00:00:00:00:0A'/><target dev='tap0' managed='no'/>"
    "<model type='virtio'/><driver queues='4'/><alias name='ua-default'/></interface>"
    "<interface type='ethernet'><mac address='02:00:00:00:00:0b'/><target dev='tap1' managed='no'/>"
    "<link state='down'/><alias name='ua-lan'/></interface>"
    "<interface type='ethernet'><alias name='net2'/></interface>"
    "<hostdev mode='subsystem' type='pci' managed='no'><alias name='ua-sriov-fast'/></hostdev>"
    "<hostdev mode='subsystem' type='pci' managed='no'><alias name='ua-card'/></hostdev>"
    "</devices></domain>"
)


def test_the_nics_of_the_vmi_are_read_with_link_and_queues() -> None:
    assert list(read_nics(DOMAIN, "ua-")) == [
        DomainNic("default", "02:00:00:00:00:0a", "tap0", is_down=False, queues=4),
        DomainNic("lan", "02:00:00:00:00:0b", "tap1", is_down=True, queues=1),
        # The domain knows the name alone of a NIC that the guest has for itself.
        DomainNic("fast", "", "", is_down=False, queues=0, is_function=True),
    ]


def test_a_nic_stays_as_it_is_but_for_its_link() -> None:
    up = fromstring(nic_with_link(DOMAIN, "ua-lan", down=False) or "")
    assert [link.get("state") for link in up.findall("link")] == ["up"]
    assert up.find("target").attrib == {"dev": "tap1", "managed": "no"}  # type: ignore[union-attr]
    down = fromstring(nic_with_link(DOMAIN, "ua-default", down=True) or "")
    assert [link.get("state") for link in down.findall("link")] == ["down"]


def test_a_nic_that_is_not_there_has_no_document() -> None:
    assert nic_with_link(DOMAIN, "ua-none", down=True) is None


def test_functions_are_left_out_of_a_document_and_other_devices_of_the_node_are_not() -> None:
    document = deepcopy(DOMAIN)
    assert drop_functions(document, "ua-")
    assert [nic.name for nic in read_nics(document, "ua-")] == ["default", "lan"]
    assert [each.get("name") for each in document.findall("devices/hostdev/alias")] == ["ua-card"]
    assert not drop_functions(document, "ua-")

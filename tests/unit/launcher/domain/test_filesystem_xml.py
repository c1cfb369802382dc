"""A directory in the domain; the golden case `shared-directories` has the rest."""

from __future__ import annotations

from xml.etree.ElementTree import Element, fromstring

import pytest

from kvedge.launcher.domain.domain_xml import render_domain
from kvedge.launcher.domain.elements.memory_xml import add_memory
from kvedge.launcher.domain.filesystem_xml import add_filesystems
from kvedge.resources.types.devices import Filesystem
from tests.support.builders import small_vmi, vmi_of
from tests.support.golden.domain_cases import load_case


def test_qemu_finds_the_socket_in_the_pods_tree() -> None:
    devices = Element("devices")
    vmi = vmi_of(small_vmi(domain__devices__filesystems=[{"name": "data", "virtiofs": {}}]))
    add_filesystems(devices, vmi, "/the/pod")
    (source,) = devices.iter("source")
    assert source.get("socket") == "/the/pod/var/run/kubevirt/virtiofs-containers/data.sock"


@pytest.mark.parametrize("limits", [{}, {"memory": "1Gi"}], ids=["without a limit", "limited"])
def test_a_guest_with_limited_memory_takes_all_of_it_before_another_process_counts_it(limits: dict[str, str]) -> None:
    domain = Element("domain")
    filesystems = [{"name": "data", "virtiofs": {}}]
    vmi = vmi_of(small_vmi(domain__devices__filesystems=filesystems, domain__resources={"limits": limits}))
    add_memory(domain, vmi.spec.domain, "x86_64")
    backing = domain.find("memoryBacking")
    assert backing is not None
    assert [element.tag for element in backing] == ["source", "access", *(["allocation"] if limits else [])]


def test_each_has_a_pcie_port_and_leaves_free_ones() -> None:
    case = load_case("shared-directories")

    def count_ports(filesystems: int) -> int:
        names = [f"d{number}" for number in range(filesystems)]
        case.vmi.spec.domain.devices.filesystems = [Filesystem(name=name, virtiofs={}) for name in names]
        domain = fromstring(render_domain(case.vmi, case.context))
        return len(domain.findall("devices/controller[@model='pcie-root-port']"))

    assert count_ports(16) == count_ports(12) + 4

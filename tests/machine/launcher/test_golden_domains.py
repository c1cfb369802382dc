"""The golden domains, judged by the real thing: libvirt's schema, its test driver, its QEMU driver, and QEMU itself."""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from xml.etree import ElementTree

import libvirt
import pytest

from kvedge.launcher.disks.vmi_preparation import has_spice
from kvedge.launcher.domain.domain_xml import render_domain
from kvedge.launcher.domain.elements.identity_xml import domain_uuid
from tests.support.golden.domain_cases import GoldenCase, case_names, load_case

pytestmark = pytest.mark.machine

REPOSITORY = Path(__file__).parents[3]
# A shell is process 1 of the namespace: QEMU's probes that libvirt leaves behind need somebody who reaps them.
NAMESPACES = ("unshare", "--net", "--pid", "--fork", "--mount-proc", "--kill-child", "sh", "-c", '"$@"; exit $?', "sh")


def _text(version: int) -> str:
    return f"{version // 1_000_000}.{version // 1000 % 1000}"


def _why_not_here(case: GoldenCase) -> str:
    """Why this machine cannot have such a domain at all; empty when it can."""
    if case.context.libvirt_version > libvirt.getVersion():
        return f"needs libvirt {_text(case.context.libvirt_version)}, this is {_text(libvirt.getVersion())}"
    if case.vmi.spec.domain.launch_security is not None:
        return "its guest needs a CPU that encrypts; test_encrypted_domains asks libvirt without one"
    if case.context.architecture == "aarch64" and shutil.which("qemu-system-aarch64") is None:
        return "install qemu-system-arm to define arm64 domains"
    if case.context.ovmf is not None and not Path(case.context.ovmf.code).exists():
        return f"install the firmware {case.context.ovmf.code} (ovmf, qemu-efi-aarch64)"
    if case.context.spice_socket is not None and not has_spice():
        return "install qemu-system-modules-spice to start domains with SPICE"
    return ""


def _why_no_kvm(case: GoldenCase) -> str:
    if case.context.emulation:
        return ""
    if case.context.architecture != platform.machine():
        return f"KVM of {case.context.architecture} needs such a host"
    return "" if os.access("/dev/kvm", os.R_OK | os.W_OK) else "this machine has no /dev/kvm"


@pytest.fixture(scope="module")
def test_driver() -> Iterator[libvirt.virConnect]:
    libvirt.registerErrorHandler(lambda _context, _error: None, None)
    connection = libvirt.open("test:///default")
    yield connection
    connection.close()


@pytest.fixture(scope="module")
def outcomes() -> dict[str, Any]:
    """What QEMU made of each case that it can have here; see domain_starter."""
    names = [name for name in case_names() if not _why_not_here(load_case(name))]
    # Not below pytest's own directory: a socket's path has 107 characters at most.
    with TemporaryDirectory(prefix="kve-") as directory:
        done = subprocess.run(
            [*NAMESPACES, sys.executable, "-m", "tests.machine.launcher.domain_starter", directory, *names],
            cwd=REPOSITORY,
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("name", case_names())
def test_a_golden_domain_fits_libvirts_schema_and_its_test_driver(name: str, test_driver: libvirt.virConnect) -> None:
    case = load_case(name)
    if case.context.libvirt_version > libvirt.getVersion():
        pytest.skip(_why_not_here(case))
    domain = test_driver.defineXMLFlags(case.xml_path.read_text(), libvirt.VIR_DOMAIN_DEFINE_VALIDATE)
    try:
        assert domain.UUIDString() == domain_uuid(case.vmi)
    finally:
        domain.undefine()


@pytest.mark.parametrize("name", case_names())
def test_a_golden_domain_is_taken_by_libvirts_qemu_driver(name: str, outcomes: dict[str, Any]) -> None:
    case = load_case(name)
    if reason := _why_not_here(case) or _why_no_kvm(case):
        pytest.skip(reason)
    assert outcomes[name]["defined"] == ""


@pytest.mark.parametrize("name", case_names())
def test_qemu_starts_a_golden_domain_with_emulation(name: str, outcomes: dict[str, Any]) -> None:
    case = load_case(name)
    if reason := _why_not_here(case):
        pytest.skip(reason)
    outcome = outcomes[name]
    assert outcome["started"] == ""
    devices = case.vmi.spec.domain.devices
    assert outcome["vnc"] == (devices.autoattach_graphics_device is not False)
    assert outcome["spice"] == (case.context.spice_socket is not None)
    assert outcome["serial"] == (devices.autoattach_serial_console is not False)


@pytest.mark.parametrize("name", ["smoke-fedora", "disks", "interfaces", "transitional", "windows", "small-devices"])
def test_at_least_four_pcie_ports_of_a_started_domain_are_free_for_hotplug(name: str, outcomes: dict[str, Any]) -> None:
    domain = ElementTree.fromstring(outcomes[name]["xml"])
    ports = {
        f"0x{int(port.get('index', '0')):02x}"
        for port in domain.iterfind("devices/controller[@model='pcie-root-port']")
    }
    used = {address.get("bus") for address in domain.iterfind("devices/*/address[@type='pci']")}
    assert len(ports - used) >= 4


def _paths(xml: str) -> dict[str, list[str]]:
    """How a guest finds each device: slots and functions from the root on, by the device's alias. Numbers of buses are
    the firmware's affair. Without ports and the device of its memory."""
    devices = list(ElementTree.fromstring(xml).iterfind("devices/*"))
    buses = {int(each.get("index", "0")): each for each in devices if each.get("type") == "pci"}

    def path_of(device: ElementTree.Element) -> list[str]:
        address = device.find("address[@type='pci']")
        if address is None:
            return []
        bus = int(address.get("bus", "0"), 16)
        return [*(path_of(buses[bus]) if bus else []), f"{address.get('slot')}.{address.get('function')}"]

    named = {str(alias.get("name")): each for each in devices if (alias := each.find("alias")) is not None}
    paths = {name: path_of(each) for name, each in named.items() if each.tag != "memory" and each.get("type") != "pci"}
    return {name: path for name, path in paths.items() if path}


def test_the_room_for_memory_moves_no_other_device(outcomes: dict[str, Any]) -> None:
    outcome = outcomes["growing-memory"]
    assert outcome["still"]["started"] == ""
    assert "virtio-mem" in outcome["xml"]
    assert "virtio-mem" not in outcome["still"]["xml"]
    assert len(_paths(outcome["xml"])) > 6
    assert _paths(outcome["xml"]) == _paths(outcome["still"]["xml"])


@pytest.mark.parametrize("name", ["smoke-fedora", "disks"])
def test_no_image_leads_to_a_file_that_only_its_own_header_names(name: str, outcomes: dict[str, Any]) -> None:
    """domain_starter gives every qcow2 a header that names a file which is not there."""
    domain = ElementTree.fromstring(outcomes[name]["xml"])
    sources = [source.get("file", "") for source in domain.iter("source")]
    assert any(source.endswith(".backing") for source in sources)
    assert "/nonexistent/secret" not in sources


def test_a_domain_can_be_rendered_for_the_libvirt_of_this_machine() -> None:
    """The oldest version that kvedge knows is not newer than what is here."""
    case = load_case("smoke-fedora")
    assert case.context.libvirt_version <= libvirt.getVersion()
    assert render_domain(case.vmi, case.context) == case.xml_path.read_text()

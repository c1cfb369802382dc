# Tests: kvedge/launcher/domain/elements/
"""The rules behind the golden files, one sentence each."""

from __future__ import annotations

from typing import Any
from xml.etree.ElementTree import tostring

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvedge.launcher.domain.context import DiskSource, InterfaceTarget
from kvedge.launcher.domain.conversion_error import ConversionError
from kvedge.launcher.domain.domain_xml import render_domain
from kvedge.launcher.domain.elements.controller_xml import free_root_ports
from kvedge.launcher.domain.elements.memory_xml import guest_memory
from kvedge.resources.names import GRAPHICS
from tests.support.golden.domain_cases import case_names, load_case
from tests.unit.launcher.domain.vmis import context, only, rendered, vmi, with_disk

MIB = 1024 * 1024


@pytest.mark.parametrize(
    ("domain", "mebibytes"),
    [
        ({"memory": {"guest": "1Gi"}, "resources": {"requests": {"memory": "2Gi"}}}, 1024),
        ({"memory": {}, "resources": {"requests": {"memory": "2Gi"}, "limits": {"memory": "3Gi"}}}, 2048),
        ({"memory": {}, "resources": {"limits": {"memory": "3Gi"}}}, 3072),
        ({"memory": {"hugepages": {"pageSize": "2Mi"}}}, 2),
        ({"memory": {"guest": "4G"}}, 3815),
        ({"memory": {"guest": "1"}}, 1),
    ],
    ids=["guest first", "then the request", "then the limit", "then one huge page", "up to whole MiB", "never none"],
)
def test_guest_memory_comes_from_the_first_that_says_it(domain: dict[str, Any], mebibytes: int) -> None:
    assert guest_memory(vmi(domain).spec.domain) == mebibytes * MIB


@pytest.mark.parametrize(
    ("model", "emulation", "mode"),
    [
        ("", True, "maximum"),
        ("host-model", True, "maximum"),
        ("host-passthrough", True, "maximum"),
        ("", False, "host-model"),
        ("host-passthrough", False, "host-passthrough"),
        ("Westmere", True, "custom"),
        ("Westmere", False, "custom"),
    ],
)
def test_the_hosts_cpu_is_asked_for_only_where_there_is_one_to_pass_through(
    model: str, emulation: bool, mode: str
) -> None:
    cpu = only(rendered(vmi({"cpu": {"model": model}}), emulation=emulation), "cpu")
    assert cpu.get("mode") == mode


def test_a_named_model_is_exact_with_kvm_and_as_good_as_can_be_with_emulation() -> None:
    instance = vmi({"cpu": {"model": "Westmere"}})
    with_kvm, without = (only(rendered(instance, emulation=emulation), "cpu") for emulation in (False, True))
    assert (with_kvm.get("check"), only(with_kvm, "model").get("fallback")) == ("partial", "forbid")
    assert (without.get("check"), only(without, "model").get("fallback")) == ("none", "allow")


@pytest.mark.parametrize(
    ("model", "emulation", "mode"), [("host-model", False, "host-passthrough"), ("", True, "custom")]
)
def test_arm64_passes_its_cpu_through_or_emulates_a_fast_one(model: str, emulation: bool, mode: str) -> None:
    instance = vmi({"cpu": {"model": model}}, architecture="arm64")
    assert only(rendered(instance, architecture="aarch64", emulation=emulation), "cpu").get("mode") == mode


def test_kvm_or_emulation_is_the_nodes_decision_not_the_vmis() -> None:
    assert rendered(vmi(), emulation=True).get("type") == "qemu"
    assert rendered(vmi(), emulation=False).get("type") == "kvm"


def test_enlightenments_are_left_out_with_emulation_as_qemu_refuses_them_there() -> None:
    instance = vmi({"features": {"hyperv": {"vpindex": {}}, "pvspinlock": {}, "acpi": {}}})
    assert rendered(instance, emulation=True).find("features/hyperv") is None
    assert rendered(instance, emulation=True).find("features/pvspinlock") is None
    assert rendered(instance, emulation=False).find("features/hyperv/vpindex") is not None


@pytest.mark.parametrize("name", case_names())
def test_every_backing_chain_of_every_case_is_closed_so_that_no_image_leads_elsewhere(name: str) -> None:
    case = load_case(name)
    for disk in rendered_case(name).iterfind("devices/disk"):
        if disk.find("source") is None:
            continue
        link = disk.find("backingStore")
        depth = 0
        while link is not None and link.find("source") is not None:
            link, depth = link.find("backingStore"), depth + 1
        assert link is not None, f"{disk.find('alias')} is open"
        assert not list(link)
        assert depth <= 1
        driver = only(disk, "driver")
        assert driver.get("type") in {"raw", "qcow2"}
    assert case.context.disk_sources.keys() >= {
        disk.name for disk in case.vmi.spec.domain.devices.disks if disk.cdrom is None
    }


def rendered_case(name: str) -> Any:
    from xml.etree.ElementTree import fromstring

    case = load_case(name)
    return fromstring(render_domain(case.vmi, case.context))


@pytest.mark.parametrize("name", case_names())
def test_a_domain_is_the_same_text_each_time(name: str) -> None:
    case = load_case(name)
    assert render_domain(case.vmi, case.context) == render_domain(load_case(name).vmi, load_case(name).context)


def test_a_nic_has_a_rom_only_when_it_is_booted_from() -> None:
    nic = {"name": "n", "bridge": {}}
    quiet = only(rendered(vmi({"devices": {"interfaces": [nic]}})), "devices/interface")
    booting = only(rendered(vmi({"devices": {"interfaces": [nic | {"bootOrder": 1}]}})), "devices/interface")
    assert only(quiet, "rom").get("enabled") == "no"
    assert booting.find("rom") is None
    assert only(booting, "boot").get("order") == "1"


def test_a_tap_is_never_libvirts_to_make() -> None:
    nic = only(rendered(vmi({"devices": {"interfaces": [{"name": "n"}]}})), "devices/interface")
    assert nic.get("type") == "ethernet"
    assert only(nic, "target").attrib == {"dev": "tap0", "managed": "no"}


@pytest.mark.parametrize(("model", "expected"), [("virtio", "1400"), ("e1000", None)])
def test_only_virtio_is_told_the_mtu(model: str, expected: str | None) -> None:
    instance = vmi({"devices": {"interfaces": [{"name": "n", "model": model}]}})
    targets = {"n": InterfaceTarget(tap="tap0", mac="02:00:00:00:00:01", mtu=1400)}
    mtu = only(rendered(instance, interfaces=targets), "devices/interface").find("mtu")
    assert (mtu.get("size") if mtu is not None else None) == expected


def test_an_absent_nic_needs_no_tap() -> None:
    instance = vmi({"devices": {"interfaces": [{"name": "gone", "state": "absent"}]}})
    assert rendered(instance).find("devices/interface") is None


def test_the_vmis_own_mac_wins_over_the_nodes() -> None:
    instance = vmi({"devices": {"interfaces": [{"name": "n", "macAddress": "02:aa:bb:cc:dd:ee"}]}})
    assert only(rendered(instance), "devices/interface/mac").get("address") == "02:aa:bb:cc:dd:ee"


def test_a_mac_with_dashes_is_written_as_libvirt_has_them() -> None:
    instance = vmi({"devices": {"interfaces": [{"name": "n", "macAddress": "BE-AD-00-00-BE-04"}]}})
    assert only(rendered(instance), "devices/interface/mac").get("address") == "be:ad:00:00:be:04"


def test_scsi_disks_sit_on_one_controller_at_the_place_of_their_name() -> None:
    disks = [{"name": f"d{index}", "disk": {"bus": "scsi"}} for index in range(12)]
    sources = {disk["name"]: DiskSource(path=f"/{disk['name']}", format="raw") for disk in disks}
    domain = rendered(vmi({"devices": {"disks": disks}}), disk_sources=sources)
    units = [address.get("unit") for address in domain.iterfind("devices/disk/address")]
    assert units == [str(index) for index in range(12)]
    assert len(domain.findall("devices/controller[@type='scsi']")) == 1


def test_a_scsi_controller_is_there_for_hotplug_unless_hotplug_is_refused() -> None:
    assert rendered(vmi()).find("devices/controller[@type='scsi']") is not None
    refused = rendered(vmi({"devices": {"disableHotplug": True}}))
    assert refused.find("devices/controller[@type='scsi']") is None
    assert refused.find("devices/controller[@type='pci']") is None


def test_usb_is_there_only_when_something_needs_it() -> None:
    assert only(rendered(vmi()), "devices/controller[@type='usb']").get("model") == "none"
    tablet = vmi({"devices": {"inputs": [{"name": "t", "type": "tablet"}]}})
    assert only(rendered(tablet), "devices/controller[@type='usb']").get("model") == "qemu-xhci"
    disk = with_disk({"disk": {"bus": "usb"}})
    assert only(rendered(disk), "devices/controller[@type='usb']").get("model") == "qemu-xhci"


@pytest.mark.parametrize("count", [0, 1, 7, 30])
def test_each_disk_brings_a_port_of_its_own_and_four_stay_free(count: int) -> None:
    disks = [{"name": f"d{index}", "disk": {"bus": "virtio"}} for index in range(count)]
    sources = {disk["name"]: DiskSource(path=f"/{disk['name']}", format="raw") for disk in disks}
    domain = rendered(vmi({"devices": {"disks": disks}}), disk_sources=sources)
    # SCSI, virtio-serial and the balloon sit on ports as well.
    in_use = count + 3
    assert len(domain.findall("devices/controller[@model='pcie-root-port']")) == max(in_use + 4, 8)


def test_a_slot_that_a_port_does_not_have_makes_its_bus_a_bridge_with_a_port_of_its_own() -> None:
    names = ("near", "far")
    nics = [
        {"name": name, "bridge": {}, "model": "e1000", "pciAddress": address}
        for name, address in zip(names, ("0000:02:01.0", "0000:0c:1f.0"), strict=True)
    ]
    taps = {name: InterfaceTarget(tap=f"tap-{name}", mac="02:00:00:00:00:01") for name in names}
    domain = rendered(vmi({"devices": {"interfaces": nics}}), interfaces=taps)
    models = {pci.get("index"): pci.get("model") for pci in domain.iterfind("devices/controller[@type='pci']")}
    assert [index for index, model in models.items() if model == "pcie-to-pci-bridge"] == ["2", "12"]
    # SCSI, virtio-serial, the balloon and the two bridges; four stay free.
    assert [index for index, model in models.items() if model == "pcie-root-port"] == [
        str(index) for index in (1, *range(3, 11))
    ]


def test_huge_pages_are_not_given_back_one_by_one() -> None:
    paged = vmi({"memory": {"guest": "64Mi", "hugepages": {"pageSize": "2Mi"}}})
    reporting = [only(rendered(each), "devices/memballoon").get("freePageReporting") for each in (vmi(), paged)]
    assert reporting == ["on", "off"]


def test_a_refused_balloon_is_written_as_none_as_libvirt_would_add_one() -> None:
    balloon = only(rendered(vmi({"devices": {"autoattachMemBalloon": False}})), "devices/memballoon")
    assert balloon.attrib == {"model": "none"}
    assert not list(balloon)


def test_the_serial_log_is_left_out_when_the_vmi_wants_none() -> None:
    logged = rendered(vmi(), serial_log="/run/log")
    assert only(logged, "devices/serial/log").attrib == {"file": "/run/log", "append": "on"}
    quiet = rendered(vmi({"devices": {"logSerialConsole": False}}), serial_log="/run/log")
    assert quiet.find("devices/serial/log") is None


def test_the_screen_and_the_console_are_unix_sockets_only() -> None:
    devices = only(rendered(vmi()), "devices")
    assert {element.get("type") for tag in ("serial", "console", "channel") for element in devices.iterfind(tag)} == {
        "unix"
    }
    graphics = only(devices, "graphics")
    assert graphics.attrib == {"type": "vnc"}
    assert only(graphics, "listen").attrib == {"type": "socket", "socket": "/run/vnc"}


def test_spice_comes_beside_vnc_when_the_annotation_says_so_and_there_is_a_screen() -> None:
    asks = vmi({"devices": {"sound": {"name": "s"}}})
    asks.metadata.annotations[GRAPHICS] = "spice"
    devices = only(rendered(asks, spice_socket="/run/spice"), "devices")
    listens = {each.get("type"): only(each, "listen").attrib for each in devices.iterfind("graphics")}
    assert listens == {
        "vnc": {"type": "socket", "socket": "/run/vnc"},
        "spice": {"type": "socket", "socket": "/run/spice"},
    }
    assert only(devices, "audio").get("type") == "spice"
    assert len(devices.findall("redirdev[@type='spicevmc']")) == 2
    assert only(devices, "controller[@type='usb']").get("model") == "qemu-xhci"
    assert only(devices, "channel[@type='spicevmc']/target").get("name") == "com.redhat.spice.0"
    for word, screen in (("vnc", True), ("spice", False)):
        asks = vmi({"devices": {"autoattachGraphicsDevice": screen}})
        asks.metadata.annotations[GRAPHICS] = word
        assert b"spice" not in tostring(rendered(asks, spice_socket="/run/spice"))


def test_spice_is_refused_where_the_nodes_qemu_has_none() -> None:
    asks = vmi()
    asks.metadata.annotations[GRAPHICS] = "spice"
    with pytest.raises(ConversionError) as refused:
        rendered(asks)
    assert refused.value.field == "metadata.annotations[kvedge.io/graphics]"
    assert "qemu-system-modules-spice" in refused.value.remedy


def test_a_reboot_ends_the_run_only_when_the_vmi_says_terminate() -> None:
    assert only(rendered(vmi()), "on_reboot").text == "restart"
    assert only(rendered(vmi({"rebootPolicy": "Reboot"})), "on_reboot").text == "restart"
    assert only(rendered(vmi({"rebootPolicy": "Terminate"})), "on_reboot").text == "destroy"


def test_each_run_starts_its_clock_anew_and_an_offset_is_from_utc() -> None:
    assert only(rendered(vmi()), "clock").attrib == {"offset": "utc", "adjustment": "reset"}
    shifted = rendered(vmi({"clock": {"utc": {"offsetSeconds": 90}}}))
    assert only(shifted, "clock").attrib == {"offset": "variable", "adjustment": "90", "basis": "utc"}


@pytest.mark.parametrize(("emulation", "version"), [(True, "3"), (False, "host")])
def test_the_interrupt_controller_of_arm64_is_the_hosts_with_kvm(emulation: bool, version: str) -> None:
    domain = rendered(vmi(architecture="arm64"), architecture="aarch64", emulation=emulation)
    assert only(domain, "features/gic").get("version") == version


def test_a_domain_tells_which_vmi_it_is_of() -> None:
    entry = only(rendered(vmi()), "metadata/{https://kvedge.io/domain/v1}vmi")
    assert entry.attrib == {"namespace": "ns", "name": "vm", "uid": vmi().metadata.uid}


@given(st.integers(min_value=1, max_value=1 << 45))
def test_the_domain_never_has_less_memory_than_was_asked_for_nor_a_whole_mebibyte_more(size: int) -> None:
    found = guest_memory(vmi({"memory": {"guest": size}}).spec.domain)
    assert size <= found < size + MIB
    assert found % MIB == 0


def test_a_paused_start_shows_the_boot_menu() -> None:
    assert rendered(vmi()).find("os/bootmenu") is None
    assert only(rendered(vmi(), start_paused=True), "os/bootmenu").attrib == {"enable": "yes", "timeout": "10000"}


def test_the_context_decides_the_smbios_words_and_the_vmi_its_serial() -> None:
    domain = rendered(vmi({"firmware": {"serial": "s-1"}}))
    entries = {entry.get("name"): entry.text for entry in domain.iterfind("sysinfo/system/entry")}
    assert entries == {
        "manufacturer": "KubeVirt",
        "product": "None",
        "serial": "s-1",
        "uuid": vmi().metadata.uid,
        "family": "KubeVirt",
    }
    assert context().smbios.manufacturer == "KubeVirt"


@pytest.mark.parametrize(
    ("in_use", "memory", "free"),
    [(0, 1 << 30, 8), (3, 1 << 30, 5), (6, 2 << 30, 4), (5, (2 << 30) + 1, 11), (14, 8 << 30, 6)],
    ids=[
        "nothing in use",
        "a small guest",
        "never fewer than four",
        "a large guest",
        "a large guest with many devices",
    ],
)
def test_ports_stay_free_for_what_comes_later(in_use: int, memory: int, free: int) -> None:
    assert free_root_ports(in_use, memory) == free


def test_an_interface_that_its_plugins_sidecar_makes_is_left_to_it() -> None:
    made = {"devices": {"interfaces": [{"name": "default", "binding": {"name": "site"}}]}}
    for tap, number in (("", 0), ("tap0", 1)):
        targets = {"default": InterfaceTarget(tap=tap, mac="02:00:00:00:00:01", mtu=1500)}
        domain = rendered(vmi(made), interfaces=targets)
        assert len(domain.findall("devices/interface")) == number

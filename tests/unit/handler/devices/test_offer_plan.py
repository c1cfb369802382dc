"""What is offered of a node's devices, and why a device is not."""

from __future__ import annotations

import pytest

from kvedge.handler.devices.device_facts import MediatedDevice, NodeDevices, Offer, PciFunction, UsbDevice
from kvedge.handler.devices.offer_plan import plan_offers
from kvedge.resources.host_devices.permitted_devices import (
    MdevPermit,
    PciPermit,
    PermittedDevices,
    UsbMatch,
    UsbPermit,
)

GPU, USB = "nvidia.com/t4", "example.com/stick"
PERMITTED = PermittedDevices(pci=(PciPermit(GPU, "10de", "1eb8"),))


def a_gpu(address: str = "0000:65:00.0", group: str = "14", driver: str = "vfio-pci", **rest: object) -> PciFunction:
    facts: dict[str, object] = {"vendor": "10de", "product": "1eb8", "has_node": True} | rest
    return PciFunction(address=address, group=group, driver=driver, **facts)  # type: ignore[arg-type]


def a_stick(port: str, number: int = 3, model: str = "46f4:0001", serial: str = "", has_node: bool = True) -> UsbDevice:
    vendor, product = model.split(":")
    return UsbDevice(port=port, vendor=vendor, product=product, bus=1, number=number, serial=serial, has_node=has_node)


def usb(*permits: UsbPermit) -> PermittedDevices:
    return PermittedDevices(usb=permits)


def any_stick(resource: str = USB, **exact: str) -> UsbPermit:
    return UsbPermit(resource, (UsbMatch("46f4", "0001", **exact),))


def bundles(permitted: PermittedDevices, *sticks: UsbDevice, **kept: set[tuple[str, ...]]) -> list[tuple[str, str]]:
    known = {USB: kept["kept"]} if kept else {}
    return [(offer.resource, offer.id) for offer in plan_offers(permitted, NodeDevices(usb=sticks), known)]


def test_a_permitted_function_is_offered_by_its_address_with_its_group() -> None:
    other = a_gpu("0000:66:00.0", "15", vendor="8086")
    assert plan_offers(PERMITTED, NodeDevices(pci=(a_gpu(), other)), {}) == [
        Offer(
            resource=GPU,
            kind="pci",
            members=("0000:65:00.0",),
            addresses=("0000:65:00.0",),
            nodes=("/dev/vfio/vfio", "/dev/vfio/14"),
        )
    ]


@pytest.mark.parametrize(
    ("functions", "words"),
    [
        pytest.param([a_gpu(group="")], "is in no IOMMU group: turn the IOMMU on", id="no IOMMU"),
        pytest.param([a_gpu(driver="nouveau")], "has the driver nouveau: bind it to vfio-pci", id="the host's driver"),
        pytest.param([a_gpu(driver="")], "has no driver: bind it to vfio-pci", id="no driver"),
        pytest.param([a_gpu(has_node=False)], "lacks /dev/vfio/vfio or /dev/vfio/14", id="no node"),
        pytest.param(
            [a_gpu(), a_gpu("0000:65:00.1", driver="snd_hda_intel", product="10f8")],
            "shares IOMMU group 14 with 0000:65:00.1 (driver snd_hda_intel), which the host uses",
            id="a neighbour of the host's",
        ),
        pytest.param(
            [a_gpu(), *(a_gpu(f"0000:65:00.{n}", driver="ahci", product="1") for n in range(1, 6))],
            "0000:65:00.3 (driver ahci) and 2 more",
            id="many neighbours of the host's",
        ),
    ],
)
def test_a_function_that_cannot_be_given_says_why_and_what_to_do(functions: list[PciFunction], words: str) -> None:
    (offer,) = plan_offers(PERMITTED, NodeDevices(pci=functions), {})
    assert words in offer.trouble


@pytest.mark.parametrize(
    "neighbour",
    [
        pytest.param(a_gpu("0000:65:00.1", product="10f8"), id="one of VFIO's"),
        pytest.param(a_gpu("0000:65:00.1", driver="", product="10f8"), id="one without driver"),
        pytest.param(a_gpu("0000:64:00.0", driver="pcieport", device_class="060400", product="1"), id="a bridge"),
    ],
)
def test_a_group_is_whole_with_neighbours_that_the_host_leaves_alone(neighbour: PciFunction) -> None:
    (offer,) = plan_offers(PERMITTED, NodeDevices(pci=(a_gpu(), neighbour)), {})
    assert offer.trouble == ""


def test_a_group_is_offered_once_as_one_process_only_can_open_it() -> None:
    found = plan_offers(PERMITTED, NodeDevices(pci=(a_gpu(), a_gpu("0000:65:00.1"), a_gpu("0000:66:00.0", "15"))), {})
    assert [offer.id for offer in found] == ["0000:65:00.0", "0000:66:00.0"]


def test_what_another_program_offers_is_left_to_it() -> None:
    permitted = PermittedDevices(
        pci=(PciPermit(GPU, "10de", "1eb8", external=True),),
        mdev=(MdevPermit("n/m", "T", external=True),),
        usb=(UsbPermit(USB, (UsbMatch("46f4", "0001"),), external=True),),
    )
    part = MediatedDevice(uuid="u", type_name="T", group="3", has_node=True)
    assert plan_offers(permitted, NodeDevices((a_gpu(),), (part,), (a_stick("1-1"),)), {}) == []


def test_a_mediated_device_is_offered_by_its_type() -> None:
    permitted = PermittedDevices(mdev=(MdevPermit("nvidia.com/q", "GRID_T4-1Q"),))
    parts = [MediatedDevice(uuid=f"u{n}", type_name="GRID_T4-1Q", group=str(n), has_node=n < 2) for n in (1, 2)]
    other = MediatedDevice(uuid="u3", type_name="GRID_T4-2Q", group="9", has_node=True)
    found = plan_offers(permitted, NodeDevices(mdev=(*parts, other)), {})
    assert [(offer.id, offer.nodes) for offer in found] == [
        ("u1", ("/dev/vfio/vfio", "/dev/vfio/1")),
        ("u2", ("/dev/vfio/vfio", "/dev/vfio/2")),
    ]
    assert [bool(offer.trouble) for offer in found] == [False, True]


def test_each_usb_device_of_a_model_is_a_device_of_its_resource() -> None:
    found = bundles(usb(any_stick()), a_stick("1-1"), a_stick("1-2"), a_stick("1-3", model="046d:c31c"))
    assert found == [(USB, "1-1"), (USB, "1-2")]


def test_a_usb_device_in_its_port_keeps_its_name_and_gets_its_new_number() -> None:
    (first,) = plan_offers(usb(any_stick()), NodeDevices(usb=(a_stick("1-1", 3),)), {})
    (again,) = plan_offers(usb(any_stick()), NodeDevices(usb=(a_stick("1-1", 9),)), {})
    assert first.id == again.id
    assert (again.addresses, again.nodes) == (("1:9",), ("/dev/bus/usb/001/009",))


def test_the_serial_number_and_the_port_tell_devices_of_one_model_apart() -> None:
    sticks = (a_stick("1-1", serial="A"), a_stick("1-2", serial="B"), a_stick("1-3", serial="A"))
    assert bundles(usb(any_stick(serial="B")), *sticks) == [(USB, "1-2")]
    assert bundles(usb(any_stick(port="1-3")), *sticks) == [(USB, "1-3")]
    assert bundles(usb(any_stick(port="1-3", serial="B")), *sticks) == []


def test_an_entry_that_names_one_device_chooses_before_one_that_takes_any() -> None:
    permitted = usb(any_stick("example.com/any"), any_stick("example.com/mine", serial="A"))
    assert sorted(bundles(permitted, a_stick("1-1", serial="A"), a_stick("1-2"))) == [
        ("example.com/any", "1-2"),
        ("example.com/mine", "1-1"),
    ]


def test_devices_of_all_selectors_go_together_or_not_at_all() -> None:
    pair = UsbPermit(USB, (UsbMatch("046d", "c31c"), UsbMatch("46f4", "0001")))
    keyboards = [a_stick(port, model="046d:c31c") for port in ("1-1", "1-2")]
    assert bundles(usb(pair), *keyboards, a_stick("1-3")) == [(USB, "1-1+1-3")]
    # What an incomplete pair would have had is another entry's.
    spare = UsbPermit("example.com/keyboard", (UsbMatch("046d", "c31c"),))
    assert bundles(usb(pair, spare), *keyboards) == [("example.com/keyboard", "1-1"), ("example.com/keyboard", "1-2")]


def test_devices_that_a_guest_has_stay_together_though_one_is_pulled_out() -> None:
    pair = UsbPermit(USB, (UsbMatch("046d", "c31c"), UsbMatch("46f4", "0001")))
    there = [a_stick("1-2", model="046d:c31c"), a_stick("1-3"), a_stick("1-4")]
    found = plan_offers(usb(pair), NodeDevices(usb=there), {USB: {("1-1", "1-3")}})
    assert [offer.id for offer in found] == ["1-1+1-3", "1-2+1-4"]
    assert found[0].trouble.startswith("the device in port 1-1 is gone: plug it in again")
    assert found[1].trouble == ""


def test_a_usb_device_without_its_node_cannot_be_given() -> None:
    (offer,) = plan_offers(usb(any_stick()), NodeDevices(usb=(a_stick("1-1", has_node=False),)), {})
    assert offer.trouble == "the node has no /dev/bus/usb/001/003: see that udev runs"

"""Which function of a card each interface is, and when nobody can tell."""

from __future__ import annotations

import pytest

from kvedge.launcher.launcher_errors import BadRequest
from kvedge.launcher.passthrough.function_plan import WantedFunction, pair_functions
from kvedge.resources.types.sriov_networks import NetworkDevice

RES = "vendor.com/fast"
VARIABLE = "PCIDEVICE_VENDOR_COM_FAST"
A, B = "0000:65:02.0", "0000:65:02.1"


def wanted(*names: str, resource: str = RES) -> list[WantedFunction]:
    return [WantedFunction(name, f"interfaces[{number}]", resource) for number, name in enumerate(names)]


def told(**addresses: str) -> list[NetworkDevice]:
    return [
        NetworkDevice(network=name, device_info={"type": "pci", "version": "1.1.0", "pci": {"pci-address": address}})
        for name, address in addresses.items()
    ]


def test_what_multus_tells_pairs_network_and_function_whatever_the_order_of_the_variable() -> None:
    found = pair_functions(wanted("red", "blue"), told(red=B, blue=A), {VARIABLE: f"{A},{B}"})
    assert found == {"red": B, "blue": A}
    assert pair_functions(wanted("red"), told(red=B), {}) == {"red": B}


def test_the_plugins_variable_decides_where_one_interface_and_one_function_are_left() -> None:
    untold = [NetworkDevice(network="red")]
    assert pair_functions(wanted("red"), untold, {VARIABLE: A}) == {"red": A}
    assert pair_functions(wanted("red", "blue"), told(blue=A), {VARIABLE: f" {A}, {B},{B}"}) == {"blue": A, "red": B}
    two = [*wanted("red"), WantedFunction("blue", "interfaces[1]", "my-corp.com/slow")]
    offered = {VARIABLE: A, "PCIDEVICE_MY-CORP_COM_SLOW": B}
    assert pair_functions(two, [], offered) == {"red": A, "blue": B}
    assert pair_functions(two, [], {VARIABLE: A, "PCIDEVICE_MY_CORP_COM_SLOW": B})["blue"] == B


@pytest.mark.parametrize(
    ("nics", "known", "offered", "words"),
    [
        (wanted("red", "blue"), [], {VARIABLE: f"{A},{B}"}, "2 functions for blue, red, and Multus tells no device-"),
        (wanted("red"), [], {VARIABLE: f"{A},{B}"}, "2 functions for red"),
        (wanted("red"), [], {}, f"no function of {RES} for it: neither Multus nor {VARIABLE} names one"),
        (wanted("red", "blue"), told(blue=A), {VARIABLE: A}, "no function of"),
        (wanted("red", resource=""), [], {VARIABLE: A}, "no resource is known of the network"),
        (wanted("red"), told(red=B), {VARIABLE: A}, f"{B} by its network, which the Pod was not given"),
        (wanted("red", "blue"), told(red=A, blue=A), {}, f"its function {A} is that of interface red too"),
        (
            wanted("red"),
            [NetworkDevice(network="red", device_info={"type": "vdpa", "vdpa": {"parent-device": "x"}})],
            {VARIABLE: A},
            "of type 'vdpa', and no function of a PCI card",
        ),
    ],
    ids=[
        "two of one kind",
        "two for one",
        "none",
        "none left",
        "no resource",
        "not given",
        "one twice",
        "another kind of device",
    ],
)
def test_what_nobody_can_tell_is_refused_with_the_field_and_a_remedy(
    nics: list[WantedFunction], known: list[NetworkDevice], offered: dict[str, str], words: str
) -> None:
    with pytest.raises(BadRequest) as refused:
        pair_functions(nics, known, offered)
    assert refused.value.field.endswith(".sriov")
    assert words in refused.value.detail
    assert refused.value.remedy

"""VMIs that are wrong at one place: the networks that they join besides the Pod's.

What is changed in a small valid VMI (path below spec, value), the field that is named, and words of the message, which
are KubeVirt's where it has the rule.
"""

from __future__ import annotations

from typing import Any

Wrong = dict[str, tuple[dict[str, Any], str, str]]
INTERFACES, NETWORKS = "domain.devices.interfaces", "networks"
AT = "spec.networks[1]"


def joined(network: dict[str, Any], interface: dict[str, Any] | None = None) -> dict[str, Any]:
    """A second network, and the interface on it."""
    return {
        f"{NETWORKS}[1]": {"name": "lan", **network},
        f"{INTERFACES}[1]": {"name": "lan", **(interface or {"bridge": {}})},
    }


WRONG_NETWORKS: Wrong = {
    "network without a name": (
        joined({"multus": {"networkName": ""}}),
        AT,
        "CNI delegating plugin must have a networkName",
    ),
    "network of no kind": (joined({}), AT, "should have a network type"),
    "network of two kinds": (
        joined({"multus": {"networkName": "red"}, "pod": {}}),
        AT,
        "should have only one network type",
    ),
    "name that is none": (
        joined({"multus": {"networkName": "Red Net"}}),
        f"{AT}.multus.networkName",
        "'Red Net' is neither a name nor namespace/name",
    ),
    "name of three parts": (
        joined({"multus": {"networkName": "a/b/c"}}),
        f"{AT}.multus.networkName",
        "'a/b/c' is neither a name nor namespace/name",
    ),
    "a default network beside the cluster's": (
        joined({"multus": {"networkName": "red", "default": True}}),
        "spec.networks",
        "Pod network cannot be defined when Multus default network is defined",
    ),
    "two default networks": (
        {
            f"{NETWORKS}[0]": {"name": "default", "multus": {"networkName": "blue", "default": True}},
            **joined({"multus": {"networkName": "red", "default": True}}),
        },
        "spec.networks",
        "Multus CNI should only have one default network",
    ),
    "masquerade on a default network": (
        {
            f"{NETWORKS}[0]": {"name": "default", "multus": {"networkName": "blue", "default": True}},
            f"{INTERFACES}[0]": {"name": "default", "masquerade": {}},
        },
        "spec.domain.devices.interfaces[0].name",
        "Masquerade interface only implemented with pod network",
    ),
    "absent from a default network": (
        {
            f"{NETWORKS}[0]": {"name": "default", "multus": {"networkName": "blue", "default": True}},
            f"{INTERFACES}[0]": {"name": "default", "bridge": {}, "state": "absent"},
        },
        "spec.domain.devices.interfaces[0].state",
        '"default" interface\'s state "absent" is not supported on default networks',
    ),
    "function of the Pod network": (
        {f"{INTERFACES}[0]": {"name": "default", "sriov": {}}},
        "spec.domain.devices.interfaces[0].sriov",
        "is not possible on the Pod's own network; use a network multus without default",
    ),
    "function without a cable": (
        joined({"multus": {"networkName": "red"}}, {"sriov": {}, "state": "down"}),
        "spec.domain.devices.interfaces[1].state",
        '"lan" interface\'s state "down" is not supported for SR-IOV NICs',
    ),
    "function that is to go": (
        joined({"multus": {"networkName": "red"}}, {"sriov": {}, "state": "absent"}),
        "spec.domain.devices.interfaces[1].state",
        '"lan" interface\'s state "absent" is supported only for bridge binding',
    ),
    "DHCP of ours for a function": (
        joined({"multus": {"networkName": "red"}}, {"sriov": {}, "dhcpOptions": {"tftpServerName": "a"}}),
        "spec.domain.devices.interfaces[1].dhcpOptions",
        "has no effect on an SR-IOV NIC; remove it",
    ),
    "function whose name leads to another device": (
        {
            **joined({"multus": {"networkName": "red"}}, {"sriov": {}}),
            f"{NETWORKS}[2]": {"name": "sriov-lan", "multus": {"networkName": "red"}},
            f"{INTERFACES}[2]": {"name": "sriov-lan", "bridge": {}},
        },
        "spec.domain.devices.interfaces[1].name",
        "goes with no other device called sriov-lan",
    ),
    "two Pod networks": (
        joined({"pod": {}}),
        "spec.domain.devices.interfaces",
        "more than one interface is connected to a pod network in spec.domain.devices.interfaces",
    ),
    "masquerade on the LAN": (
        joined({"multus": {"networkName": "red"}}, {"masquerade": {}}),
        "spec.domain.devices.interfaces[1].name",
        "Masquerade interface only implemented with pod network",
    ),
    "absent from the Pod network": (
        {f"{INTERFACES}[0].state": "absent"},
        "spec.domain.devices.interfaces[0].state",
        '"default" interface\'s state "absent" is not supported on default networks',
    ),
    "network without an interface": (
        {f"{NETWORKS}[1]": {"name": "lan", "multus": {"networkName": "red"}}},
        f"{AT}.name",
        "spec.networks[1].name 'lan' not found.",
    ),
    "interface without a network": (
        {f"{INTERFACES}[1]": {"name": "lan", "bridge": {}}},
        "spec.domain.devices.interfaces[1].name",
        "spec.domain.devices.interfaces[1].name 'lan' not found.",
    ),
    "two interfaces on one network": (
        {f"{INTERFACES}[1]": {"name": "default", "bridge": {}}},
        "spec.domain.devices.interfaces[1].name",
        "Only one interface can be connected to one specific network",
    ),
    "ACPI index beyond libvirt's": (
        {f"{INTERFACES}[0].acpiIndex": 16384},
        "spec.domain.devices.interfaces[0].acpiIndex",
        "must be from 1 to 16383",
    ),
    "one ACPI index twice": (
        {
            f"{INTERFACES}[0].acpiIndex": 7,
            **joined({"multus": {"networkName": "red"}}, {"bridge": {}, "acpiIndex": 7}),
        },
        "spec.domain.devices.interfaces[1].acpiIndex",
        "is that of another interface of this VM",
    ),
    "boot file that no DHCP option holds": (
        {f"{INTERFACES}[0].dhcpOptions.bootFileName": "x" * 256},
        "spec.domain.devices.interfaces[0].dhcpOptions.bootFileName",
        "must be ASCII text of at most 255 characters",
    ),
    "private option that is no ASCII": (
        {f"{INTERFACES}[0].dhcpOptions.privateOptions": [{"option": 240, "value": "über"}]},
        "spec.domain.devices.interfaces[0].dhcpOptions.privateOptions[0].value",
        "must be ASCII text of at most 255 characters",
    ),
    "one MAC twice": (
        {
            f"{INTERFACES}[0].macAddress": "52:54:00:00:00:01",
            **joined({"multus": {"networkName": "red"}}, {"bridge": {}, "macAddress": "52-54-00-00-00-01"}),
        },
        "spec.domain.devices.interfaces[1].macAddress",
        "is used by another interface of this VM",
    ),
}

"""NICs of a node's LANs: when one that is there is another than is wanted."""

from __future__ import annotations

import pytest

from kvedge.network.lan import node_lans
from kvedge.network.lan.lan_config import LanConfig
from kvedge.network.lan.lan_plan import LanPort
from tests.support.values import replace

THERE = LanPort(
    netns="vmi-uid",
    interface="lan",
    mac="02:00:00:00:00:01",
    network=LanConfig(bridge="br0", vlan=7),
    address="192.168.1.50/24",
)


@pytest.mark.parametrize(
    ("wanted", "is_other"),
    [
        (THERE, False),
        (replace(THERE, address="192.168.1.51/24"), True),
        (replace(THERE, network=LanConfig(bridge="br0", vlan=8)), True),
        (replace(THERE, network=LanConfig(bridge="br0", vlan=7, isolates_ports=True)), True),
        (replace(THERE, interface="lan2", address="192.168.1.51/24"), False),
        (replace(THERE, netns="another-vmi"), False),
    ],
)
def test_a_nic_of_another_address_vlan_or_isolation_is_another(
    monkeypatch: pytest.MonkeyPatch, wanted: LanPort, is_other: bool
) -> None:
    monkeypatch.setattr(node_lans, "lan_ports_here", lambda config: {"kve1": THERE})
    assert node_lans.has_other_nic(wanted) is is_other

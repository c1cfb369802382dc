"""What is put into the kernel is read back with the distribution's `nft`, which shares nothing with us."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from typing import TypeVar

import pytest

from kvedge.network.binding.binding_state import Record, names_for
from kvedge.network.binding.bridge_binding_plan import guard_table
from kvedge.network.binding.port_rules import (
    MOST_FLOWS,
    PORT_ADDRESSES,
    QUESTIONS_AT_ONCE,
    QUESTIONS_PER_SECOND,
    nat_table,
)
from kvedge.network.errors import NetworkError
from kvedge.network.link_types import Address
from kvedge.network.netns import create_netns, delete_netns, netns_path, run_in_netns
from kvedge.network.nft.nft_edge import change_elements, delete_table, ensure_table, list_tables, replace_table
from kvedge.network.nft.nft_rules import DROP, iifname_is
from kvedge.network.nft.nft_tables import Chain, Family, Hook, Table
from kvedge.network.pods.attachments import NodeNetworkConfig, attachment_for
from kvedge.network.pods.forward_rules import fence_keys, fence_table
from kvedge.network.pods.pod_tables import ports_of
from tests.machine.network.dhcp_clients import needs
from tests.support.values import replace

T = TypeVar("T")
NAME = f"kvt{os.getpid()}-nft"
CONFIG = NodeNetworkConfig(bridge="kvedge0", cidr="10.99.0.0/24", table="kvedge0", netns_prefix="kvedge0-")
RECORD = Record(
    netns="",
    index=2,
    name="eth0",
    mac="02:00:00:00:00:01",
    mtu=1500,
    addresses=(Address(2, "10.0.0.2", 24),),
    routes=(),
)
POD = attachment_for(CONFIG, "kvedge0-pod", "10.99.0.7", "52:54:00:00:00:07")


@pytest.fixture(autouse=True)
def _netns() -> Iterator[None]:
    needs("nft", "nftables")
    create_netns(NAME)
    yield
    delete_netns(NAME)


def inside(work: Callable[[], T]) -> T:
    return run_in_netns(netns_path(NAME), work)


def listed(family: str, table: str) -> list[str]:
    """The lines of `nft list table`, without indentation."""
    command = ["nft", "list", "table", family, table]
    done = inside(lambda: subprocess.run(command, capture_output=True, text=True, check=True))
    return [line.strip() for line in done.stdout.splitlines()]


def everything() -> list[dict[str, object]]:
    """All that nft knows of the namespace, but for its own version."""
    done = inside(lambda: subprocess.run(["nft", "-j", "list", "ruleset"], capture_output=True, text=True, check=True))
    return [each for each in json.loads(done.stdout)["nftables"] if "metainfo" not in each]


COUNTS = [
    "set kvedge_dropped {",
    "type ifname . mark",
    "size 65535",
    "flags dynamic,timeout",
    "timeout 1d",
    "}",
    "",
]


def counting_chain(reason: str, number: int) -> list[str]:
    """The chain in which a reason is counted."""
    count = f"update @kvedge_dropped {{ iifname . 0x{number:08x} counter }}"
    return [f"chain drop_{reason} {{", count, "drop", "}", ""]


def test_the_guard_is_what_it_should_be() -> None:
    inside(lambda: ensure_table(guard_table(names_for("eth0", 0), RECORD, "52:54:00:00:00:07")))
    assert listed("bridge", "kvedge_guard_4_eth0") == [
        "table bridge kvedge_guard_4_eth0 {",
        "set arp_senders {",
        "type ipv4_addr",
        "size 32",
        "flags dynamic,timeout",
        "timeout 1m",
        "}",
        "",
        "set ipv6_senders {",
        "type ipv6_addr",
        "size 32",
        "flags dynamic,timeout",
        "timeout 1m",
        "}",
        "",
        *COUNTS,
        *counting_chain("mac", 1),
        *counting_chain("too_many_addresses", 10),
        "chain prerouting {",
        "type filter hook prerouting priority dstnat; policy accept;",
        'iifname "tap0" ether saddr != 52:54:00:00:00:07 goto drop_mac',
        'iifname "tap0" update @arp_senders { arp saddr ip } accept',
        'iifname "tap0" meta protocol arp goto drop_too_many_addresses',
        'iifname "tap0" icmpv6 type 133-137 update @ipv6_senders { @nh,64,128 } accept',
        'iifname "tap0" icmpv6 type 133-137 goto drop_too_many_addresses',
        "}",
        "",
        "chain forward {",
        "type filter hook forward priority -300; policy accept;",
        'iifname "eth0-nic" udp dport 67-68 drop',
        'iifname "eth0-nic" udp dport 546-547 drop',
        'iifname "eth0-nic" icmpv6 type 133-134 drop',
        'oifname "eth0-nic" udp dport 67-68 drop',
        'oifname "eth0-nic" udp dport 546-547 drop',
        'oifname "eth0-nic" icmpv6 type 133-134 drop',
        'iifname "eth0-nic" ether saddr 52:54:00:00:00:07 icmpv6 type 135-135 drop',
        "}",
        "",
        "chain input {",
        "type filter hook input priority -300; policy accept;",
        'iifname "eth0-nic" drop',
        'iifname "tap0" update @ipv6_senders { ip6 saddr } accept',
        'iifname "tap0" meta protocol ip6 goto drop_too_many_addresses',
        "}",
        "",
        "chain output {",
        "type filter hook output priority -300; policy accept;",
        'oifname "eth0-nic" drop',
        "}",
        "}",
    ]


def test_the_nat_table_is_what_it_should_be() -> None:
    inside(lambda: replace_table(nat_table("kvedge0", "10.99.0.0/24", "kvedge0"), {}))
    lines = listed("ip", "kvedge0")
    rules = [line for line in lines if "name" in line]
    assert rules == [
        f'iifname "kvedge0" ct state new add @flows {{ ip saddr ct count over {MOST_FLOWS} }} drop',
        'iifname "kvedge0" ip daddr 10.99.0.1 udp dport 53-53 update @questions'
        f" {{ ip saddr limit rate over {QUESTIONS_PER_SECOND}/second burst {QUESTIONS_AT_ONCE} packets }} drop",
        'oifname "kvedge0" ip daddr 10.99.0.0/24 ip daddr != @hosts drop',
        'ip saddr 10.99.0.0/24 ip daddr != 10.99.0.0/24 oifname != "kvedge0" masquerade',
    ]
    assert [line for line in lines if line.startswith("type filter")] == [
        "type filter hook prerouting priority mangle; policy accept;",
        "type filter hook forward priority filter; policy accept;",
    ]


def test_what_keeps_strangers_apart_is_what_it_should_be() -> None:
    inside(lambda: replace_table(fence_table(), fence_keys(["kvedge0"], ["br0", "br1"])))
    lines = listed("ip", "kvedge_forward")
    others = "iifname != @ours oifname != @ours"
    assert [line for line in lines if line.endswith("drop")] == [
        f'{others} meta iifkind != "bridge" drop',
        f'{others} meta oifkind != "bridge" drop',
        f"{others} iifname . oifname @apart drop",
    ]
    assert '"br0" . "br1"' in "".join(lines)


def test_the_rules_of_the_ports_are_what_they_should_be() -> None:
    inside(lambda: replace_table(ports_of(CONFIG), POD.keys))
    lines = listed("bridge", "kvedge0")
    rules = [line for line in lines if line.startswith("iifname")]
    prefix = f'iifname "{POD.port[:7]}*"'
    assert rules == [
        f"{prefix} meta protocol != ip meta protocol != arp goto drop_protocol",
        f"{prefix} iifname . ether saddr != @port_macs goto drop_mac",
        f"{prefix} iifname . arp saddr ether != @port_macs goto drop_arp",
        f"{prefix} iifname . arp saddr ip != @port_addresses goto drop_arp",
        f"{prefix} iifname . ip saddr != @port_addresses goto drop_address",
    ]
    assert f'elements = {{ "{POD.port}" . 52:54:00:00:00:07 }}' in lines
    assert any(f'"{POD.port}" . 10.99.0.7' in line for line in lines)


def test_elements_come_and_go_in_one_transaction() -> None:
    table = ports_of(CONFIG)
    other = replace(POD, port=POD.port[:-1] + "x", address="10.99.0.8")
    inside(lambda: replace_table(table, POD.keys))
    inside(lambda: change_elements(table, add=other.keys, remove=POD.keys))
    assert POD.port not in "".join(listed("bridge", "kvedge0"))
    assert other.port in "".join(listed("bridge", "kvedge0"))
    # What is not there may be removed, and what is there added, without an error.
    inside(lambda: change_elements(table, add=other.keys, remove=POD.keys))
    inside(lambda: change_elements(table, add={}, remove={}))


def test_a_transaction_that_fails_changes_nothing() -> None:
    table = ports_of(CONFIG)
    inside(lambda: replace_table(table, POD.keys))
    before = everything()
    with pytest.raises(NetworkError, match="kvedge0"):
        inside(lambda: change_elements(table, add=POD.keys, remove={"no_such_set": [b"x" * 20]}))
    broken = replace(table, chains=(*table.chains, Chain("bad", Hook.FORWARD, 0, ((DROP,),), type="nat")))
    with pytest.raises(NetworkError):
        inside(lambda: replace_table(broken, {PORT_ADDRESSES.name: []}))
    assert everything() == before


def test_tables_of_others_are_neither_listed_as_ours_nor_touched() -> None:
    foreign = "table bridge other {\nchain c {\ntype filter hook forward priority 0;\n}\n}\n"
    inside(lambda: subprocess.run(["nft", "-f", "-"], input=foreign, text=True, check=True))
    before = everything()
    table = Table(Family.BRIDGE, "ours", (Chain("c", Hook.FORWARD, 0, ((*iifname_is("x"), DROP),)),))
    inside(lambda: replace_table(table, {}))
    assert inside(lambda: list_tables(Family.BRIDGE, "our")) == ["ours"]
    inside(lambda: delete_table(Family.BRIDGE, "ours"))
    inside(lambda: delete_table(Family.BRIDGE, "ours"))
    assert everything() == before


def test_ensuring_a_table_that_is_there_leaves_it_as_it_is() -> None:
    table = guard_table(names_for("eth0", 0), RECORD, "52:54:00:00:00:07")
    inside(lambda: ensure_table(table))
    before = everything()
    inside(lambda: ensure_table(table))
    assert everything() == before

"""What a NetworkAttachmentDefinition's configuration means on one box, and what is refused of it."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from kvedge.network.lan.lan_addresses import LanAddresses
from kvedge.network.lan.lan_config import (
    LONGEST,
    LanConfig,
    LanConfigError,
    find_unheeded,
    lan_config_text,
    parse_lan_config,
)
from kvedge.resources.codec import JsonObject
from tests.support.values import replace

ADDRESSES = LanAddresses(subnet="192.0.2.0/24", first="192.0.2.50", last="192.0.2.99")


def text(**config: Any) -> str:
    return json.dumps({"cniVersion": "1.0.0", "type": "bridge", "bridge": "br0", **config})


@pytest.mark.parametrize(
    "config",
    [
        LanConfig(bridge="br0"),
        LanConfig(bridge="br0", vlan=100, mtu=9000, isolates_ports=True),
        LanConfig(bridge="br0", trunk=((10, 10), (20, 30))),
        LanConfig(bridge="br0", vlan=1, trunk=((10, 10), (20, 30))),
        LanConfig(bridge="br0", servers=True),
        LanConfig(bridge="kvb-eth0", nic="eth0"),
        LanConfig(bridge="br0", addresses=ADDRESSES),
        LanConfig(bridge="br0", vlan=7, addresses=replace(ADDRESSES, gateway="192.0.2.1"), filters=True),
        LanConfig(bridge="kvn-1", made=True, servers=True),
        LanConfig(bridge="kvn-1", made=True, servers=False),
    ],
    ids=[
        "a bridge",
        "a VLAN of it",
        "a trunk",
        "a trunk with a native VLAN",
        "with servers",
        "one of a NIC",
        "with addresses",
        "with addresses to which guests are kept",
        "one of ours",
        "one of ours without servers",
    ],
)
def test_a_text_means_what_it_was_made_of(config: LanConfig) -> None:
    assert parse_lan_config(lan_config_text(config)) == config


@pytest.mark.parametrize(
    ("own", "said"),
    [
        (
            {"filterAddresses": True},
            "filterAddresses: nobody knows which address a guest has from elsewhere; name kvedge.",
        ),
        ({"addresses": []}, "addresses: it is an object with the keys subnet, first, last, gateway; write it as"),
        ({"addresses": {"subnet": "192.0.2.0/24", "first": "192.0.2.9"}}, "addresses: the last '' is no IPv4 address"),
    ],
)
def test_addresses_that_cannot_be_given_are_refused_by_their_key(own: JsonObject, said: str) -> None:
    with pytest.raises(LanConfigError, match=re.escape(f"spec.config.kvedge.{said}")):
        parse_lan_config(text(kvedge=own))


def test_a_trunk_has_no_addresses() -> None:
    given = lan_config_text(LanConfig(bridge="br0", trunk=((7, 9),), addresses=ADDRESSES))
    with pytest.raises(LanConfigError, match=r"kvedge\.addresses: guests of a trunk have their addresses in its VLANs"):
        parse_lan_config(given)


def test_words_of_the_bridge_plugin_that_change_nothing_are_taken() -> None:
    given = text(name="lan", isGateway=False, ipam={}, macspoofchk=True, disableContainerInterface=True, vlanTrunk=[])
    assert parse_lan_config(given) == LanConfig(bridge="br0")


def test_a_list_of_one_plugin_is_that_plugin() -> None:
    listed = {"cniVersion": "1.0.0", "name": "lan", "plugins": [json.loads(text(vlan=7))]}
    assert parse_lan_config(json.dumps(listed)).vlan == 7


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("", "spec.config: this is no JSON: "),
        ("[" * 20_000, f"spec.config: 20000 characters long; no more than {LONGEST} are read"),
        ("[" * 9_000, "spec.config: this is no JSON: "),
        ("[1]", "spec.config: this is no JSON object"),
        ('{"type": "macvlan"}', "spec.config.type: 'macvlan' is not supported here; use bridge"),
        ("{}", "spec.config.type: 'null' is not supported here; use bridge"),
        (text(bridge="../etc"), "spec.config.bridge: '../etc' is no name of a link"),
        (text(bridge="a" * 16), "is no name of a link"),
        (text(vlan=4095), "spec.config.vlan: '4095' is out of range; use 0 to 4094"),
        (text(vlan=True), "spec.config.vlan: 'true' is no whole number"),
        (text(mtu=1279), "spec.config.mtu: '1279' is out of range; use 1280 to 65521"),
        (text(ipam={"type": "dhcp"}), "spec.config.ipam: not supported here; leave it empty"),
        (text(isGateway=True), "spec.config.isGateway: not supported here"),
        (text(vlanTrunk=[{"id": 5}], vlan=3), "spec.config.vlanTrunk: a port has either vlan or vlanTrunk; for frames"),
        (text(vlanTrunk=[{"id": 4095}]), "spec.config.vlanTrunk: 4095-4095 is no range of VLANs, which are 1 to 4094"),
        (text(vlanTrunk=[{"id": 5}], kvedge={"makeBridge": True}), "spec.config.vlanTrunk: a bridge that kvedge makes"),
        (text(vlanTrunk=[{"id": 5}], kvedge={"nativeVlan": 5}), "spec.config.kvedge.nativeVlan: 5 is in vlanTrunk; a"),
        (text(kvedge={"nativeVlan": 5}), "spec.config.kvedge.nativeVlan: there is no vlanTrunk; a port of one VLAN"),
        (text(macspoofchk=False), "spec.config.macspoofchk: a guest speaks with its own MAC alone; remove it"),
        (text(portIsolation="yes"), "spec.config.portIsolation: 'yes' is neither true nor false"),
        (text(brigde="x"), "spec.config.brigde: not supported here. Did you mean bridge?; remove it"),
        (text(kvedge={"makeBrigde": True}), "spec.config.kvedge.makeBrigde: unknown; it has the keys makeBridge, "),
        (text(kvedge={"nic": "no nic"}), "spec.config.kvedge.nic: 'no nic' is no name of a link"),
        (text(kvedge={"nic": "eth0", "makeBridge": True}), "spec.config.kvedge.makeBridge: a bridge of a NIC is there"),
        (text(kvedge={"makeBridge": True}, vlan=3), "spec.config.vlan: a bridge that kvedge makes is one network"),
        (json.dumps({"plugins": []}), "spec.config.plugins: this is no list of plugins"),
        (
            json.dumps({"plugins": [json.loads(text()), {"type": "tuning"}]}),
            "spec.config.plugins[1]: 'tuning' is not supported here; remove it",
        ),
    ],
)
def test_what_one_box_cannot_do_is_refused_by_its_name(given: str, said: str) -> None:
    with pytest.raises(LanConfigError) as caught:
        parse_lan_config(given)
    assert said in str(caught.value)
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize(
    ("config", "field"),
    [
        (text(kvedge={"addresses": {"subnet": "192.0.2.0/24"}}), "spec.config.kvedge.addresses"),
        (text(kvedge={"filterAddresses": True}, ipam={"type": "host-local"}), "spec.config.kvedge.filterAddresses"),
        ('{"plugins": [{"type": "tuning"}, {"kvedge": {"addresses": {"a": 1}}}]}', "spec.config.kvedge.addresses"),
        (text(kvedge={"filterAddresses": False, "nic": "eth0"}), ""),
        (text(kvedge=7), ""),
        ('{"plugins": 7}', ""),
        ("no", ""),
    ],
)
def test_words_of_ours_that_another_plugin_passes_over_are_found(config: str, field: str) -> None:
    assert find_unheeded(config) == field

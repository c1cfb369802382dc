"""What a network of macvtaps may say, and what is refused by its key."""

from __future__ import annotations

import json

import pytest

from kvedge.network.lan.lan_config import LONGEST, LanConfigError
from kvedge.network.lan.macvtap_config import MacvtapConfig, macvtap_config_text, parse_macvtap_config


@pytest.mark.parametrize(
    "config",
    [MacvtapConfig(nic="eth0"), MacvtapConfig(nic="eth0.7", mode="vepa", mtu=9000, servers=True)],
    ids=["plain", "all"],
)
def test_what_is_written_is_read_again(config: MacvtapConfig) -> None:
    assert parse_macvtap_config(macvtap_config_text(config)) == config


def test_the_words_that_change_nothing_are_passed_over() -> None:
    text = (
        '{"cniVersion": "0.3.1", "name": "lan", "type": "macvtap", "master": "eth0", "ipam": {}, "promiscMode": false}'
    )
    assert parse_macvtap_config(text) == MacvtapConfig(nic="eth0")


@pytest.mark.parametrize("text", ["", "[", '{"type": "bridge"}', '["macvtap"]', '{"type": "macvtap"' + " " * LONGEST])
def test_what_is_about_another_network_is_left_to_others(text: str) -> None:
    assert parse_macvtap_config(text) is None


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"master": None}, "master"),
        ({"master": ""}, "spec.config.master: '' is no name of a link; name a NIC of this host"),
        ({"master": "a/b"}, "'a/b' is no name of a link"),
        ({"mode": "passthru"}, "spec.config.mode: 'passthru' is not supported; use one of bridge, private, vepa"),
        ({"mtu": 576}, "spec.config.mtu: 576 is out of range; use 1280 to 65521"),
        ({"mtu": "1500"}, r"Expected `int`, got `str` - at `\$.mtu`"),
        ({"ipam": {"type": "dhcp"}}, "spec.config.ipam: not supported here; leave it out"),
        ({"promiscMode": True}, "spec.config.promiscMode: a guest has its own MAC alone"),
        ({"vlan": 7}, "unknown field `vlan`"),
        ({"kvedge": {"allowservers": True}}, r"unknown field `allowservers` - at `\$.kvedge`"),
    ],
)
def test_what_no_box_can_do_is_refused_by_its_key(changed: dict[str, object], said: str) -> None:
    with pytest.raises(LanConfigError, match=said):
        parse_macvtap_config(json.dumps({"type": "macvtap", "master": "eth0", **changed}))

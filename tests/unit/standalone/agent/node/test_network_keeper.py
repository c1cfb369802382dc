"""What the agent says of its node's network, and how often."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kvedge.network.errors import NetworkError
from kvedge.network.lan.lan_ports import LanHealth
from kvedge.network.nics.nic_replay import NicHealth
from kvedge.network.pods.attachments import NodeNetworkConfig
from kvedge.network.pods.pod_network import NodeNetwork
from kvedge.standalone.agent.node import network_keeper
from kvedge.standalone.agent.node.network_keeper import NetworkKeeper
from tests.support.values import replace

CONFIG = NodeNetworkConfig(bridge="kvedge0", cidr="10.99.0.0/24", table="kvedge0", netns_prefix="kvedge0-")
WELL = LanHealth((), ())
Play = Callable[..., None]


def network(
    blockers: tuple[str, ...] = (), overlaps: tuple[str, ...] = (), healed: tuple[str, ...] = ()
) -> NodeNetwork:
    return NodeNetwork("kvedge0", "10.99.0.1", blockers, overlaps, healed)


@pytest.fixture
def keeper() -> NetworkKeeper:
    return NetworkKeeper(CONFIG)


@pytest.fixture
def look(keeper: NetworkKeeper, monkeypatch: pytest.MonkeyPatch) -> Play:
    """Looks once at a network that is so."""

    def play(found: NodeNetwork | NetworkError, lan: LanHealth = WELL) -> None:
        def heal(config: NodeNetworkConfig) -> NodeNetwork:
            if isinstance(found, NetworkError):
                raise found
            return found

        monkeypatch.setattr(network_keeper, "heal_node_network", heal)
        monkeypatch.setattr(network_keeper, "heal_lan", lambda config: lan)
        keeper.look()

    return play


def said(caplog: pytest.LogCaptureFixture) -> list[object]:
    facts = [vars(record)["facts"] for record in caplog.records]
    caplog.clear()
    return facts


def test_nics_are_looked_after_first_and_what_cannot_be_put_right_is_said_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    keeper = NetworkKeeper(CONFIG, tmp_path)
    found = NicHealth(("eth0 was not on kvb-eth0",), ("NIC is gone eth1",))
    monkeypatch.setattr(network_keeper, "replay_nics", lambda nics: found if nics == tmp_path else None)
    monkeypatch.setattr(network_keeper, "heal_node_network", lambda config: network())
    monkeypatch.setattr(network_keeper, "heal_lan", lambda config: WELL)
    for _ in range(2):
        keeper.look()
    assert said(caplog) == [
        {"undone": "eth0 was not on kvb-eth0"},
        {"trouble": "NIC is gone eth1"},
        {"undone": "eth0 was not on kvb-eth0"},
    ]
    assert "NIC is gone eth1" in keeper.notes()


def test_what_was_put_back_is_said_each_time(look: Play, caplog: pytest.LogCaptureFixture) -> None:
    look(network())
    assert said(caplog) == []
    for _ in range(2):
        look(network(healed=("ip_forward was 0", "kvedge0 was down")))
        assert said(caplog) == [{"undone": "ip_forward was 0; kvedge0 was down"}]


def test_what_cannot_be_put_back_is_said_once_until_it_could(look: Play, caplog: pytest.LogCaptureFixture) -> None:
    refused = NetworkError("cannot change", subject="kvedge0", errno=1)
    for _ in range(3):
        look(refused)
    assert said(caplog) == [{"error": "cannot change kvedge0: EPERM"}]
    look(network())
    look(refused)
    assert len(said(caplog)) == 1


def test_the_node_says_what_blocks_the_way_now(
    keeper: NetworkKeeper, look: Play, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(2):
        look(network(blockers=("inet/fw/forward",), overlaps=("10.0.0.0/8 of tun0",)))
    assert said(caplog) == [{"filter": "inet/fw/forward", "allow": "kvedge0"}, {"overlap": "10.0.0.0/8 of tun0"}]
    assert keeper.notes() == ["inet/fw/forward drops what guests send to the outside: allow kvedge0 there"]
    look(NetworkError("cannot list"))
    assert keeper.notes()
    look(network())
    assert keeper.notes() == []


def test_the_node_says_which_links_nothing_is_forwarded_between(keeper: NetworkKeeper, look: Play) -> None:
    look(replace(network(), apart=("eth0", "eth1")))
    [note] = keeper.notes()
    assert "table ip kvedge_forward drops what would pass between other links (eth0, eth1)" in note
    look(network())
    assert keeper.notes() == []


@pytest.mark.parametrize(("lacking", "option"), [("limits_flows", "NFT_CONNLIMIT"), ("limits_questions", "NFT_LIMIT")])
def test_the_node_says_what_its_kernel_cannot_count_and_is_not_asked_again(
    lacking: str, option: str, keeper: NetworkKeeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[bool] = []

    def heal(config: NodeNetworkConfig) -> NodeNetwork:
        asked.append(getattr(config, lacking))
        return network()

    monkeypatch.setattr(network_keeper, "ensure_node_network", lambda config: replace(network(), **{lacking: False}))
    monkeypatch.setattr(network_keeper, "heal_node_network", heal)
    keeper.make()
    keeper.look()
    assert asked == [False]
    [note] = keeper.notes()
    assert f"lacks {option}:" in note


def test_a_network_that_went_away_is_told_once_and_noted_on_the_node(
    keeper: NetworkKeeper, look: Play, caplog: pytest.LogCaptureFixture
) -> None:
    gone = LanHealth((), ("1 guest NICs are cut off: there is no bridge br0",))
    look(network(), gone)
    assert said(caplog) == [{"trouble": gone.troubles[0]}]
    look(network(), gone)
    assert said(caplog) == []
    assert gone.troubles[0] in keeper.notes()
    look(network(), LanHealth(("w1 was not on br0",), ()))
    assert said(caplog) == [{"undone": "w1 was not on br0"}]
    assert gone.troubles[0] not in keeper.notes()


def test_a_filter_that_sees_bridged_frames_is_noted_with_the_bridges_of_guests(
    keeper: NetworkKeeper, look: Play
) -> None:
    look(network(blockers=("ip/filter/FORWARD",)), LanHealth((), (), ("br0", "kvn-1")))
    assert "ip/filter/FORWARD drops what guests send on br0, kvn-1: allow that there" in keeper.notes()
    look(network(blockers=("ip/filter/FORWARD",)), WELL)
    assert not any("br0" in note for note in keeper.notes())

"""When everything is held back until the policies are read, against a kernel that is played."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kvedge.network.links import Links
from kvedge.network.nft_rules import Family
from kvedge.network.pods.pod_network_plan import NodeNetworkConfig
from kvedge.network.policies import policy_network
from kvedge.network.policies.policy_network import PolicyNetwork
from kvedge.network.steps import ReplaceTables, Step

CONFIG = NodeNetworkConfig(bridge="kvedge0", cidr="10.99.0.0/24", table="kvedge0", netns_prefix="kvedge0-")
Play = Callable[[bool, bool], list[Step]]


@pytest.fixture
def hold(monkeypatch: pytest.MonkeyPatch) -> Play:
    """What is done on a host with or without the bridge and the tables."""

    def play(has_bridge: bool, has_tables: bool) -> list[Step]:
        done: list[Step] = []
        link = object() if has_bridge else None
        monkeypatch.setattr(Links, "__init__", lambda self: None)
        monkeypatch.setattr(Links, "__enter__", lambda self: self)
        monkeypatch.setattr(Links, "__exit__", lambda self, *error: None)
        monkeypatch.setattr(Links, "find", lambda self, name: link)

        def handle(family: Family, name: str) -> int | None:
            return 1 if has_tables or done else None

        monkeypatch.setattr(policy_network, "table_handle", handle)
        monkeypatch.setattr(policy_network, "apply_step", lambda links, step: done.append(step))
        PolicyNetwork(CONFIG).hold()
        return done

    return play


def test_before_there_is_a_bridge_no_pod_reaches_anything(hold: Play) -> None:
    (step,) = hold(False, False)
    assert isinstance(step, ReplaceTables)
    kept = [keys for _, contents in step.tables for name, keys in contents.items() if name != "with_ports"]
    assert not any(kept)


@pytest.mark.parametrize(("has_bridge", "has_tables"), [(True, False), (False, True), (True, True)])
def test_pods_that_run_and_tables_that_filter_stay_as_they_are(hold: Play, has_bridge: bool, has_tables: bool) -> None:
    assert hold(has_bridge, has_tables) == []

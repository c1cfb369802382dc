"""What is written on a macvtap, and the rules for its guest; that they hold is shown with packets elsewhere."""

from __future__ import annotations

from kvedge.network.binding.macvtap_rules import MacvtapMark, guard_of, mark_of, stale_guards
from kvedge.network.link_types import Link
from kvedge.network.nft.nft_tables import Family, LinkHook
from tests.support.values import replace

MAC = "52:54:00:00:00:01"
LINK = Link(index=4, name="pod1", kind="macvtap", mac=MAC, mtu=1500, up=True)


def test_a_mark_is_read_as_it_was_written() -> None:
    for mark in (MacvtapMark(nic="eth0", mode="bridge"), MacvtapMark(nic="eth0.7", mode="private", servers=True)):
        assert mark_of(replace(LINK, alias=mark.alias)) == mark


def test_what_others_have_made_has_no_mark() -> None:
    alias = MacvtapMark(nic="eth0", mode="bridge").alias
    for link in (LINK, replace(LINK, alias="eth0"), replace(LINK, alias=alias, kind="veth")):
        assert mark_of(link) is None


def test_the_rules_see_what_the_link_sends_and_are_named_after_it() -> None:
    table = guard_of(LINK, MAC)
    (chain,) = table.chains
    assert (table.family, chain.hook, chain.link) == (Family.NETDEV, LinkHook.EGRESS, "pod1")
    assert table.name == "kvedge_guard_macvtap_1_4"


def test_only_a_network_that_says_so_has_servers() -> None:
    """One of macvtap-cni's, which has no mark, has none."""
    servers = replace(LINK, alias=MacvtapMark(nic="eth0", mode="bridge", servers=True).alias)
    without, having = (len(guard_of(link, MAC).chains[0].rules) for link in (LINK, servers))
    assert without - having == 4


def test_the_guard_of_a_link_that_has_gone_is_stale() -> None:
    guards = ["kvedge_guard_macvtap_1_4", "kvedge_guard_macvtap_1_5", "kvedge_guard_3_eth0", "other_5"]
    assert stale_guards(guards, [LINK, replace(LINK, index=5, kind="veth")]) == ["kvedge_guard_macvtap_1_5"]

"""What our filters drop is counted for each link and reason; the kernel's own counting is in the machine tests."""

from __future__ import annotations

import pytest

from kvedge.network.drop_rules import DROPPED, WORDS, Dropped, Reason, counting, drop, drops_by_link
from kvedge.network.nft.nft_rules import DROP, iifname_is, link_key
from kvedge.network.nft.nft_tables import Chain, Family, Hook, Table

RULES = ((*iifname_is("w1"), drop(Reason.MAC)), (*iifname_is("w2"), drop(Reason.TAG)))
TABLE = counting(Table(Family.BRIDGE, "t", (Chain("prerouting", Hook.PREROUTING, -300, RULES),)))


def test_a_table_gets_the_chains_of_its_reasons_before_its_own_and_the_set() -> None:
    assert [(chain.name, chain.hook) for chain in TABLE.chains] == [
        ("drop_mac", None),
        ("drop_tag", None),
        ("prerouting", Hook.PREROUTING),
    ]
    assert TABLE.sets == (DROPPED,)


@pytest.mark.parametrize("chain", TABLE.chains[:2], ids=lambda chain: str(chain.name))
def test_a_set_that_is_full_keeps_nothing_from_being_dropped(chain: Chain) -> None:
    """A rule ends where it cannot count: the drop is a rule of its own behind it."""
    counted, end = chain.rules
    assert DROP not in counted
    assert end == (DROP,)


def test_counts_are_told_by_link_in_words() -> None:
    def key(link: str, number: int) -> bytes:
        return link_key(link) + number.to_bytes(4, "little")

    count = Dropped(3, 180)
    found = drops_by_link([(key("w1", Reason.MAC), count), (key("w1", Reason.TAG), count), (key("w2", 99), count)])
    assert found == {"w1": {WORDS[Reason.MAC]: count, WORDS[Reason.TAG]: count}, "w2": {"reason 99": count}}


def test_every_reason_has_words() -> None:
    assert WORDS.keys() == set(Reason)

"""What a host forwards because of kvedge: only what comes from a node bridge of ours or goes to one.

`ip_forward` is one switch for all links of a host. Where kvedge switched it on, a table of its own, which all
instances share, drops what would pass between two links of others: a host with two networks is no router for
strangers. Pure; `forwarding_plan` decides when the table is there.
"""

from __future__ import annotations

from collections.abc import Collection
from itertools import permutations
from typing import Final

from kvedge.network.nft.nft_port_rules import iifname_oifname_in
from kvedge.network.nft.nft_rules import (
    DROP,
    iifname_not_in,
    iifs_kind_is_not,
    link_key,
    oifname_not_in,
    oifs_kind_is_not,
)
from kvedge.network.nft.nft_tables import Chain, Family, Hook, Set, Table

FILTER_PRIORITY: Final = 0
FENCE: Final = "kvedge_forward"
# The node bridges of all instances.
OURS: Final = Set("ours", (("ifname", 16),))
# Pairs of different bridges of others.
APART: Final = Set("apart", (("ifname", 16), ("ifname", 16)))
# So many bridges of others are told apart; between further ones packets pass, as they would in a router.
MOST_BRIDGES: Final = 16


def fence_table(family: Family = Family.IP) -> Table:
    """Between links of others nothing is forwarded.

    A frame that merely passes a bridge comes by here as well, where the host wants its bridged frames filtered
    (`bridge-nf-call-iptables`), and has the bridge at both ends: it is never dropped. Hence two bridges are told
    apart by their names. A pair stays when a bridge goes, and a later bridge of that name may be of ours: hence no
    rule is about ours.
    """
    others = (*iifname_not_in(OURS.name), *oifname_not_in(OURS.name))
    rules = (
        (*others, *iifs_kind_is_not("bridge"), DROP),
        (*others, *oifs_kind_is_not("bridge"), DROP),
        (*others, *iifname_oifname_in(APART.name), DROP),
    )
    return Table(family, FENCE, (Chain("forward", Hook.FORWARD, FILTER_PRIORITY, rules),), (OURS, APART))


def fence_keys(ours: Collection[str], bridges: Collection[str]) -> dict[str, tuple[bytes, ...]]:
    """The contents of the table's sets: `ours` are the node bridges, `bridges` those of others."""
    pairs = permutations(sorted(bridges)[:MOST_BRIDGES], 2)
    return {
        OURS.name: tuple(link_key(name) for name in sorted(ours)),
        APART.name: tuple(link_key(one) + link_key(other) for one, other in pairs),
    }

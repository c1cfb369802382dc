"""Which filters of others know a NIC by its name or number: behind its move they see the bridge, and not the NIC.

Called before a move. Reads nftables only, in which `iptables-nft` writes too; what `iptables-legacy` has is not seen.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any, Final

from kvedge.network.errors import NotSupportedError
from kvedge.network.nft.nft_edge import list_rules
from kvedge.network.nft.nft_tables import Family
from kvedge.network.pods.forwarding_plan import MARK

_FAMILIES: Final = {"inet": Family.INET, "ip": Family.IP, "ip6": Family.IP6}
_NAMES: Final = ("NFT_META_IIFNAME", "NFT_META_OIFNAME")
_NUMBERS: Final = ("NFT_META_IIF", "NFT_META_OIF")


def filters_of_nic(nic: str, index: int) -> list[str]:
    """Tables (`family/table`) of others with a rule about this NIC. Raises NetworkError."""
    found: dict[str, None] = {}
    for word, family in _FAMILIES.items():
        try:
            rules = list_rules(family)
        except NotSupportedError:
            continue
        for table, expressions in rules:
            if not table.startswith(MARK) and _is_about(expressions, nic, index):
                found[f"{word}/{table}"] = None
    return list(found)


def _is_about(expressions: Iterable[Any], nic: str, index: int) -> bool:
    key = ""
    for each in expressions:
        kind, data = each.get_attr("NFTA_EXPR_NAME"), each.get_attr("NFTA_EXPR_DATA")
        if kind == "meta":
            asked = data.get_attr("NFTA_META_KEY")
            key = asked if asked in (*_NAMES, *_NUMBERS) else key
        elif kind == "lookup" and key:
            # Sets change while the rule stays: one of links may have this one at any time.
            return True
        elif kind == "cmp" and key:
            value = data.get_attr("NFTA_CMP_DATA").get_attr("NFTA_DATA_VALUE")
            if int.from_bytes(value, sys.byteorder) == index if key in _NUMBERS else _is_name(value, nic):
                return True
            key = ""
    return False


def _is_name(value: bytes, nic: str) -> bool:
    """A name ends with a zero; a value without one is the beginning of names, as of `eth*`."""
    name, zero, _ = value.partition(b"\0")
    return name == nic.encode() if zero else nic.encode().startswith(name)

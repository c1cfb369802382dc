"""The ranges of addresses that one box hands out, as settings have them: one of IPv4, and one of IPv6 beside it.

Written as Kubernetes writes a dual-stack pair: `10.99.0.0/24,2001:db8:1::/64`. Pure.
"""

from __future__ import annotations

from ipaddress import IPv4Network, IPv6Network
from typing import Final

from msgspec import Struct

_MOST: Final = 2


class AddressRanges(Struct, frozen=True):
    """The range of each family, as text; `ipv6` is empty where there is none."""

    ipv4: str
    ipv6: str = ""

    @property
    def all(self) -> tuple[str, ...]:
        """The configured ranges, IPv4 first."""
        return (self.ipv4, self.ipv6) if self.ipv6 else (self.ipv4,)


def address_ranges(text: str) -> AddressRanges:
    """What a setting says.

    Raises:
        ValueError: when it is neither an IPv4 network nor one of each family; with the reason.
    """
    given = [each.strip() for each in text.split(",")]
    if len(given) > _MOST or (len(given) == _MOST and not given[1]):
        raise ValueError("give an IPv4 network, or an IPv4 and an IPv6 network with a comma between them")
    IPv4Network(given[0])
    if len(given) == _MOST:
        IPv6Network(given[1])
    return AddressRanges(*given)

"""Puts addresses of the pool onto the host's links, where the kernel answers ARP and neighbour discovery for them.

Called as root on the host, by the networking service's loop and by the removal of a box; decides by `pool_plan`.
Touches no address but those that carry this box's mark.
"""

from __future__ import annotations

from collections.abc import Collection

from kvedge.network.apply_step import apply_step, pass_over_gone
from kvedge.network.errors import NotSupportedError
from kvedge.network.links import Links
from kvedge.network.services.pool_plan import (
    HostSeen,
    addresses_of_nobody,
    check_pool,
    plan_pool_addresses,
    pool_problems,
    uplinks,
)
from kvedge.network.steps import AddSideAddress
from kvedge.runtime.address_pool import AddressPool


class PoolAddresses:
    """The addresses of one box's pool; used by one thread at a time."""

    def __init__(self, bridge: str, pool: AddressPool) -> None:
        self._bridge = bridge
        self.pool = pool

    def check(self) -> None:
        """Raises OverlapError when the pool has what the host or its network needs; NetworkError."""
        with Links() as links:
            check_pool(self.pool, self._bridge, _look(links))

    def of_the_host(self) -> frozenset[str]:
        """Addresses that no Service gets: the host may have come by them since its start. Raises NetworkError."""
        if not self.pool:
            return frozenset()
        with Links() as links:
            return addresses_of_nobody(self._bridge, _look(links))

    def apply(self, wanted: Collection[str]) -> dict[str, str]:
        """Have these on the host's links and none besides; what is wrong with those that lead nowhere, by address.

        May be repeated at any time.

        Raises:
            NotSupportedError: the kernel keeps no marks: nothing was left behind.
            NetworkError: a part was changed; the next call sees to all of it.
        """
        with Links() as links:
            seen = _look(links)
            places = uplinks(wanted, self._bridge, seen)
            steps = list(plan_pool_addresses(self._bridge, seen, places))
            for step in steps:
                with pass_over_gone():
                    apply_step(links, step)
            if steps:
                seen = _look(links)
                _check_marks(links, seen, {step.address for step in steps if isinstance(step, AddSideAddress)})
            return pool_problems(self._bridge, seen, wanted, places)


def _check_marks(links: Links, seen: HostSeen, added: Collection[str]) -> None:
    """An address that is not recognised as ours would stay for ever."""
    names = {link.index: link.name for link in seen.links}
    unmarked = [each for each in seen.addresses if each.address in added and not each.protocol]
    for each in unmarked:
        links.delete_address(names[each.link], each.address, each.prefix_length)
    if unmarked:
        raise NotSupportedError(
            "cannot mark an address as load-balancer-pool's",
            subject=unmarked[0].address,
            remedy="leave load-balancer-pool out, or run Linux 5.18 or newer",
        )


def _look(links: Links) -> HostSeen:
    return HostSeen(
        tuple(links.list_links()),
        tuple(links.list_addresses()),
        (*links.list_hops(), *links.list_ipv6_routes()),
    )

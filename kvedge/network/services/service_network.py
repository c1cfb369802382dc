"""The service network of one box: puts what Services say into the kernel, and puts it back when others undo it.

Called as root on the host, by the networking service's loop and by the removal of a box. Touches one nftables table
and one route by the node bridge; decides by `service_plan`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence

from kvedge.network.apply_step import apply_step
from kvedge.network.errors import NetworkError
from kvedge.network.links import Links
from kvedge.network.nft.nft_edge import is_whole, table_handle
from kvedge.network.node_seen import NodeSeen
from kvedge.network.services.flow_edge import forget_flows
from kvedge.network.services.service_plan import (
    Elements,
    ServiceNetworkConfig,
    check_overlap,
    find_gone,
    plan_services,
)
from kvedge.network.services.service_rules import Balanced, service_elements

log = logging.getLogger(__name__)


class ServiceNetwork:
    """One box's service network; used by one thread at a time."""

    def __init__(self, config: ServiceNetworkConfig) -> None:
        self._config = config
        # The rules that this process has put into each table: a table that was made anew since has another handle.
        self._put: tuple[int, Elements] | None = None
        self._ports: Sequence[Balanced] = ()

    def apply(self, ports: Iterable[Balanced]) -> bool:
        """Bring the kernel to these; whether anything had to be changed. May be repeated at any time.

        Raises:
            OverlapError: the host uses addresses of Services: nothing was changed.
            NetworkError: nothing or a part was changed; the next call sees to all of it.
        """
        ports = list(ports)
        wanted = service_elements(ports)
        rules = self._config.rules
        handle = table_handle(rules.family, rules.name)
        present = self._put[1] if self._put is not None and self._put[0] == handle and is_whole(rules) else None
        # Until it is done, nobody knows what is there.
        self._put = None
        with Links() as links:
            seen = _look(links, self._config.version)
            check_overlap(self._config, seen)
            steps = list(plan_services(self._config, seen, present, wanted))
            for step in steps:
                apply_step(links, step)
        handle = table_handle(rules.family, rules.name)
        self._put = None if handle is None else (handle, wanted)
        self._forget_flows(ports)
        return bool(steps)

    def _forget_flows(self, ports: Sequence[Balanced]) -> None:
        """After the kernel's maps: what comes from now on finds an endpoint that is there."""
        before, self._ports = self._ports, ports
        try:
            for front, gone in find_gone(before, ports).items():
                forget_flows(front, gone)
        except NetworkError as error:
            log.warning("clients of UDP stay where they were", extra={"facts": {"error": str(error)}})


class ServiceNetworks:
    """The service network of each version of IP that there is."""

    def __init__(self, configs: Iterable[ServiceNetworkConfig]) -> None:
        self._networks = {config.version: ServiceNetwork(config) for config in configs}

    def apply(self, ports: Iterable[Balanced]) -> bool:
        """As :meth:`ServiceNetwork.apply`, for each; what is in the way of one keeps the other from nothing."""
        whole, changed, errors = list(ports), False, list[NetworkError]()
        for version, network in self._networks.items():
            try:
                changed |= network.apply(each for each in whole if each.frontend.version == version)
            except NetworkError as error:
                errors.append(error)
        if errors:
            raise errors[0]
        return changed


def _look(links: Links, version: int) -> NodeSeen:
    return NodeSeen(
        links=tuple(links.list_links()),
        addresses=tuple(links.list_addresses()),
        routes=tuple(links.list_hops() if version == 4 else links.list_ipv6_routes()),
        ip_forward="",
        ipv6=False,
    )

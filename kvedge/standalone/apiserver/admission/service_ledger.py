"""Keeps the addresses and node ports of Services, gives new ones out, and lets nobody have what another one has.

Lives in the API server's event loop, as the cache does, and follows its changes. `ObjectWriter` takes right before it
commits: between taking and the end of the commit nobody else gets the same.
"""

from __future__ import annotations

import ipaddress
import random
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from typing import Final

from kvedge.resources.codec import JsonObject
from kvedge.resources.types.services import FIRST_NODE_PORT, LAST_NODE_PORT
from kvedge.runtime.address_ranges import address_ranges
from kvedge.standalone.apiserver.kinds.rules.service_families import (
    FAMILIES,
    NONE,
    REQUIRED,
    SINGLE,
    family_of,
    is_open,
)
from kvedge.standalone.apiserver.kinds.rules.service_rules import has_address, has_node_ports
from kvedge.standalone.apiserver.requests.request_context import RequestContext
from kvedge.standalone.apiserver.requests.write_rules import invalid as refused
from kvedge.standalone.apiserver.store.object_cache import ObjectCache
from kvedge.standalone.apiserver.store.stored import Change, ChangeType, ObjectKey
from kvedge.standalone.apiserver.wire.api_errors import ApiError
from kvedge.standalone.apiserver.wire.causes import forbidden, invalid

_SERVICES: Final = "services"
# A number of an address's family or of node ports: the same number of another kind is another thing.
_Number = tuple[str, int]
_PORT: Final = "node port"
_Network = ipaddress.IPv4Network | ipaddress.IPv6Network
# So often a number is drawn before all are tried in turn.
_DRAWS: Final = 16
# The lower end is for addresses that people name, as in Kubernetes; drawn ones come from there last.
_LEAST_NAMED, _MOST_NAMED = 16, 256


class ServiceLedger:
    """The owner of each address and each node port."""

    def __init__(
        self,
        cache: ObjectCache,
        cidr: str,
        draw: Callable[[int, int], int] = random.randint,
        listening: Callable[[], Collection[tuple[str, int]]] = frozenset,
        *,
        has_pool: bool = False,
    ) -> None:
        """`cidr` is a range, or one of each family with a comma between them; `listening` tells protocol and port of
        what the host's programs have: no such node port is drawn. `has_pool`: load balancers may ask for an address,
        which the networking service gives."""
        self._has_pool = has_pool
        self._listening = listening
        networks = [ipaddress.ip_network(each) for each in address_ranges(cidr).all]
        self._ranges: dict[str, _Network] = dict(zip(FAMILIES, networks, strict=False))
        self._draw = draw
        self._owners: dict[_Number, ObjectKey] = {}
        self._taken: dict[ObjectKey, frozenset[_Number]] = {}
        # Those that ask for an address of a pool.
        self._wishful: set[ObjectKey] = set()
        # Numbers that writes under way are about to take.
        self._pending: dict[_Number, ObjectKey] = {}
        for stored in cache.in_namespace(_SERVICES):
            self._note(stored.key, stored.load())
        cache.on_change(self._notice)

    @contextmanager
    def take(self, context: RequestContext, name: str, obj: JsonObject) -> Iterator[None]:
        """Give a Service what it lacks (`obj` is altered), and keep that for as long as the write is under way.

        Raises:
            Invalid: what it names belongs to another one, or lies outside of what there is.
            ApiError: there is no address or port left.
        """
        if context.kind.storage != _SERVICES or context.target.subresource:
            yield
            return
        key, spec, taken = context.key_of(name), obj.get("spec") or {}, list[_Number]()
        self._check_wish(context, key, spec)
        try:
            self._give_addresses(context, key, spec, taken)
            self._give_node_ports(context, key, spec, taken)
            yield
        finally:
            for number in taken:
                self._pending.pop(number, None)

    def _check_wish(self, context: RequestContext, key: ObjectKey, spec: JsonObject) -> None:
        # A Service that got its wish while there was a pool keeps it, and its other fields may be changed.
        if not spec.get("loadBalancerIP") or self._has_pool or key in self._wishful:
            return
        text = "on one box without the setting load-balancer-pool a load balancer is at the host's own address: "
        raise refused(context.kind, key.name, [forbidden("spec.loadBalancerIP", f"{text}leave it out, or set one")])

    def _give_addresses(self, context: RequestContext, key: ObjectKey, spec: JsonObject, taken: list[_Number]) -> None:
        if not has_address(spec):
            return
        wanted = spec.get("clusterIPs") or [each for each in (spec.get("clusterIP"),) if each]
        spec["ipFamilies"] = families = self._families(context, key, spec, wanted)
        if wanted[:1] == [NONE]:
            spec["clusterIPs"] = wanted
            return
        addresses = []
        for index, family in enumerate(families):
            if index < len(wanted):
                self._take_address(context, key, wanted, index, taken)
                addresses.append(wanted[index])
            elif family in self._ranges:
                addresses.append(self._draw_address(key, family, taken))
        spec["clusterIPs"], spec["clusterIP"] = addresses, addresses[0]

    def _families(self, context: RequestContext, key: ObjectKey, spec: JsonObject, addresses: list[str]) -> list[str]:
        """Of which families its addresses are, and are to be; fills in the policy."""
        families = list(spec.get("ipFamilies") or [])
        if not families and addresses[:1] != [NONE]:
            families = [family for family in map(family_of, addresses) if family is not None]
        if is_open(spec):
            policy = _policy_of(spec, REQUIRED)
            families = families or [FAMILIES[0]]
            return families if policy == SINGLE else [*families, *(each for each in FAMILIES if each not in families)]
        policy = _policy_of(spec, SINGLE)
        known, had = set(self._ranges), self._families_of(key)
        errors = [
            invalid(f"spec.ipFamilies[{index}]", family, "not configured on this cluster")
            for index, family in enumerate(families)
            if family not in known | had
        ]
        if policy == REQUIRED and len(known | had) < len(FAMILIES):
            text = "this cluster is not configured for dual-stack services"
            errors.insert(0, invalid("spec.ipFamilyPolicy", policy, text))
        if errors:
            raise refused(context.kind, key.name, errors)
        families = families or [FAMILIES[0]]
        more = () if policy == SINGLE else (each for each in FAMILIES if each in known and each not in families)
        return [*families, *more]

    def _families_of(self, key: ObjectKey) -> set[str]:
        """Those of the addresses that a Service has, maybe from a time of other settings: it may keep them."""
        return {kind for kind, _ in self._taken.get(key, ()) if kind != _PORT}

    def _take_address(
        self, context: RequestContext, key: ObjectKey, addresses: list[str], index: int, taken: list[_Number]
    ) -> None:
        wanted = addresses[index]
        number, known = _of_address(wanted), self._taken.get(key, frozenset())
        network = self._ranges.get(number[0])
        first, last = _whole_range(network) if network is not None else (1, 0)
        why = ""
        if number not in known and not first <= number[1] <= last:
            why = f"the provided IP ({wanted}) is not in the valid range. The range of valid IPs is {network}"
        elif not self._may_have(number, key):
            why = "provided IP is already allocated"
        if why:
            error = invalid("spec.clusterIPs", addresses, f"failed to allocate IP {wanted}: {why}")
            raise refused(context.kind, key.name, [error])
        self._take(number, key, taken)

    def _draw_address(self, key: ObjectKey, family: str, taken: list[_Number]) -> str:
        network = self._ranges[family]
        number = self._find_free(family, *_dynamic_range(network), taken) or self._find_free(
            family, *_whole_range(network), taken
        )
        if number is None:
            text = "Internal error occurred: failed to allocate a serviceIP: range is full"
            raise ApiError(500, "InternalError", text)
        self._take((family, number), key, taken)
        return str(network.network_address + (number - int(network.network_address)))

    def _give_node_ports(self, context: RequestContext, key: ObjectKey, spec: JsonObject, taken: list[_Number]) -> None:
        if not has_node_ports(spec):
            return
        ports = list(enumerate(spec.get("ports") or []))
        for index, port in ports:
            wanted = port.get("nodePort")
            if not wanted:
                continue
            why = ""
            if not FIRST_NODE_PORT <= wanted <= LAST_NODE_PORT:
                valid = f"{FIRST_NODE_PORT}-{LAST_NODE_PORT}"
                why = f"provided port is not in the valid range. The range of valid ports is {valid}"
            elif not self._may_have((_PORT, wanted), key):
                why = "provided port is already allocated"
            if why:
                raise refused(context.kind, key.name, [invalid(f"spec.ports[{index}].nodePort", wanted, why)])
            self._take((_PORT, wanted), key, taken)
        if spec.get("type") == "LoadBalancer" and spec.get("allocateLoadBalancerNodePorts") is False:
            return
        for _, port in ports:
            if not port.get("nodePort"):
                port["nodePort"] = self._node_port(key, port, ports, taken)

    def _node_port(
        self, key: ObjectKey, port: JsonObject, ports: list[tuple[int, JsonObject]], taken: list[_Number]
    ) -> int:
        # Two ports that differ in their protocol alone, as of a name server, are one at the node too.
        # A number that another port of this Service has for the same protocol is not shared.
        protocol = port.get("protocol") or "TCP"
        used = {each.get("nodePort") for _, each in ports if (each.get("protocol") or "TCP") == protocol}
        for _, each in ports:
            number = each.get("nodePort")
            if number and number not in used and each.get("port") == port.get("port"):
                return int(number)
        hosts = [(_PORT, number) for _, number in self._listening()]
        drawn = self._find_free(_PORT, FIRST_NODE_PORT, LAST_NODE_PORT, [*taken, *hosts])
        if drawn is None:
            text = "Internal error occurred: failed to allocate a nodePort: range is full"
            raise ApiError(500, "InternalError", text)
        self._take((_PORT, drawn), key, taken)
        return drawn

    def _find_free(self, kind: str, first: int, last: int, taken: list[_Number]) -> int | None:
        for _ in range(_DRAWS):
            number = self._draw(first, last)
            if self._is_free((kind, number), taken):
                return number
        return next((number for number in range(first, last + 1) if self._is_free((kind, number), taken)), None)

    def _is_free(self, number: _Number, taken: list[_Number]) -> bool:
        return number not in self._owners and number not in self._pending and number not in taken

    def _may_have(self, number: _Number, key: ObjectKey) -> bool:
        return self._owners.get(number, key) == key and self._pending.get(number, key) == key

    def _take(self, number: _Number, key: ObjectKey, taken: list[_Number]) -> None:
        if number not in self._pending:
            self._pending[number] = key
            taken.append(number)

    def _notice(self, change: Change) -> None:
        key = change.current.key
        if key.resource == _SERVICES:
            self._note(key, None if change.type is ChangeType.DELETED else change.current.load())

    def _note(self, key: ObjectKey, service: JsonObject | None) -> None:
        for number in self._taken.pop(key, frozenset()):
            if self._owners.get(number) == key:
                del self._owners[number]
        self._wishful.discard(key)
        if service is None:
            return
        if (service.get("spec") or {}).get("loadBalancerIP"):
            self._wishful.add(key)
        taken = frozenset(_numbers(service.get("spec") or {}))
        self._taken[key] = taken
        for number in taken:
            self._owners.setdefault(number, key)


def _whole_range(network: _Network) -> tuple[int, int]:
    return int(network.network_address) + 1, int(network.broadcast_address) - 1


def _dynamic_range(network: _Network) -> tuple[int, int]:
    first, last = _whole_range(network)
    named = min(max(_LEAST_NAMED, network.num_addresses // _LEAST_NAMED), _MOST_NAMED)
    return (first + named, last) if first + named <= last else (first, last)


def _policy_of(spec: JsonObject, policy: str) -> str:
    """The policy of a Service, this one where it has none."""
    if not spec.get("ipFamilyPolicy"):
        spec["ipFamilyPolicy"] = policy
    return str(spec["ipFamilyPolicy"])


def _of_address(text: str) -> _Number:
    address = ipaddress.ip_address(text)
    return FAMILIES[0] if address.version == 4 else FAMILIES[1], int(address)


def _numbers(spec: JsonObject) -> Iterator[_Number]:
    for address in {spec.get("clusterIP"), *(spec.get("clusterIPs") or [])} if has_address(spec) else ():
        # An earlier version may have stored anything; that must not keep the server from starting.
        with suppress(ValueError):
            yield _of_address(address)
    for port in spec.get("ports") or []:
        if port.get("nodePort"):
            yield _PORT, int(port["nodePort"])

"""Which address of the pool each Service of type LoadBalancer gets. Pure.

Called by the loop that puts packets on their way, on a box with a pool. The status of a Service is the record: what it
has there it keeps.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from ipaddress import ip_address
from typing import Final

from kvedge.kube.work_queue import Key
from kvedge.resources.types.services import IPV4, IPV6, Service
from kvedge.runtime.address_pool import AddressPool
from kvedge.standalone.networking.balancing_plan import LoadBalancer, age_of, is_load_balancer

# MetalLB's, under its present and its earlier name.
WISHES: Final = ("metallb.io/loadBalancerIPs", "metallb.universe.tf/loadBalancerIPs")
_FIELD: Final = "spec.loadBalancerIP"
_VERSIONS: Final = {IPV4: 4, IPV6: 6}
# A user's text is shown up to here.
_SHOWN: Final = 100


def plan_pool_balancers(
    services: Iterable[Service], pool: AddressPool, of_the_host: Collection[str]
) -> dict[Key, LoadBalancer]:
    """An address of each family that the Service and the pool have; `of_the_host` are those that go to nobody.

    A Service keeps the address that it has, even if others wish for it; then the older comes first. A wish that cannot
    be met is told, and the Service waits for it. A Service that finds an address of one family alone has that one.
    """
    plan = _Plan(pool, of_the_host)
    sorted_ones = sorted((item for item in services if is_load_balancer(item)), key=age_of)
    # The addresses in use are noted before any wish is looked at: a wish takes no address from another Service. All
    # wishes are met before the other Services draw.
    for service in sorted_ones:
        plan.note(service)
    open_ones = [(service, plan.meet(service)) for service in sorted_ones]
    for service, families in open_ones:
        plan.draw(service, families)
    return plan.found


class _Plan:
    """What is given so far."""

    def __init__(self, pool: AddressPool, of_the_host: Collection[str]) -> None:
        self._pool, self._of_the_host = pool, frozenset(of_the_host)
        self._owners: dict[str, Key] = {}
        # The address of each family that a Service has by now.
        self._held: dict[tuple[Key, str], str] = {}
        self._free = {family: self._addresses(version) for family, version in _VERSIONS.items()}
        self.found: dict[Key, LoadBalancer] = {}

    def note(self, service: Service) -> None:
        """A Service owns what its status has, one address of each of its families."""
        key = _key(service)
        has = [str(ip_address(each.ip)) for each in service.status.load_balancer.ingress if _version(each.ip)]
        for family in service.spec.addresses:
            held = next((each for each in has if _version(each) == _VERSIONS[family]), "")
            if held and not self._refusal(held, key):
                self._owners[held] = key
                self._held[key, family] = held

    def meet(self, service: Service) -> list[str]:
        """Give a Service what it wishes for, or else has; the families of which it is to draw one."""
        key, problem, families = _key(service), "", [*service.spec.addresses]
        usable = [family for family in families if self._pool.of_version(_VERSIONS[family])]
        if not families:
            problem = "it has no address of its own: delete it and make it anew"
        elif not usable:
            problem = f"load-balancer-pool has no {' or '.join(families)} address"
        wishes, wrong = _wishes(service, families)
        given, to_draw = list[str](), list[str]()
        for family in usable:
            wish, held = wishes.get(family, ""), self._held.get((key, family), "")
            why = self._refusal(wish, key) if wish else ""
            problem = problem or why
            if wish and held and wish != held:
                # A Service that wishes for another address has left this one, even if the wish is not met.
                del self._owners[held]
            if why:
                continue
            if wish or held:
                given.append(wish or held)
            elif not wrong:
                to_draw.append(family)
        self._owners.update(dict.fromkeys(given, key))
        unmet = next((wish for family, wish in wishes.items() if family not in usable), "")
        if unmet:
            problem = problem or f"{unmet} is not of load-balancer-pool"
        self.found[key] = LoadBalancer(tuple(given), problem or wrong)
        return to_draw

    def draw(self, service: Service, families: Iterable[str]) -> None:
        """Give a Service the lowest free address of each of these families."""
        key = _key(service)
        for family in families:
            drawn, known = next(self._free[family], ""), self.found[key]
            if drawn:
                self._owners[drawn] = key
                self.found[key] = LoadBalancer((*known.addresses, drawn), known.problem)
            else:
                text = f"all {family} addresses of load-balancer-pool are in use: delete a Service, or enlarge the pool"
                self.found[key] = LoadBalancer(known.addresses, known.problem or text)

    def _refusal(self, address: str, key: Key) -> str:
        if ip_address(address) not in self._pool:
            return f"{address} is not of load-balancer-pool"
        if address in self._of_the_host:
            return f"{address} is this host's own"
        owner = self._owners.get(address, key)
        return "" if owner == key else f"{address} belongs to service {owner}"

    def _addresses(self, version: int) -> Iterator[str]:
        """Those that nobody has by now, each once: the pool is walked through once, whatever the Services are."""
        for each in self._pool.of_version(version):
            for address in each.addresses():
                text = str(address)
                if text not in self._owners and text not in self._of_the_host:
                    yield text


def _wishes(service: Service, families: Collection[str]) -> tuple[dict[str, str], str]:
    """The address of each family that a Service asks for, and what is wrong with that."""
    asked = [(name, service.metadata.annotations.get(name, "")) for name in WISHES]
    asked = [(name, text) for name, text in [*asked, (_FIELD, service.spec.load_balancer_ip)] if text.strip()]
    if not asked:
        return {}, ""
    name, text = asked[0]
    if len(asked) > 1:
        return {}, f"{name} and {asked[1][0]} both ask for addresses: leave one out"
    found: dict[str, str] = {}
    for each in text.split(",", len(_VERSIONS)):
        version = _version(each.strip())
        family = IPV6 if version == 6 else IPV4
        if not version or family in found:
            return {}, f"{name} {text[:_SHOWN]!r} must be an address, or one of each family with a comma between them"
        if family not in families:
            return {}, f"{name} {each.strip()} is of {family}, which the Service is not: see spec.ipFamilies"
        found[family] = str(ip_address(each.strip()))
    return found, ""


def _version(text: str) -> int:
    """Of IP; 0 for what is no address, or one of a link alone."""
    try:
        return 0 if "%" in text else ip_address(text).version
    except ValueError:
        return 0


def _key(service: Service) -> Key:
    return Key(service.metadata.namespace, service.metadata.name)

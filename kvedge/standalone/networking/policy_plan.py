"""What NetworkPolicies say of each Pod: what may reach it, what may leave it. Pure.

Called by the loop that enforces them. What is stored may be of an earlier version: what cannot be understood of a
policy lets nothing pass.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network
from typing import Final

import msgspec
from msgspec import Struct, field

from kvedge.kube.work_queue import Key
from kvedge.network.address_plan import ipv6_address_beside
from kvedge.network.policies.address_ranges import (
    EVERYWHERE,
    Ranges,
    contains,
    join_ranges,
    number_of,
    range_of,
    without,
)
from kvedge.network.policies.policy_rules import LAST_PORT, PORTLESS, PROTOCOLS, PodTraffic, Traffic
from kvedge.network.policies.traffic_plan import Clause, WorkError, merge_clauses
from kvedge.resources.codec import JsonObject
from kvedge.resources.label_selectors import LabelSelector
from kvedge.resources.phases import FINAL_POD_PHASES
from kvedge.resources.types.core import Namespace, Pod
from kvedge.resources.types.network_policies import (
    EGRESS,
    INGRESS,
    NetworkPolicy,
    NetworkPolicyEgressRule,
    NetworkPolicyIngressRule,
    NetworkPolicyPeer,
    NetworkPolicyPort,
    NetworkPolicySpec,
)
from kvedge.standalone.apiserver.schema.selectors import label_selector_of
from kvedge.standalone.apiserver.wire.api_errors import ApiError

# How much work the policies of one namespace may make at each change, counted in Pods that are compared and ranges
# that are joined: it takes a tenth of a second. Policies of other namespaces are enforced in any case.
MOST_WORK: Final = 50_000
_TOO_MUCH: Final = (
    "the policies of this namespace are too many or too large for one box: less passes than they say; name Pods by "
    "labels that they share, and addresses by fewer ranges"
)

_Rule = NetworkPolicyIngressRule | NetworkPolicyEgressRule


class Policed(Struct, frozen=True):
    """What goes into the kernel; and for policies that are enforced in another way than they say, why."""

    pods: tuple[PodTraffic, ...]
    problems: Mapping[Key, str]


class Member(Struct, frozen=True):
    """A Pod on the Pod network, and the host's end of its pair."""

    pod: Pod
    port: str
    # Empty where there is none.
    ipv6_address: str = ""

    @classmethod
    def of(cls, pod: Pod, port: str, cidr: str, ipv6_cidr: str) -> Member:
        """One of :func:`members_of`. Where there is IPv6, its address follows from the other one: it is its alone."""
        return cls(pod, port, ipv6_address_beside(cidr, ipv6_cidr, pod.status.pod_ip) if ipv6_cidr else "")

    @property
    def address(self) -> str:
        """Of IPv4."""
        return self.pod.status.pod_ip

    @property
    def numbers(self) -> tuple[int, ...]:
        """All of its addresses, as ranges have them."""
        return tuple(number_of(each) for each in (self.address, self.ipv6_address) if each)


def has_changed(old: Pod | None, new: Pod | None) -> bool:
    """Whether anything of a Pod has changed that policies depend on."""
    return _facts(old) != _facts(new)


def _facts(pod: Pod | None) -> object:
    if pod is None or not pod.status.pod_ip:
        return None
    ports = [container.ports for container in pod.spec.containers]
    return pod.metadata.uid, pod.metadata.labels, pod.status.pod_ip, pod.status.phase in FINAL_POD_PHASES, ports


def policy_types(spec: NetworkPolicySpec) -> frozenset[str]:
    """The directions that a policy is about. A policy that names none is about ingress, and egress if it has rules for
    that.
    """
    return frozenset(spec.policy_types or ((INGRESS, EGRESS) if spec.egress else (INGRESS,)))


def members_of(pods: Iterable[Pod], cidr: str) -> list[Pod]:
    """The Pods that are on the Pod network now. Of two with one address the younger has it."""
    found: dict[str, Pod] = {}
    network = IPv4Network(cidr)
    for pod in sorted(pods, key=lambda pod: (pod.metadata.creation_timestamp or "", pod.metadata.uid)):
        is_member = not pod.spec.host_network and _is_within(pod.status.pod_ip, network)
        if is_member and pod.status.phase not in FINAL_POD_PHASES:
            found[pod.status.pod_ip] = pod
    return list(found.values())


def plan_policies(
    policies: Iterable[NetworkPolicy], namespaces: Iterable[Namespace], members: Sequence[Member]
) -> Policed:
    """What reaches and leaves each of these Pods."""
    plan = _Plan(members, {item.metadata.name: item.metadata.labels for item in namespaces})
    for policy in sorted(policies, key=_sort_by_age):
        plan.add(policy)
    return Policed(tuple(plan.traffic_of(member) for member in members), plan.problems)


class _Selected(Struct):
    """What is about one Pod so far: for each direction that is isolated, the rules, and the policies they are of."""

    rules: dict[str, list[_Compiled]] = field(default_factory=dict)
    policies: list[Key] = field(default_factory=list)


@dataclass(frozen=True, slots=True, eq=False)
class _Compiled:
    """A rule: which ports, and the addresses of its peers. No ports: all of them, and protocols without any."""

    ports: tuple[NetworkPolicyPort, ...]
    peers: Ranges


class _Plan:
    """What is planned so far."""

    def __init__(self, members: Sequence[Member], namespaces: Mapping[str, Mapping[str, str]]) -> None:
        self._members = members
        self._namespaces = namespaces
        self._in: dict[str, list[Member]] = {}
        for member in members:
            self._in.setdefault(member.pod.metadata.namespace, []).append(member)
        self._selected = {member.address: _Selected() for member in members}
        self._selectors: dict[tuple[str, bytes], tuple[Member, ...]] = {}
        self._merged: dict[tuple[tuple[int, int, int, int], ...], tuple[tuple[Clause, ...], Traffic]] = {}
        self._work: dict[str, int] = {}
        self.problems: dict[Key, str] = {}

    def add(self, policy: NetworkPolicy) -> None:
        """One policy. Where it cannot be afforded, all Pods of its namespace are cut off as far as it is about them."""
        key, spec = Key(policy.metadata.namespace, policy.metadata.name), policy.spec
        rules: dict[str, list[_Compiled]] = {each: [] for each in policy_types(spec)}
        chosen: Iterable[Member] = self._in.get(key.namespace, ())
        try:
            chosen = self._select(key.namespace, None, spec.pod_selector)
            for way, listed in ((INGRESS, spec.ingress), (EGRESS, spec.egress)):
                if way in rules:
                    rules[way] += [self._compile(key.namespace, rule) for rule in listed]
        except WorkError:
            self.problems[key] = _TOO_MUCH
        for member in chosen:
            selected = self._selected[member.address]
            selected.policies.append(key)
            for way, compiled in rules.items():
                selected.rules.setdefault(way, []).extend(compiled)

    def traffic_of(self, member: Member) -> PodTraffic:
        """All that the policies say of one Pod."""
        rules = self._selected[member.address].rules
        ingress, egress = (self._compile_traffic(member, way, rules.get(way)) for way in (INGRESS, EGRESS))
        return PodTraffic(member.address, member.port, ingress, egress, member.ipv6_address)

    def _compile_traffic(self, member: Member, way: str, rules: Sequence[_Compiled] | None) -> Traffic | None:
        if rules is None:
            return None
        namespace = member.pod.metadata.namespace
        try:
            clauses = tuple(clause for rule in rules for clause in self._clauses(member, way, rule))
            # By identity of the peers, which live as long as the clauses that are kept with it.
            key = tuple((each.protocol, each.first, each.last, id(each.peers)) for each in clauses)
            if key not in self._merged:
                left = self._work.get(namespace, MOST_WORK)
                # Until it is done: what fails has taken all of it.
                self._work[namespace] = 0
                traffic, self._work[namespace] = merge_clauses(clauses, left)
                self._merged[key] = (clauses, traffic)
        except WorkError:
            self.problems.update(dict.fromkeys(self._selected[member.address].policies, _TOO_MUCH))
            return ()
        return self._merged[key][1]

    def _clauses(self, member: Member, way: str, rule: _Compiled) -> list[Clause]:
        if not rule.ports:
            kinds = [(protocol, LAST_PORT) for protocol in PROTOCOLS.values()]
            return [Clause(protocol, 0, last, rule.peers) for protocol, last in (*kinds, (PORTLESS, 0))]
        namespace = member.pod.metadata.namespace
        self._spend(namespace, len(rule.ports))
        found: list[Clause] = []
        for port in rule.ports:
            protocol = PROTOCOLS.get(port.protocol)
            if protocol is None:
                continue
            match port.port:
                case None:
                    found.append(Clause(protocol, 0, LAST_PORT, rule.peers))
                case int(number):
                    found.append(Clause(protocol, number, port.end_port or number, rule.peers))
                case str(name) if way == INGRESS:
                    numbers = _find_port_numbers(member.pod, name, port.protocol)
                    found += [Clause(protocol, number, number, rule.peers) for number in numbers]
                case str(name):
                    found += self._find_named_ports(namespace, name, port.protocol, rule.peers)
        return found

    def _find_named_ports(self, namespace: str, name: str, protocol: str, peers: Ranges) -> list[Clause]:
        """A port by the name that it has at the other end: each Pod there has it at a number of its own."""
        self._spend(namespace, len(self._members))
        found: dict[int, list[int]] = {}
        for member in self._members:
            if own := [each for each in member.numbers if contains(peers, each)]:
                for number in _find_port_numbers(member.pod, name, protocol):
                    found.setdefault(number, []).extend(own)
        known = [(number, join_ranges((each, each) for each in at)) for number, at in found.items()]
        return [Clause(PROTOCOLS[protocol], number, number, at) for number, at in known]

    def _compile(self, namespace: str, rule: _Rule) -> _Compiled:
        if not rule.peers:
            return _Compiled(tuple(rule.ports), EVERYWHERE)
        self._spend(namespace, len(rule.peers))
        ranges = [each for peer in rule.peers for each in self._peer(namespace, peer)]
        return _Compiled(tuple(rule.ports), join_ranges(ranges))

    def _peer(self, namespace: str, peer: NetworkPolicyPeer) -> Ranges:
        if peer.ip_block is None:
            chosen = self._select(namespace, peer.namespace_selector, peer.pod_selector)
            return tuple((each, each) for member in chosen for each in member.numbers)
        self._spend(namespace, len(peer.ip_block.except_))
        try:
            holes = [range_of(each) for each in peer.ip_block.except_]
            return without(range_of(peer.ip_block.cidr), holes)
        except ValueError:
            return ()

    def _select(self, namespace: str, spaces: JsonObject | None, pods: JsonObject | None) -> tuple[Member, ...]:
        """The Pods whose labels fit, in the namespaces whose labels do; in the policy's own without a selector."""
        cached = (namespace if spaces is None else "", msgspec.json.encode((spaces, pods)))
        if cached not in self._selectors:
            self._spend(namespace, 1 + len(self._members if spaces is not None else self._in.get(namespace, ())))
            self._selectors[cached] = tuple(self._look(namespace, spaces, pods))
        return self._selectors[cached]

    def _look(self, namespace: str, spaces: JsonObject | None, pods: JsonObject | None) -> Iterable[Member]:
        wanted, within = _selector(pods), [namespace]
        if spaces is not None:
            fitting = _selector(spaces)
            within = [name for name in self._in if fitting and fitting.matches(self._namespaces.get(name, {}))]
        for name in within if wanted is not None else ():
            for member in self._in.get(name, ()):
                if wanted is not None and wanted.matches(member.pod.metadata.labels):
                    yield member

    def _spend(self, namespace: str, work: int) -> None:
        left = self._work.get(namespace, MOST_WORK) - work
        self._work[namespace] = max(left, 0)
        if left < 0:
            raise WorkError


def _selector(document: JsonObject | None) -> LabelSelector | None:
    """None for one that cannot be understood: nobody is meant by it."""
    try:
        return label_selector_of(document)
    except ApiError:
        return None


def _find_port_numbers(pod: Pod, name: str, protocol: str) -> list[int]:
    ports = (port for container in pod.spec.containers for port in container.ports)
    return [port.container_port for port in ports if port.name == name and port.protocol == protocol]


def _is_within(text: str, network: IPv4Network) -> bool:
    try:
        return ipaddress.IPv4Address(text) in network
    except ValueError:
        return False


def _sort_by_age(policy: NetworkPolicy) -> tuple[str, str, str]:
    meta = policy.metadata
    return meta.creation_timestamp or "", meta.namespace, meta.name

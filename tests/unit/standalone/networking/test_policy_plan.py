# Tests: kvedge/resources/types/network_policies.py
"""What is put into the kernel for NetworkPolicies, against a reading of them word by word."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvedge.kube.work_queue import Key
from kvedge.network.policies.policy_plan import plan_enforcing
from kvedge.network.policies.policy_rules import PROTOCOLS
from kvedge.resources.codec import decode
from kvedge.resources.types.core import Namespace, Pod
from kvedge.resources.types.network_policies import NetworkPolicy
from kvedge.standalone.networking.policy_plan import Member, Policed, has_changed, members_of, plan_policies
from tests.unit.network.policies.kernel_model import KernelModel

Document = dict[str, Any]
CIDR, IPV6_CIDR = "10.99.0.0/24", "fd00:99::/64"
OUTSIDE = ("192.0.2.1", "192.0.2.77", "198.51.100.9")
OUTSIDE_BY_IPV6 = ("2001:db8::1", "2001:db8:0:1::77", "2001:db9::9")
NAMESPACES: Mapping[str, Mapping[str, str]] = {"red": {"team": "red", "stage": "a"}, "blue": {"team": "blue"}}


def pod_document(
    number: int, namespace: str, labels: Mapping[str, str], ports: Mapping[str, int] | None = None
) -> Document:
    named = [
        {"name": name, "containerPort": port, "protocol": "UDP" if name == "names" else "TCP"}
        for name, port in (ports or {}).items()
    ]
    return {
        "metadata": {"name": f"p{number}", "namespace": namespace, "labels": dict(labels), "uid": f"u{number}"},
        "spec": {"containers": [{"name": "c", "ports": named}]},
        "status": {"podIP": f"10.99.0.{number}", "phase": "Running"},
    }


def policy_document(spec: Document, namespace: str = "red", name: str = "p") -> Document:
    return {"metadata": {"name": name, "namespace": namespace}, "spec": spec}


def planned(policies: list[Document], pods: list[Document]) -> Policed:
    found = members_of([decode(Pod, each) for each in pods], CIDR)
    members = [Member.of(pod, f"port-{pod.metadata.name}", CIDR, IPV6_CIDR) for pod in found]
    spaces = [decode(Namespace, {"metadata": {"name": name, "labels": labels}}) for name, labels in NAMESPACES.items()]
    return plan_policies([decode(NetworkPolicy, each) for each in policies], spaces, members)


def model(policies: list[Document], pods: list[Document]) -> KernelModel:
    return KernelModel(plan_enforcing(planned(policies, pods).pods, {}, ipv6=True))


def fits(selector: Document, labels: Mapping[str, str]) -> bool:
    """As the API's documentation has it."""
    if any(labels.get(key) != value for key, value in selector.get("matchLabels", {}).items()):
        return False
    for each in selector.get("matchExpressions", ()):
        key, values = each["key"], each.get("values", ())
        holds = {
            "In": labels.get(key) in values,
            "NotIn": labels.get(key) not in values,
            "Exists": key in labels,
            "DoesNotExist": key not in labels,
        }
        if not holds[each["operator"]]:
            return False
    return True


def is_peer(peer: Document, namespace: str, address: str, pod: Document | None) -> bool:
    if "ipBlock" in peer:
        block = peer["ipBlock"]
        ranges = [ipaddress.ip_network(each) for each in (block["cidr"], *block.get("except", ()))]
        inside = [ipaddress.ip_address(address) in each for each in ranges]
        return inside[0] and not any(inside[1:])
    if pod is None:
        return False
    space = pod["metadata"]["namespace"]
    in_space = fits(peer["namespaceSelector"], NAMESPACES[space]) if "namespaceSelector" in peer else space == namespace
    return in_space and fits(peer.get("podSelector", {}), pod["metadata"]["labels"])


def is_port(wanted: Document, target: Document | None, protocol: str, port: int) -> bool:
    if wanted.get("protocol", "TCP") != protocol:
        return False
    number = wanted.get("port")
    if isinstance(number, str):
        ports = target["spec"]["containers"][0]["ports"] if target is not None else []
        return any(
            each["name"] == number and each["protocol"] == protocol and each["containerPort"] == port for each in ports
        )
    return number is None or number <= port <= wanted.get("endPort", number)


def direction_allows(
    way: str, policies: list[Document], own: Document, peer: tuple[str, Document | None], protocol: str, port: int
) -> bool:
    selected = []
    for policy in policies:
        spec, namespace = policy["spec"], policy["metadata"]["namespace"]
        default = ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]
        if namespace != own["metadata"]["namespace"] or way not in (spec.get("policyTypes") or default):
            continue
        if fits(spec["podSelector"], own["metadata"]["labels"]):
            selected.append(policy)
    if not selected:
        return True
    target = own if way == "Ingress" else peer[1]
    for policy in selected:
        for rule in policy["spec"].get(way.lower(), ()):
            peers = rule.get("from" if way == "Ingress" else "to")
            by_peer = not peers or any(is_peer(each, policy["metadata"]["namespace"], *peer) for each in peers)
            ports = rule.get("ports")
            if by_peer and (not ports or any(is_port(each, target, protocol, port) for each in ports)):
                return True
    return False


def word_by_word(
    policies: list[Document], source: tuple[str, Document | None], target: tuple[str, Document | None], protocol: str,
    port: int,
) -> bool:  # fmt: skip
    leaves = source[1] is None or direction_allows("Egress", policies, source[1], target, protocol, port)
    return leaves and (target[1] is None or direction_allows("Ingress", policies, target[1], source, protocol, port))


LABELS = st.dictionaries(st.sampled_from(["app", "tier"]), st.sampled_from(["web", "db"]), max_size=2)
EXPRESSIONS = st.one_of(
    st.builds(
        lambda key, operator, values: {"key": key, "operator": operator, "values": values},
        st.sampled_from(["app", "team"]),
        st.sampled_from(["In", "NotIn"]),
        st.lists(st.sampled_from(["web", "db", "red"]), min_size=1, max_size=2, unique=True),
    ),
    st.builds(
        lambda key, operator: {"key": key, "operator": operator},
        st.sampled_from(["app", "stage"]),
        st.sampled_from(["Exists", "DoesNotExist"]),
    ),
)
SELECTORS = st.one_of(
    st.just({}),
    LABELS.map(lambda labels: {"matchLabels": labels}),
    st.lists(EXPRESSIONS, min_size=1, max_size=2).map(lambda each: {"matchExpressions": each}),
)
SPACES = st.one_of(
    st.just({}), st.just({"matchLabels": {"team": "blue"}}), EXPRESSIONS.map(lambda each: {"matchExpressions": [each]})
)
BLOCKS = st.sampled_from(
    [
        {"cidr": "0.0.0.0/0"},
        {"cidr": "0.0.0.0/0", "except": ["10.99.0.0/24"]},
        {"cidr": "192.0.2.0/24", "except": ["192.0.2.64/26"]},
        {"cidr": "10.99.0.2/31"},
        {"cidr": "255.0.0.0/8"},
        {"cidr": "::/0"},
        {"cidr": "::/0", "except": ["fd00:99::/64"]},
        {"cidr": "2001:db8::/32", "except": ["2001:db8:0:1::/64"]},
        {"cidr": "fd00:99::2/127"},
    ]
)
PEERS = st.one_of(
    SELECTORS.map(lambda each: {"podSelector": each}),
    SPACES.map(lambda each: {"namespaceSelector": each}),
    st.builds(lambda one, other: {"podSelector": one, "namespaceSelector": other}, SELECTORS, SPACES),
    BLOCKS.map(lambda each: {"ipBlock": each}),
)
PORTS = st.one_of(
    st.builds(
        lambda protocol, port: {"protocol": protocol, "port": port},
        st.sampled_from(["TCP", "UDP", "SCTP"]),
        st.sampled_from([80, 81, "web", "names"]),
    ),
    st.builds(lambda first, more: {"port": first, "endPort": first + more}, st.integers(79, 82), st.integers(0, 3)),
    st.just({"protocol": "UDP"}),
    st.just({}),
)


def rules(peers: str) -> st.SearchStrategy[list[Document]]:
    rule = st.fixed_dictionaries(
        {}, optional={peers: st.lists(PEERS, max_size=2), "ports": st.lists(PORTS, max_size=2)}
    )
    return st.lists(rule, max_size=2)


POLICIES = st.lists(
    st.builds(
        policy_document,
        st.fixed_dictionaries(
            {"podSelector": SELECTORS},
            optional={
                "ingress": rules("from"),
                "egress": rules("to"),
                "policyTypes": st.sampled_from([["Ingress"], ["Egress"], ["Ingress", "Egress"]]),
            },
        ),
        st.sampled_from(sorted(NAMESPACES)),
    ),
    max_size=4,
)
PODS = st.lists(
    st.tuples(
        st.sampled_from(sorted(NAMESPACES)),
        LABELS,
        st.dictionaries(st.sampled_from(["web", "names"]), st.sampled_from([80, 81]), max_size=2),
    ),
    min_size=1,
    max_size=4,
).map(lambda found: [pod_document(number, *each) for number, each in enumerate(found, start=2)])


def ends(pods: list[Document], version: int) -> Iterator[tuple[str, Document | None]]:
    own = [each["status"]["podIP"] for each in pods]
    at = own if version == 4 else [each.replace("10.99.0.", "fd00:99::") for each in own]
    yield from zip(at, pods, strict=True)
    yield from ((each, None) for each in (OUTSIDE if version == 4 else OUTSIDE_BY_IPV6))


@settings(max_examples=150)
@given(POLICIES, PODS, st.sampled_from([4, 6]))
def test_the_kernel_is_told_what_the_policies_say(policies: list[Document], pods: list[Document], version: int) -> None:
    kernel = model(policies, pods)
    for source in ends(pods, version):
        for target in ends(pods, version):
            if source[0] == target[0] or (source[1] is None and target[1] is None):
                continue
            for protocol, port in (("TCP", 80), ("TCP", 82), ("UDP", 81), ("SCTP", 80), ("ICMP", 0)):
                number = PROTOCOLS.get(protocol, 1)
                said = word_by_word(policies, source, target, protocol, port)
                leaves, reaches = source[1] is not None, target[1] is not None
                passes = kernel.passes(source[0], target[0], number, port, leaves=leaves, reaches=reaches)
                assert passes == said, (source[0], target[0], protocol, port)


def test_a_policy_without_types_is_about_what_comes_in_and_with_rules_for_egress_about_that_too() -> None:
    pods = [pod_document(2, "red", {})]
    for spec, leaves in (({"podSelector": {}}, True), ({"podSelector": {}, "egress": [{"ports": [{}]}]}, False)):
        kernel = model([policy_document(spec)], pods)
        assert not kernel.passes("192.0.2.1", "10.99.0.2", 6, 80, leaves=False)
        assert kernel.passes("10.99.0.2", "192.0.2.1", 1, 0, reaches=False) is leaves


def test_pods_that_have_ended_or_are_on_the_hosts_network_are_not_on_the_pod_network() -> None:
    pods = [pod_document(number, "red", {}) for number in range(2, 6)]
    pods[0]["status"]["phase"] = "Succeeded"
    pods[1]["spec"]["hostNetwork"] = True
    pods[2]["status"]["podIP"] = ""
    assert [each.address for each in planned([], pods).pods] == ["10.99.0.5"]


def test_a_pods_ipv6_address_goes_with_what_policies_say_of_it() -> None:
    deny = policy_document({"podSelector": {}, "policyTypes": ["Ingress", "Egress"]})
    (found,) = planned([deny], [pod_document(2, "red", {})]).pods
    assert (found.ipv6_address, found.ingress, found.egress) == ("fd00:99::2", (), ())


def test_of_two_pods_with_one_address_the_younger_has_it() -> None:
    pods = [pod_document(2, "red", {}), pod_document(2, "red", {})]
    for pod, name, made in zip(pods, ("new", "old"), ("2026-01-02T00:00:00Z", "2026-01-01T00:00:00Z"), strict=True):
        pod["metadata"] |= {"name": name, "creationTimestamp": made}
    assert [each.port for each in planned([], pods).pods] == ["port-new"]


def test_a_policy_that_is_too_large_lets_nothing_pass_and_says_so() -> None:
    pods = [pod_document(number, "red", {"number": str(number)}) for number in range(2, 200)]
    peers = [{"podSelector": {"matchLabels": {"number": str(number)}}} for number in range(5000)]
    large = policy_document({"podSelector": {"matchLabels": {"number": "2"}}, "ingress": [{"from": peers}]})
    pods.append(pod_document(201, "blue", {}))
    small = policy_document({"podSelector": {"matchLabels": {"number": "3"}}, "ingress": [{}]}, name="a")
    others = policy_document({"podSelector": {}, "ingress": [{}]}, namespace="blue")
    found = planned([large, small, others], pods)
    assert set(found.problems) == {Key("red", "p")}
    by_address = {each.address: each for each in found.pods}
    assert by_address["10.99.0.2"].ingress == ()
    assert by_address["10.99.0.4"].is_free
    # What another namespace asks for is its own affair.
    assert by_address["10.99.0.201"].ingress


def test_rules_whose_ports_overlap_without_end_cost_no_more_than_may_be() -> None:
    pods = [pod_document(number, "red", {}) for number in range(2, 60)]
    rules = [
        {"ports": [{"port": first, "endPort": 60_000}], "from": [{"ipBlock": {"cidr": f"10.{first % 256}.0.0/16"}}]}
        for first in range(1, 5000)
    ]
    found = planned([policy_document({"podSelector": {}, "ingress": rules})], pods)
    assert set(found.problems) == {Key("red", "p")}
    assert all(each.ingress == () for each in found.pods)


@pytest.mark.parametrize("field", ["podSelector", "namespaceSelector"])
def test_a_stored_selector_that_cannot_be_understood_selects_nobody(field: str) -> None:
    pods = [pod_document(2, "red", {}), pod_document(3, "red", {})]
    odd = {field: {"matchExpressions": [{"key": "a", "operator": "Odd"}]}}
    kernel = model([policy_document({"podSelector": {}, "ingress": [{"from": [odd]}]})], pods)
    assert not kernel.passes("10.99.0.3", "10.99.0.2", 6, 80)


def test_only_what_policies_depend_on_is_a_change_of_a_pod() -> None:
    before = decode(Pod, pod_document(2, "red", {"app": "web"}))
    same, other = pod_document(2, "red", {"app": "web"}), pod_document(2, "red", {"app": "db"})
    same["metadata"]["annotations"] = {"a": "b"}
    assert not has_changed(before, decode(Pod, same))
    assert has_changed(before, decode(Pod, other))
    assert has_changed(before, None)

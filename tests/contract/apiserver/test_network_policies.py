"""NetworkPolicies: the built-in kind, judged by a real kube-apiserver. What enforces them is no server's business."""

from __future__ import annotations

from typing import Any

import pytest

from kvedge.rpc import kubernetes_pb2 as k
from kvedge.standalone.apiserver.wire.media_types import PROTOBUF
from tests.contract.apiserver.test_protobuf_bodies import body
from tests.support.api_client import TABLE, ApiClient
from tests.support.protobuf_documents import filled

pytestmark = pytest.mark.contract

VERSION = "networking.k8s.io/v1"
_NO_CIDR = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"
_OUTSIDE = "must be a strict subset of `cidr`"


def policies(namespace: str, name: str = "") -> str:
    return f"/apis/{VERSION}/namespaces/{namespace}/networkpolicies{f'/{name}' if name else ''}"


def policy(name: str, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": spec}


def causes(admin: ApiClient, namespace: str, **spec: Any) -> list[tuple[str, str]]:
    """What is wrong with a policy: field and message of each cause."""
    answer = admin.post(policies(namespace), policy("wrong", **spec))
    assert answer.status == 422, answer.body
    return [(cause["field"], cause["message"]) for cause in answer.json["details"]["causes"]]


@pytest.mark.parametrize(
    ("spec", "filled_in"),
    [
        pytest.param({}, {"podSelector": {}, "policyTypes": ["Ingress"]}, id="nothing"),
        pytest.param(
            {"egress": [{}]},
            {"podSelector": {}, "egress": [{}], "policyTypes": ["Ingress", "Egress"]},
            id="rules for egress",
        ),
        pytest.param({"policyTypes": ["Egress"]}, {"podSelector": {}, "policyTypes": ["Egress"]}, id="egress alone"),
        pytest.param(
            {"ingress": [{"ports": [{"port": 80}, {}], "from": [{"podSelector": {}}]}]},
            {
                "podSelector": {},
                "ingress": [
                    {"ports": [{"protocol": "TCP", "port": 80}, {"protocol": "TCP"}], "from": [{"podSelector": {}}]}
                ],
                "policyTypes": ["Ingress"],
            },
            id="ports without a protocol",
        ),
    ],
)
def test_what_a_policy_leaves_out_is_filled_in(
    admin: ApiClient, namespace: str, spec: dict[str, Any], filled_in: dict[str, Any]
) -> None:
    made = admin.made(policies(namespace), policy("p", **spec))
    assert made["spec"] == filled_in
    assert made["metadata"]["generation"] == 1
    changed = admin.patch(policies(namespace, "p"), {"spec": {"podSelector": {"matchLabels": {"a": "b"}}}}).json
    assert changed["metadata"]["generation"] == 2
    assert admin.delete(policies(namespace, "p")).json["status"] == "Success"


def test_a_policy_is_taken_without_a_warning(admin: ApiClient, namespace: str) -> None:
    answer = admin.post(policies(namespace), policy("p"))
    assert answer.status == 201
    assert "Warning" not in answer.headers


def test_a_policy_without_a_spec_means_every_pod(admin: ApiClient, namespace: str) -> None:
    made = admin.made(policies(namespace), {"metadata": {"name": "p"}})
    assert made["spec"] == {"podSelector": {}, "policyTypes": ["Ingress"]}


def test_ports_are_checked(admin: ApiClient, namespace: str) -> None:
    ports = [
        {"port": 80, "endPort": 90},
        {"port": 0},
        {"port": "a--b"},
        {"port": "web", "endPort": 5},
        {"endPort": 7},
        {"port": 90, "endPort": 70000},
        {"port": 90, "endPort": 80},
        {"protocol": "ICMP"},
    ]
    at = "spec.ingress[0].ports"
    between = "must be between 1 and 65535, inclusive"
    assert causes(admin, namespace, ingress=[{"ports": ports}]) == [
        (f"{at}[1].port", f"Invalid value: 0: {between}"),
        (f"{at}[2].port", 'Invalid value: "a--b": must not contain consecutive hyphens'),
        (f"{at}[3].endPort", "Invalid value: 5: may not be specified when `port` is non-numeric"),
        (f"{at}[4].endPort", "Invalid value: 7: may not be specified when `port` is not specified"),
        (f"{at}[5].endPort", f"Invalid value: 70000: {between}"),
        # An older kube-apiserver shows the port here.
        (f"{at}[6].endPort", admin_shows(admin, namespace, ports[6])),
        (f"{at}[7].protocol", 'Unsupported value: "ICMP": supported values: "TCP", "UDP", "SCTP"'),
    ]


def admin_shows(admin: ApiClient, namespace: str, port: dict[str, int]) -> str:
    """The message about the end of a range: the value in it is the end, or in older servers the begin."""
    ((_, message),) = causes(admin, namespace, ingress=[{"ports": [port]}])
    assert message in {
        f"Invalid value: {value}: must be greater than or equal to `port`" for value in (port["port"], port["endPort"])
    }
    return message


@pytest.mark.parametrize(
    ("peer", "field", "message"),
    [
        ({}, "", "Required value: must specify a peer"),
        ({"ipBlock": {}}, ".ipBlock.cidr", "Required value"),
        ({"ipBlock": {"cidr": ""}}, ".ipBlock.cidr", "Required value"),
        (
            {"ipBlock": {"cidr": "10.0.0.0/8"}, "podSelector": {}},
            "",
            "Forbidden: may not specify both ipBlock and another peer",
        ),
        *(
            ({"ipBlock": {"cidr": text}}, ".ipBlock.cidr", f'Invalid value: "{text}": {message}')
            for text, message in (
                ("x", _NO_CIDR),
                ("10.0.0.0", _NO_CIDR),
                ("10.0.0.0/33", _NO_CIDR),
                ("10.0.0.0/255.0.0.0", _NO_CIDR),
                ("10.0.0/8", _NO_CIDR),
                ("/8", _NO_CIDR),
                ("fe80::%eth0/64", _NO_CIDR),
                ("010.0.0.0/8", "must not have leading 0s in IP or prefix length"),
                ("10.00.0.0/8", "must not have leading 0s in IP or prefix length"),
                ("10.0.0.0/08", "must not have leading 0s in IP or prefix length"),
                ("2001:db8::/064", "must not have leading 0s in IP or prefix length"),
                ("10.0.0.1/8", "must not have bits set beyond the prefix length"),
                ("2001:db8::1/64", "must not have bits set beyond the prefix length"),
                ("::ffff:1.2.3.0/120", "must not have an IPv4-mapped IPv6 address"),
            )
        ),
        *(
            (
                {"ipBlock": {"cidr": "10.0.0.0/8", "except": [text]}},
                ".ipBlock.except[0]",
                f'Invalid value: "{text}": {message}',
            )
            for text, message in (
                ("10.0.0.0/8", _OUTSIDE),
                ("11.0.0.0/16", _OUTSIDE),
                ("10.0.0.0/7", _OUTSIDE),
                ("::/0", _OUTSIDE),
                ("y", _NO_CIDR),
            )
        ),
    ],
)
def test_peers_are_checked(admin: ApiClient, namespace: str, peer: dict[str, Any], field: str, message: str) -> None:
    assert causes(admin, namespace, egress=[{}, {"to": [{"podSelector": {}}, peer]}]) == [
        (f"spec.egress[1].to[1]{field}", message)
    ]


@pytest.mark.parametrize(
    ("cidr", "inner"),
    [
        ("0.0.0.0/0", ["10.0.0.0/8", "192.168.1.1/32"]),
        ("::/0", ["2001:DB8::/32"]),
        ("2001:0db8::/32", []),
        ("1.0.0.0/8", []),
    ],
)
def test_ranges_that_make_sense_are_taken(admin: ApiClient, namespace: str, cidr: str, inner: list[str]) -> None:
    peer = {"ipBlock": {"cidr": cidr, **({"except": inner} if inner else {})}}
    made = admin.made(policies(namespace), policy("p", ingress=[{"from": [peer]}]))
    assert made["spec"]["ingress"] == [{"from": [peer]}]


def test_selectors_and_types_are_checked(admin: ApiClient, namespace: str) -> None:
    wrong = {"matchExpressions": [{"key": "a", "operator": "Has"}]}
    word = 'Invalid value: "Has": not a valid selector operator'
    found = causes(
        admin, namespace, podSelector=wrong, ingress=[{"from": [{"podSelector": wrong, "namespaceSelector": wrong}]}]
    )
    assert found == [
        (f"spec.{path}.matchExpressions[0].operator", word)
        for path in ("podSelector", "ingress[0].from[0].podSelector", "ingress[0].from[0].namespaceSelector")
    ]
    supported = 'supported values: "Ingress", "Egress"'
    assert causes(admin, namespace, policyTypes=["In", ""]) == [
        ("spec.policyTypes[0]", f'Unsupported value: "In": {supported}'),
        ("spec.policyTypes[1]", f'Unsupported value: "": {supported}'),
    ]
    assert causes(admin, namespace, policyTypes=["Ingress", "Egress", "Ingress"]) == [
        (
            "spec.policyTypes",
            'Invalid value: ["Ingress","Egress","Ingress"]: may not specify more than two policyTypes',
        )
    ]


def test_a_table_shows_whom_policies_choose(admin: ApiClient, namespace: str) -> None:
    chosen = {
        "matchLabels": {"z": "1", "b": "2"},
        "matchExpressions": [{"key": "a", "operator": "In", "values": ["y", "x"]}, {"key": "c", "operator": "Exists"}],
    }
    admin.made(policies(namespace), policy("a"))
    admin.made(policies(namespace), policy("b", podSelector=chosen))
    table = admin.get(policies(namespace), accept=TABLE).json
    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Pod-Selector", "Age"]
    assert [row["cells"][:2] for row in table["rows"]] == [["a", "<none>"], ["b", "a in (x,y),b=2,c,z=1"]]


def test_a_policy_in_protobuf_is_the_same_as_in_json(admin: ApiClient, namespace: str) -> None:
    spec = {
        "podSelector": {"matchLabels": {"a": "b"}},
        "ingress": [
            {
                "ports": [{"protocol": "UDP", "port": 53, "endPort": 60}, {"protocol": "TCP", "port": "web"}],
                "from": [{"podSelector": {}, "namespaceSelector": {"matchLabels": {"n": "m"}}}],
            }
        ],
        "egress": [{"to": [{"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16"]}}]}],
        "policyTypes": ["Ingress", "Egress"],
    }
    message = filled(k.NetworkPolicy(), {"metadata": {"name": "p"}, "spec": spec})
    sent = body(message.SerializeToString(), "NetworkPolicy", VERSION)
    made = admin.ask("POST", policies(namespace), sent, PROTOBUF)
    assert made.status == 201, made.message
    assert made.json["spec"] == spec

"""Numbers that no honest client sends: in every numeric field of every built-in kind, and in every query.

Whatever a server thinks of a number, it answers, and shows and removes what it has taken. Both servers are asked, so
that what one takes and the other does not is seen here first.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

import pytest

from kvedge.resources.codec import JsonObject
from kvedge.resources.types.protection.volume_snapshots import VOLUME_SNAPSHOT_GROUP
from kvedge.standalone.apiserver.kinds.built_in import BUILT_IN
from kvedge.standalone.apiserver.kinds.served_kinds import ServedKind
from kvedge.standalone.apiserver.kinds.types.builtin_schemas import schema_of
from tests.contract.apiserver.conftest import Server
from tests.support.api_client import TABLE, Answer, ApiClient
from tests.support.widgets import config_map, config_maps, pod, pods, widget, widgets

pytestmark = pytest.mark.contract

# As they stand in the text of a request: Python's own encoder writes neither 1e400 nor 5,000 digits.
EXTREMES: Final = (
    "-1", str(2**31), str(2**53 + 1), str(2**62), str(2**63 - 1), str(2**63), str(-(2**63)), str(-(2**63) - 1),
    str(2**64), "0.5", "-0", "1e18", "1e308", "1e400", "9" * 400, "9" * 5000,
)  # fmt: skip
AS_TEXT: Final = ('"9223372036854775807E"', '"-1"', '"1e999"', '"0.0000000000000000001n"', f'"{"9" * 5000}"', '"²"')
QUERIES: Final = ("-1", "²", "1e3", "0.5", " 1", "1_0", "0x10", str(2**62), str(2**63 - 1), str(2**63), "9" * 5000)
_MARK: Final = '"\\u0000number\\u0000"'
# What a kind needs so that a number is looked at, instead of what else is missing.
_BASES: Final[dict[str, JsonObject]] = {
    "Pod": pod("p"),
    "Service": {"spec": {"ports": [{"port": 80}]}},
    "PersistentVolumeClaim": {
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    },
    "PersistentVolume": {
        "spec": {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "hostPath": {"path": "/x"}}
    },
    "Endpoints": {"subsets": [{"addresses": [{"ip": "10.1.1.1"}], "ports": [{"port": 80}]}]},
    "EndpointSlice": {"addressType": "IPv4", "endpoints": [{"addresses": ["10.1.1.1"]}], "ports": [{"port": 80}]},
    "Lease": {"spec": {"holderIdentity": "a", "leaseDurationSeconds": 10}},
    "LimitRange": {"spec": {"limits": [{"type": "Container"}]}},
    "ControllerRevision": {"revision": 1, "data": {}},
    "StorageClass": {"provisioner": "example.com/p"},
    "PriorityClass": {"value": 1},
    "NetworkPolicy": {"spec": {"ingress": [{"ports": [{"port": 80}]}]}},
    "PodDisruptionBudget": {"spec": {"selector": {"matchLabels": {"a": "b"}}}},
}


def numbers_in(schema: JsonObject, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], str]]:
    """Where numbers may stand, and as what: `integer`, `number`, `either` (a number or a text)."""
    if schema.get("type") in ("integer", "number"):
        yield path, str(schema["type"])
    elif schema.get("x-kubernetes-int-or-string") or "anyOf" in schema:
        yield path, "either"
    for name, inner in (schema.get("properties") or {}).items():
        if name != "managedFields":
            yield from numbers_in(inner, (*path, name))
    if "items" in schema:
        yield from numbers_in(schema["items"], (*path, "[]"))
    if isinstance(schema.get("additionalProperties"), dict):
        yield from numbers_in(schema["additionalProperties"], (*path, "cpu"))


def has_numbers(kind: ServedKind) -> bool:
    return any(numbers_in(schema_of(kind.group, kind.kind) or {}))


_MAKES: Final = tuple(kind for kind in BUILT_IN if {"create", "delete"} <= set(kind.verbs) and has_numbers(kind))


def placed(value: Any, path: tuple[str, ...]) -> Any:
    """A document with the mark at a path, and what it had beside it."""
    if not path:
        return json.loads(_MARK)
    if path[0] == "[]":
        first, *others = value if isinstance(value, list) and value else [{}]
        return [placed(first, path[1:]), *others]
    value = value if isinstance(value, dict) else {}
    return {**value, path[0]: placed(value.get(path[0]), path[1:])}


def collection(kind: ServedKind, namespace: str) -> str:
    root = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
    return f"{root}/namespaces/{namespace}/{kind.plural}" if kind.namespaced else f"{root}/{kind.plural}"


def is_an_answer(answer: Answer, said: str) -> None:
    """No failure of the server's own; a refusal says what is wrong."""
    assert answer.status < 500, (said[:200], answer.status, answer.body[:300])
    if answer.status >= 400:
        assert answer.message, said[:200]
        assert len(answer.body) < 64 << 10, said[:200]


@pytest.mark.parametrize("kind", _MAKES, ids=lambda kind: kind.qualified)
def test_every_number_in_a_kind_may_be_anything(api_server: Server, namespace: str, kind: ServedKind) -> None:
    admin, path = api_server.admin, collection(kind, namespace)
    if api_server.is_real and kind.group == VOLUME_SNAPSHOT_GROUP:
        pytest.skip("a kube-apiserver has this kind from an add-on")
    for where, form in numbers_in(schema_of(kind.group, kind.kind) or {}):
        for number in (*EXTREMES, *(AS_TEXT if form == "either" else ())):
            document = placed(_BASES.get(kind.kind, {}), where)
            document = {**document, "apiVersion": kind.api_version, "kind": kind.kind}
            document["metadata"] = {**(document.get("metadata") or {}), "generateName": "n-"}
            body = json.dumps(document).replace(_MARK, number).encode()
            said = f"{'.'.join(where)} = {number[:30]}"
            made = admin.ask("POST", path, body)
            is_an_answer(made, said)
            if made.status == 201:
                one = f"{path}/{made.json['metadata']['name']}"
                is_an_answer(admin.get(one, accept=TABLE), said)
                is_an_answer(admin.delete(one, {"gracePeriodSeconds": 0}), said)
                left = admin.get(one)
                # Namespaces and volumes wait for somebody who takes their finalizers away.
                assert left.status == 404 or left.json["metadata"]["deletionTimestamp"], said


@pytest.mark.parametrize(
    "where", ["spec.size", "spec.replicas", "spec.parts.[].weight", "spec.free.any", "status.replicas"]
)
def test_every_number_in_a_custom_object_may_be_anything(admin: ApiClient, namespace: str, where: str) -> None:
    for number in EXTREMES:
        document = placed(widget("n", parts=[{"name": "a"}]), tuple(where.split(".")))
        body = json.dumps(document).replace(_MARK, number).encode()
        made = admin.ask("POST", widgets(namespace), body)
        is_an_answer(made, f"{where} = {number[:30]}")
        if made.status == 201:
            is_an_answer(admin.get(widgets(namespace, "n"), accept=TABLE), number)
            assert admin.delete(widgets(namespace, "n")).status == 200


@pytest.mark.parametrize("name", ["limit", "timeoutSeconds", "resourceVersion", "continue"])
@pytest.mark.parametrize("text", QUERIES, ids=lambda text: text[:20])
def test_every_number_in_the_query_of_a_list_may_be_anything(
    admin: ApiClient, namespace: str, name: str, text: str
) -> None:
    answer = admin.get(config_maps(namespace), **{name: text})
    # A revision of the future is waited for, and then it timed out.
    assert answer.status < 500 or answer.status == 504, answer.body


@pytest.mark.parametrize("name", ["tailLines", "limitBytes", "sinceSeconds", "sinceTime", "follow"])
@pytest.mark.parametrize("text", QUERIES, ids=lambda text: text[:20])
def test_every_number_in_the_query_of_a_log_may_be_anything(embedded_server: Server, name: str, text: str) -> None:
    admin = embedded_server.admin
    admin.post(pods("default"), pod("logged", nodeName="nowhere"))
    is_an_answer(admin.get(f"{pods('default', 'logged')}/log", accept="*/*", **{name: text}), text)


@pytest.mark.parametrize("text", QUERIES, ids=lambda text: text[:20])
def test_a_grace_period_in_a_query_may_be_anything(admin: ApiClient, namespace: str, text: str) -> None:
    admin.made(config_maps(namespace), config_map("a"))
    is_an_answer(admin.delete(config_maps(namespace, "a"), gracePeriodSeconds=text), text)


@pytest.mark.parametrize("number", EXTREMES, ids=lambda text: text[:20])
def test_a_grace_period_in_a_body_may_be_anything(admin: ApiClient, namespace: str, number: str) -> None:
    admin.made(pods(namespace), pod("p", nodeName="n1"))
    body = f'{{"gracePeriodSeconds": {number}}}'.encode()
    is_an_answer(admin.ask("DELETE", pods(namespace, "p"), body), number)
    assert admin.delete(pods(namespace, "p"), {"gracePeriodSeconds": 0}).status in (200, 404)


@pytest.mark.parametrize("seconds", [2**31, 2**62, 2**63 - 1])
def test_a_pod_that_may_take_for_ever_is_marked_and_can_be_ended(
    admin: ApiClient, namespace: str, seconds: int
) -> None:
    admin.made(pods(namespace), pod("p", nodeName="n1", terminationGracePeriodSeconds=seconds))
    marked = admin.delete(pods(namespace, "p")).json
    assert marked["metadata"]["deletionGracePeriodSeconds"] == seconds
    assert marked["metadata"]["deletionTimestamp"]
    assert admin.get(pods(namespace, "p")).json["metadata"]["deletionTimestamp"]
    admin.delete(pods(namespace, "p"), {"gracePeriodSeconds": 0})
    assert admin.get(pods(namespace, "p")).status == 404

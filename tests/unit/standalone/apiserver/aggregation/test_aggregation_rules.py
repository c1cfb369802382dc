"""Which requests another server answers, and what it is told."""

from __future__ import annotations

from typing import Any

import pytest

from kvedge.standalone.apiserver.aggregation.aggregation_rules import (
    available_condition,
    choose_forwarded_headers,
    choose_returned_headers,
    merge_groups,
    read_api_service,
)
from kvedge.standalone.apiserver.requests.request_context import Caller


def api_service(group: str = "g.example.com", version: str = "v1", **spec: Any) -> dict[str, Any]:
    """An APIService."""
    return {
        "metadata": {"name": f"{version}.{group}"},
        "spec": {
            "group": group,
            "version": version,
            "groupPriorityMinimum": 1000,
            "versionPriority": 15,
            "service": {"namespace": "n", "name": "s"},
            **spec,
        },
    }


def test_an_api_service_names_who_answers() -> None:
    api = read_api_service(api_service(caBundle="x"))
    assert api is not None
    assert (api.name, api.group, api.version) == ("v1.g.example.com", "g.example.com", "v1")
    assert (api.namespace, api.service, api.port, api.ca_bundle, api.insecure) == ("n", "s", 443, "x", False)


def test_an_api_service_without_a_service_is_answered_here() -> None:
    assert read_api_service(api_service(service=None)) is None


def test_a_client_cannot_say_who_it_is() -> None:
    headers = [
        ("Accept", "application/json"),
        ("X-Remote-User", "root"),
        ("x-remote-group", "system:masters"),
        ("X-REMOTE-EXTRA-scopes", "all"),
        ("Impersonate-User", "root"),
        ("Authorization", "Bearer x"),
        ("X-Forwarded-For", "1.2.3.4"),
        ("Connection", "keep-alive"),
        ("Transfer-Encoding", "chunked"),
        ("Host", "box"),
        ("Content-Length", "12"),
        ("Sec-WebSocket-Key", "k"),
    ]
    caller = Caller("joe", ("one", "two"), extra={"node": ("n1",)})
    assert choose_forwarded_headers(headers, caller) == [
        ("Accept", "application/json"),
        ("Sec-WebSocket-Key", "k"),
        ("X-Remote-User", "joe"),
        ("X-Remote-Group", "one"),
        ("X-Remote-Group", "two"),
        ("X-Remote-Extra-node", "n1"),
    ]


@pytest.mark.parametrize(
    "caller",
    [
        Caller("joe\r\nX-Remote-Group: system:masters"),
        Caller("joe", ("a\nX-Remote-Group: system:masters",)),
        Caller("joe", (), "", {"k": ("v\r\nX-Remote-Group: system:masters",)}),
        Caller("joe\0"),
    ],
)
def test_a_name_cannot_begin_a_header_of_its_own(caller: Caller) -> None:
    with pytest.raises(ValueError, match="no header can carry"):
        choose_forwarded_headers([], caller)


def test_a_key_that_no_header_can_have_is_escaped() -> None:
    caller = Caller("joe", (), "", {"example.org/a\r\nX-Remote-Group: b": ("v",)})
    assert choose_forwarded_headers([], caller) == [
        ("X-Remote-User", "joe"),
        ("X-Remote-Extra-example.org%2Fa%0D%0AX-Remote-Group%3A%20b", "v"),
    ]


def test_answers_lose_what_belongs_to_the_connection_only() -> None:
    headers = [("Content-Type", "text/plain"), ("Connection", "close"), ("Keep-Alive", "5"), ("X-Own", "y")]
    assert choose_returned_headers(headers) == [("Content-Type", "text/plain"), ("X-Own", "y")]


def test_the_time_of_a_condition_moves_with_its_status() -> None:
    up = available_condition(True, "Passed", "ok", None, "t1")
    assert available_condition(True, "Passed", "ok", up, "t2") == up
    down = available_condition(False, "Gone", "no", up, "t2")
    assert (down["status"], down["lastTransitionTime"]) == ("False", "t2")


def test_groups_of_other_servers_stand_beside_ours_the_most_important_first() -> None:
    apis = [
        read_api_service(api_service("b.example.com", "v1", versionPriority=10)),
        read_api_service(api_service("b.example.com", "v2", versionPriority=20)),
        read_api_service(api_service("a.example.com", "v1", groupPriorityMinimum=2000)),
        read_api_service(api_service("own.example.com", "v9")),
    ]
    merged = merge_groups({"own.example.com": ["v1"]}, [api for api in apis if api is not None])
    assert merged == {"own.example.com": ["v1", "v9"], "a.example.com": ["v1"], "b.example.com": ["v2", "v1"]}

"""Whom an aggregated request speaks for, and who is not believed."""

from __future__ import annotations

import json

import pytest

from kvedge.api.access_reviews import is_allowed
from kvedge.api.subresources.caller_rules import Asked, access_review
from kvedge.api.subresources.front_proxy_rules import FrontProxyError, caller_of, front_proxy_of
from kvedge.resources.role_users import UserInfo

DATA = {
    "requestheader-client-ca-file": "PEM",
    "requestheader-allowed-names": '["front-proxy-client"]',
    "requestheader-username-headers": '["X-Remote-User"]',
    "requestheader-group-headers": '["X-Remote-Group"]',
    "requestheader-extra-headers-prefix": '["X-Remote-Extra-"]',
}
PROXY = front_proxy_of(DATA)
HEADERS = [
    ("x-remote-user", "alice"),
    ("X-Remote-Group", "devs"),
    ("X-Remote-Group", "system:authenticated"),
    ("X-Remote-Extra-Scopes%2Fkind", "view"),
    ("Authorization", "Bearer x"),
]


def test_the_front_proxy_speaks_for_users() -> None:
    user = caller_of(PROXY, "front-proxy-client", HEADERS)
    assert user == UserInfo("alice", ("devs", "system:authenticated"), "", {"scopes/kind": ["view"]})


@pytest.mark.parametrize("peer", ["", "kubelet", "front-proxy-client2", "system:admin"])
def test_nobody_else_does_even_with_a_certificate_of_the_same_authority(peer: str) -> None:
    assert caller_of(PROXY, peer, HEADERS) is None


def test_without_a_list_every_name_of_the_authority_will_do_but_not_none() -> None:
    anyone = front_proxy_of({**DATA, "requestheader-allowed-names": "[]"})
    assert caller_of(anyone, "any", HEADERS) is not None
    assert caller_of(anyone, "", HEADERS) is None


@pytest.mark.parametrize("headers", [[], [("X-Remote-User", "")], [("X-Remote-Group", "devs")]])
def test_without_a_name_nobody_is_spoken_for(headers: list[tuple[str, str]]) -> None:
    assert caller_of(PROXY, "front-proxy-client", headers) is None


@pytest.mark.parametrize("bad", ["", "front-proxy-client", '{"a": 1}', "[1]"])
def test_a_list_that_cannot_be_read_is_an_error_and_not_an_open_door(bad: str) -> None:
    with pytest.raises(FrontProxyError):
        front_proxy_of({**DATA, "requestheader-allowed-names": bad})


def test_a_server_without_front_proxy_is_told_what_is_missing() -> None:
    with pytest.raises(FrontProxyError, match="--requestheader-client-ca-file"):
        front_proxy_of({})


def test_the_exact_subresource_is_asked_for() -> None:
    asked = Asked("GET", "v1", "default", "virtualmachineinstances/vnc/screenshot", "web")
    review = access_review(UserInfo("alice", ("devs",), "", {"a": ["b"]}), asked)
    assert review["spec"] == {
        "user": "alice",
        "groups": ["devs"],
        "extra": {"a": ["b"]},
        "resourceAttributes": {
            "namespace": "default",
            "verb": "get",
            "group": "subresources.kubevirt.io",
            "version": "v1",
            "resource": "virtualmachineinstances",
            "subresource": "vnc/screenshot",
            "name": "web",
        },
    }


@pytest.mark.parametrize(
    ("status", "allowed"),
    [
        ({"allowed": True}, True),
        ({"allowed": False}, False),
        ({"allowed": True, "denied": True}, False),
        ({"allowed": "true"}, False),
        ({}, False),
        (None, False),
    ],
)
def test_only_a_clear_yes_is_a_yes(status: object, allowed: bool) -> None:
    assert is_allowed(json.loads(json.dumps({"status": status}))) is allowed

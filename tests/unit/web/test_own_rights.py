"""What a page may offer: by the list of the user's rules where it is whole, by single questions where it is not."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kvedge.kube.errors import Forbidden, Unavailable
from kvedge.resources.codec import JsonObject
from kvedge.web.own_rights import _ACTS, read_rights

_RULES = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"
_SUBRESOURCES = "subresources.kubevirt.io"


class PlayedServer:
    """Allows what it is told to, lists such rules, or does not answer; `asked` counts single questions."""

    def __init__(self, allowed: set[tuple[str, str, str]] | None, listed: JsonObject | None = None) -> None:
        self.allowed = allowed
        self.listed = listed
        self.asked = 0
        # Lists rules, and answers no single question.
        self.is_busy = False

    def hurry(self, seconds: float) -> PlayedServer:
        return self

    def request(self, method: str, path: str, body: Any) -> Any:
        if self.allowed is None:
            raise Unavailable(0, "", "no answer")
        if path == _RULES:
            assert body["spec"] == {"namespace": "shop"}
            if self.listed is None:
                raise Forbidden(403, "Forbidden", "not you")
            return {"status": self.listed}
        self.asked += 1
        if self.is_busy:
            raise Unavailable(429, "TooManyRequests", "too many requests")
        asked = body["spec"]["resourceAttributes"]
        assert asked["namespace"] == "shop"
        return {"status": {"allowed": (asked["verb"], asked["resource"], asked["subresource"]) in self.allowed}}


def rights(server: PlayedServer) -> list[str]:
    session: Any = SimpleNamespace(client=server)
    return [act for act, may in read_rights(session, "shop").items() if may]


def rule(group: str, resource: str, *verbs: str, **more: Any) -> JsonObject:
    return {"apiGroups": [group], "resources": [resource], "verbs": list(verbs), **more}


def whole(*rules: JsonObject) -> JsonObject:
    return {"resourceRules": list(rules), "nonResourceRules": [], "incomplete": False}


def test_a_list_that_is_whole_answers_for_all_acts() -> None:
    listed = whole(
        rule("kubevirt.io", "virtualmachines", "get", "update"),
        rule(_SUBRESOURCES, "virtualmachines/migrate", "update"),
        rule(_SUBRESOURCES, "*/spice", "get"),
        rule("snapshot.kubevirt.io", "*", "list"),
    )
    server = PlayedServer(set(), listed)
    assert rights(server) == ["edit", "snapshots", "migrate", "spice"]
    assert server.asked == 1


def test_an_administrator_costs_one_question() -> None:
    server = PlayedServer(set(), whole(rule("*", "*", "*")))
    assert rights(server) == list(_ACTS)
    assert server.asked == 0


def test_who_may_do_all_by_no_rule_may_do_all() -> None:
    assert rights(PlayedServer({("*", "*", "")}, whole())) == list(_ACTS)


def test_a_question_that_nobody_answers_does_not_overrule_a_list_that_is_whole() -> None:
    server = PlayedServer(set(), whole(rule("kubevirt.io", "virtualmachines", "update")))
    server.is_busy = True
    assert rights(server) == ["edit"]
    assert server.asked == 1


@pytest.mark.parametrize(
    "almost",
    [
        pytest.param(rule("kubevirt.io", "virtualmachines", "update", resourceNames=["one"]), id="of-one-name"),
        pytest.param(rule("other.io", "virtualmachines", "update"), id="of-another-group"),
        pytest.param(rule("kubevirt.io", "virtualmachines/status", "update"), id="of-a-part"),
        pytest.param(rule("kubevirt.io", "*/virtualmachines", "update"), id="of-parts-called-so"),
        pytest.param(rule("kubevirt.io", "virtualmachines", "patch"), id="of-another-verb"),
        pytest.param({"verbs": None, "resources": ["*"]}, id="without-groups"),
    ],
)
def test_a_rule_of_something_else_permits_nothing(almost: JsonObject) -> None:
    assert rights(PlayedServer(set(), whole(almost))) == []


@pytest.mark.parametrize(
    "listed",
    [
        pytest.param(None, id="refused"),
        pytest.param({**whole(rule("*", "*", "*")), "incomplete": True}, id="incomplete"),
        pytest.param({**whole(rule("*", "*", "*")), "evaluationError": "a webhook"}, id="with-an-error"),
        pytest.param({"resourceRules": [rule("*", "*", "*")]}, id="says-nothing-of-being-whole"),
    ],
)
def test_where_the_list_is_not_whole_each_act_is_asked_for_by_itself(listed: JsonObject | None) -> None:
    server = PlayedServer({("update", "virtualmachines", ""), ("update", "virtualmachines", "migrate")}, listed)
    assert rights(server) == ["edit", "migrate"]
    assert server.asked == len(_ACTS)


def test_what_nobody_tells_is_offered_as_the_server_judges_it() -> None:
    assert rights(PlayedServer(None)) == list(_ACTS)

"""Who a caller is, and whom they may act as."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime

import pytest
from multidict import CIMultiDict, CIMultiDictProxy

from kvedge.resources.manifests.policy_rules import PolicyRule
from kvedge.standalone.apiserver.access.authorizer_rules import AUTHENTICATED, Authorizer
from kvedge.standalone.apiserver.access.identity import caller_of_certificate, has_ended, impersonate
from kvedge.standalone.apiserver.requests.request_context import Caller
from kvedge.standalone.apiserver.wire.api_errors import BadRequest, Forbidden, Unauthorized


class Given:
    """Rules that callers have, by user name."""

    def __init__(self, rules: Mapping[str, tuple[PolicyRule, ...]]) -> None:
        self._rules = rules

    def rules_of(self, caller: Caller, namespace: str) -> Iterator[PolicyRule]:
        return iter(self._rules.get(caller.user, ()))


RULES = {
    "deputy": (PolicyRule(("impersonate",), ("",), ("users",), ("joe", "system:anonymous")),),
    "head": (
        PolicyRule(("impersonate",), ("",), ("users",)),
        PolicyRule(("impersonate",), ("",), ("groups",), ("friends",)),
        PolicyRule(("impersonate",), ("",), ("serviceaccounts",), ("robot",)),
        PolicyRule(("impersonate",), ("authentication.k8s.io",), ("userextras/scopes",), ("view",)),
    ),
}
AUTHORIZER = Authorizer(lambda *where: None, Given(RULES))


def headers(*pairs: tuple[str, str]) -> CIMultiDictProxy[str]:
    return CIMultiDictProxy(CIMultiDict(pairs))


def test_a_certificate_names_a_user_and_groups() -> None:
    subject = ((("organizationName", "g1"),), (("organizationName", "g2"),), (("commonName", "joe"),))
    assert caller_of_certificate({"subject": subject}) == Caller("joe", ("g1", "g2", "system:authenticated"))


@pytest.mark.parametrize(
    "subject",
    [
        (),
        ((("organizationName", "g"),),),
        ((("commonName", ""),),),
        ((("commonName", "a"),), (("commonName", "b"),)),
        ((("commonName", "a\r\nX-Remote-Group: system:masters"),),),
        ((("organizationName", "g\nX-Remote-Group: system:masters"),), (("commonName", "a"),)),
    ],
    ids=["nothing", "a group only", "an empty name", "two names", "a line's end", "a line's end in a group"],
)
def test_a_certificate_that_does_not_name_one_user_is_nobodys(subject: object) -> None:
    with pytest.raises(Unauthorized):
        caller_of_certificate({"subject": subject})


@pytest.mark.parametrize(
    ("ends", "ended"),
    [
        ("May  1 00:00:01 2026 GMT", False),
        ("May  1 00:00:00 2026 GMT", False),
        ("Apr 30 23:59:59 2026 GMT", True),
        ("", True),
    ],
)
def test_a_certificate_ends_on_an_open_connection_too(ends: str, ended: bool) -> None:
    now = datetime(2026, 5, 1, tzinfo=UTC).timestamp()
    assert has_ended({"notAfter": ends} if ends else {}, now) is ended


def test_an_administrator_acts_as_anybody() -> None:
    root = Caller("root", ("system:masters", AUTHENTICATED))
    wanted = headers(
        ("Impersonate-User", "joe"),
        ("Impersonate-Group", "g1"),
        ("Impersonate-Group", "g2"),
        ("Impersonate-Uid", "1-2"),
        ("Impersonate-Extra-Example.org%2Fkey", "v"),
    )
    taken_on = impersonate(AUTHORIZER, root, wanted)
    assert taken_on == Caller("joe", ("g1", "g2", AUTHENTICATED), "1-2", {"example.org/key": ("v",)})


def test_the_right_to_act_as_one_user_is_no_right_to_act_as_another() -> None:
    deputy = Caller("deputy", (AUTHENTICATED,))
    assert impersonate(AUTHORIZER, deputy, headers(("Impersonate-User", "joe"))).user == "joe"
    with pytest.raises(Forbidden, match='User "deputy" cannot impersonate resource "users"'):
        impersonate(AUTHORIZER, deputy, headers(("Impersonate-User", "ann")))


@pytest.mark.parametrize(
    "more",
    [
        ("Impersonate-Group", "system:masters"),
        ("Impersonate-Uid", "1"),
        ("Impersonate-Extra-Scopes", "edit"),
        ("Impersonate-Extra-Other", "view"),
    ],
)
def test_each_group_and_attribute_needs_a_right_of_its_own(more: tuple[str, str]) -> None:
    head = Caller("head", (AUTHENTICATED,))
    good = (("Impersonate-User", "joe"), ("Impersonate-Group", "friends"), ("Impersonate-Extra-Scopes", "view"))
    assert impersonate(AUTHORIZER, head, headers(*good)).groups == ("friends", AUTHENTICATED)
    with pytest.raises(Forbidden):
        impersonate(AUTHORIZER, head, headers(*good, more))


def test_a_service_account_is_not_a_user_to_act_as() -> None:
    # All users may be impersonated, of the accounts just one.
    head = Caller("head", (AUTHENTICATED,))
    robot = impersonate(AUTHORIZER, head, headers(("Impersonate-User", "system:serviceaccount:ns:robot")))
    assert robot.groups == ("system:serviceaccounts", "system:serviceaccounts:ns", AUTHENTICATED)
    with pytest.raises(Forbidden, match='resource "serviceaccounts" in API group "" in the namespace "ns"'):
        impersonate(AUTHORIZER, head, headers(("Impersonate-User", "system:serviceaccount:ns:other")))


def test_who_acts_as_nobody_is_not_known() -> None:
    nobody = impersonate(AUTHORIZER, Caller("deputy"), headers(("Impersonate-User", "system:anonymous")))
    assert nobody.groups == ("system:unauthenticated",)


def test_an_attribute_cannot_begin_a_header_of_its_own() -> None:
    wanted = headers(("Impersonate-User", "joe"), ("Impersonate-Extra-A%0d%0aX-Remote-Group%3a", "system:masters"))
    with pytest.raises(BadRequest, match="control characters"):
        impersonate(AUTHORIZER, Caller("root", ("system:masters",)), wanted)


@pytest.mark.parametrize("name", ["Impersonate-Group", "Impersonate-Uid", "Impersonate-Extra-A", "impersonate-user"])
def test_a_group_without_a_user_is_refused_rather_than_ignored(name: str) -> None:
    value = "" if name.endswith("user") else "x"
    with pytest.raises(BadRequest):
        impersonate(AUTHORIZER, Caller("root", ("system:masters",)), headers((name, value)))

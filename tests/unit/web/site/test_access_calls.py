"""Giving and taking roles before a played API server."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, cast

import pytest
from msgspec import Struct

from kvedge.client.errors import FlagError, NotFoundError, RefusedError
from kvedge.client.session import Session
from kvedge.kube.errors import AlreadyExists, Forbidden, NotFound
from kvedge.web.site.access_calls import give_role, read_access, take_role

_GROUP = "rbac.authorization.k8s.io"
_BINDINGS = f"/apis/{_GROUP}/v1/namespaces/shop/rolebindings"
_ROLE = {"apiGroup": _GROUP, "kind": "ClusterRole", "name": "kubevirt.io:view"}


@dataclass
class PlayedServer:
    """Has bindings; allows what is not in `forbidden`: pairs of a verb and a resource."""

    bindings: dict[str, Any] = field(default_factory=dict)
    forbidden: tuple[tuple[str, str], ...] = ()
    refuses: Exception | None = None
    is_cut: bool = False
    written: list[tuple[str, str, Any]] = field(default_factory=list)

    def hurry(self, seconds: float) -> PlayedServer:
        return self

    def request(self, method: str, path: str, body: Any = None, *more: Any, query: Any = None) -> Any:
        if path.endswith("selfsubjectrulesreviews"):
            return {"status": {"resourceRules": [], "incomplete": True}}
        if path.endswith("selfsubjectaccessreviews"):
            asked = body["spec"]["resourceAttributes"]
            return {"status": {"allowed": (asked["verb"], asked["resource"]) not in self.forbidden}}
        if path.endswith("selfsubjectreviews"):
            return {"status": {"userInfo": {"username": "ann"}}}
        assert path.startswith(_BINDINGS)
        if method == "GET":
            name = path.removeprefix(_BINDINGS).strip("/")
            if not name:
                return {"items": list(self.bindings.values()), "metadata": {"continue": "more" if self.is_cut else ""}}
            if name not in self.bindings:
                raise NotFound(404, "NotFound", "no such thing")
            return self.bindings[name]
        if self.refuses:
            raise self.refuses
        self.written.append((method, path, body))
        return body


class PlayedSession(Struct, frozen=True):
    client: PlayedServer


def of(server: PlayedServer) -> Session:
    return cast(Session, PlayedSession(server))


def user(name: str) -> dict[str, str]:
    return {"kind": "User", "apiGroup": _GROUP, "name": name}


def binding(*names: str, role: Any = None) -> dict[str, Any]:
    about = {"name": "team", "namespace": "shop", "uid": "u", "resourceVersion": "7"}
    return {"metadata": about, "roleRef": role or _ROLE, "subjects": [user(name) for name in names]}


def test_what_the_user_may_is_told_and_whoever_may_not_see_others_sees_none() -> None:
    server = PlayedServer({"team": binding("bob")}, (("list", "rolebindings"), ("update", "rolebindings")))
    found = read_access(of(server), "shop")
    assert (found["user"], found["isSeen"], found["rows"]) == ("ann", False, [])
    assert (found["mayGive"], found["mayTake"], found["mayTakeShared"]) == (True, True, False)
    allowed = {each["words"]: each["may"] for each in found["rights"]}
    assert (allowed["Give roles"], allowed["See who has which role"]) == (True, False)


def test_a_list_that_was_cut_says_so() -> None:
    found = read_access(of(PlayedServer({"team": binding("bob")}, is_cut=True)), "shop")
    assert ([row["name"] for row in found["rows"]], found["more"]) == (["bob"], True)


def test_giving_a_role_again_is_no_failure_and_another_binding_of_the_name_is_one() -> None:
    taken = AlreadyExists(409, "AlreadyExists", "it is there")
    body = {"kind": "User", "name": "bob", "role": "kubevirt.io:view"}
    called = "bob:kubevirt.io:view"
    assert give_role(of(PlayedServer({called: binding("bob")}, refuses=taken)), "shop", body) == {}
    for other in (binding("cyd"), binding("bob", role={**_ROLE, "name": "kubevirt.io:edit"})):
        with pytest.raises(AlreadyExists):
            give_role(of(PlayedServer({called: other}, refuses=taken)), "shop", body)


def test_who_may_write_bindings_and_not_give_the_role_is_told_at_the_role() -> None:
    refusal = Forbidden(403, "Forbidden", "attempting to grant RBAC permissions not currently held: " + "x" * 5000)
    body = {"kind": "User", "name": "bob", "role": "kubevirt.io:view"}
    with pytest.raises(FlagError) as refused:
        give_role(of(PlayedServer(refuses=refusal)), "shop", body)
    assert (refused.value.flag, len(refused.value.text) < 200) == ("role", True)
    with pytest.raises(Forbidden):
        give_role(of(PlayedServer(forbidden=(("create", "rolebindings"),), refuses=refusal)), "shop", body)


def test_the_last_subject_takes_its_binding_along_as_it_was_seen() -> None:
    server = PlayedServer({"team": binding("bob")})
    take_role(of(server), "shop", {"kind": "User", "name": "bob", "binding": "team"})
    seen = {"preconditions": {"uid": "u", "resourceVersion": "7"}}
    assert server.written == [("DELETE", f"{_BINDINGS}/team", seen)]


def test_others_of_a_binding_keep_the_role_and_a_newer_binding_is_not_written_over() -> None:
    server = PlayedServer({"team": binding("ann", "bob", "cyd")})
    take_role(of(server), "shop", {"kind": "User", "name": "bob", "binding": "team"})
    assert server.written == [("PUT", f"{_BINDINGS}/team", binding("ann", "cyd"))]


@pytest.mark.parametrize(
    ("found", "called", "name", "error"),
    [
        (binding("bob"), "team", "ann", NotFoundError),
        (binding("bob"), "other", "bob", NotFound),
        (binding("bob"), "", "bob", NotFoundError),
        (binding("bob"), "..", "bob", NotFoundError),
        (binding("bob", role={**_ROLE, "name": "cluster-admin"}), "team", "bob", RefusedError),
    ],
    ids=["lost already", "no binding", "none named", "up", "another role"],
)
def test_what_was_not_given_here_is_not_taken(found: Any, called: str, name: str, error: type[Exception]) -> None:
    server = PlayedServer({"team": found})
    with pytest.raises(error):
        take_role(of(server), "shop", {"kind": "User", "name": name, "binding": called})
    assert server.written == []

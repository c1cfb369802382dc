"""What a page may offer."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from kvedge.kube.errors import Unavailable
from kvedge.web.own_rights import read_rights


class PlayedServer:
    """Allows what it is told to, or does not answer."""

    def __init__(self, allowed: set[tuple[str, str, str]] | None) -> None:
        self.allowed = allowed

    def hurry(self, seconds: float) -> PlayedServer:
        return self

    def request(self, method: str, path: str, body: Any) -> Any:
        if self.allowed is None:
            raise Unavailable(0, "", "no answer")
        asked = body["spec"]["resourceAttributes"]
        assert asked["namespace"] == "shop"
        return {"status": {"allowed": (asked["verb"], asked["resource"], asked["subresource"]) in self.allowed}}


def rights(allowed: set[tuple[str, str, str]] | None) -> dict[str, Any]:
    session: Any = SimpleNamespace(client=PlayedServer(allowed))
    return read_rights(session, "shop")


def test_each_act_is_asked_for_by_itself() -> None:
    found = rights({("update", "virtualmachines", ""), ("update", "virtualmachines", "migrate")})
    assert [act for act, may in found.items() if may] == ["edit", "migrate"]


def test_what_nobody_tells_is_offered_as_the_server_judges_it() -> None:
    assert all(rights(None).values())

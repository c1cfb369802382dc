"""Documents are made once for all who ask, and nobody has them made by asking for one that is not there."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest
from aiohttp.test_utils import make_mocked_request

from kvedge.standalone.apiserver.kinds.built_in import BUILT_IN
from kvedge.standalone.apiserver.kinds.served_kinds import KindIndex
from kvedge.standalone.apiserver.routes import openapi_manifest
from kvedge.standalone.apiserver.routes.openapi_routes import OpenApiRoutes
from kvedge.standalone.apiserver.wire.api_errors import PathNotFound


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Which documents were made, in order."""
    found: list[str] = []
    for name in ("v2_document", "v3_documents"):
        real = getattr(openapi_manifest, name)

        def note(*arguments: Any, name: str = name, real: Any = real) -> Any:
            found.append(name)
            return real(*arguments)

        monkeypatch.setattr(openapi_manifest, name, note)
    return found


def ask(*paths: str) -> list[int]:
    """The status of each answer, all of one server."""
    hub = SimpleNamespace(kinds=KindIndex(BUILT_IN), on_kinds_changed=lambda forget: None)
    proxy = SimpleNamespace(apis=list)

    async def answers() -> list[int]:
        routes = OpenApiRoutes(cast("Any", hub), cast("Any", proxy), list)
        found = []
        for path in paths:
            try:
                found.append((await routes.serve(make_mocked_request("GET", path))).status)
            except PathNotFound:
                found.append(404)
        routes.stop()
        return found

    return asyncio.run(answers())


def test_the_documents_of_version_3_are_made_all_at_once(made: list[str]) -> None:
    assert ask("/openapi/v3", "/openapi/v3/apis/apps/v1", "/openapi/v3/api/v1") == [200, 200, 200]
    assert made == ["v3_documents"]


def test_a_path_that_is_not_there_has_nothing_made_again(made: list[str]) -> None:
    assert ask("/openapi/v3", *(f"/openapi/v3/apis/none-{number}" for number in range(3))) == [200, 404, 404, 404]
    assert made == ["v3_documents"]


def test_version_2_is_made_for_those_who_ask_for_it(made: list[str]) -> None:
    assert ask("/openapi/v3", "/openapi/v2", "/openapi/v2") == [200, 200, 200]
    assert made == ["v3_documents", "v2_document"]

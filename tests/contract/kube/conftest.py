"""Both servers, for the tests of the client."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.either_server import EMBEDDED, REAL, EitherServer, running


@pytest.fixture(scope="package", params=[EMBEDDED, REAL])
def either_server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EitherServer]:
    with running(request.param, tmp_path_factory.mktemp(request.param)) as server:
        yield server


@pytest.fixture
def namespace(either_server: EitherServer) -> str:
    return either_server.new_namespace()

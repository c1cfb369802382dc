"""What the api role's place among the endpoints says in the log while the API server is away."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import pytest

from kvedge.api.registration import presence_loop
from kvedge.api.registration.presence_loop import Presence
from kvedge.api.registration.registration_manifest import Endpoint
from kvedge.kube.errors import Unavailable
from tests.support.waiting import wait_until

AWAY = "connection refused"


class Server:
    """An API server without objects, which takes all that is written, or is away."""

    def __init__(self) -> None:
        self.failure = ""
        self.calls = 0

    def hurry(self, _seconds: float) -> Any:
        return SimpleNamespace(request=self._request)

    def _request(self, _verb: str, _path: str, _body: object = None, **_more: object) -> dict[str, Any]:
        self.calls += 1
        if self.failure:
            raise Unavailable(503, "", self.failure)
        return {"items": [], "metadata": {"resourceVersion": "1"}}


def test_an_api_server_that_is_away_is_told_once_and_so_is_its_return(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(presence_loop, "BEAT_SECONDS", 0.01)
    caplog.set_level(logging.INFO, presence_loop.__name__)
    server = Server()
    presence = Presence(server, Endpoint("192.0.2.1", 8443, "server-1"))  # type: ignore[arg-type]

    def some_rounds() -> None:
        begun = server.calls
        wait_until(lambda: server.calls > begun + 20, "some rounds")

    presence.appear()
    presence.start()
    for server.failure in (AWAY, "too many requests", ""):
        some_rounds()
    presence.stop()
    told = [
        (record.getMessage(), getattr(record, "facts", {}).get("reason"))
        for record in caplog.records
        if "looked after" in record.getMessage()
    ]
    assert told == [
        ("endpoint not looked after", AWAY),
        ("endpoint not looked after", "too many requests"),
        ("endpoint looked after again", None),
    ]

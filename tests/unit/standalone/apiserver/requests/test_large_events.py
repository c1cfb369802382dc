# Tests: kvedge/standalone/apiserver/requests/watch_sender.py, kvedge/standalone/apiserver/requests/bytes_in_flight.py
# Tests: kvedge/standalone/apiserver/requests/object_encoding.py
"""Large events of watches: which forms of them are kept for all watchers, and what waits for room."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from typing import Any, cast
from unittest import mock

import pytest
from aiohttp import web

from kvedge.standalone.apiserver.kinds.built_in import BUILT_IN
from kvedge.standalone.apiserver.kinds.served_kinds import KindIndex
from kvedge.standalone.apiserver.requests import watch_sender
from kvedge.standalone.apiserver.requests.bytes_in_flight import FLIGHT, USER_BYTES, BytesInFlight, Flight
from kvedge.standalone.apiserver.requests.object_encoding import Encoder
from kvedge.standalone.apiserver.requests.watch_sender import Event, WatchSender
from kvedge.standalone.apiserver.store.stored import Change, ChangeType, ObjectKey, Stored
from kvedge.standalone.apiserver.wire.media_types import Form

NOW = datetime(2026, 5, 1, tzinfo=UTC)
LARGE = 100_000


def large_change() -> Change:
    metadata = {"name": "a", "namespace": "n", "uid": "u", "annotations": {"a": "x" * LARGE}}
    body = json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}).encode()
    return Change(ChangeType.MODIFIED, Stored(ObjectKey("configmaps", "n", "a"), 2, body), None)


@pytest.mark.parametrize("first", [(Form.PARTIAL, ChangeType.MODIFIED), (Form.OBJECT, ChangeType.ADDED)])
def test_the_plain_form_of_a_large_event_is_kept_whatever_is_asked_for_first(first: tuple[Form, ChangeType]) -> None:
    kind = KindIndex(BUILT_IN).at("", "v1", "configmaps")
    assert kind is not None
    change, (form, asked) = large_change(), first
    Encoder(kind, form).event(change, asked, NOW)
    plain = Encoder(kind).event(change, ChangeType.MODIFIED, NOW)
    assert Encoder(kind).event(change, ChangeType.MODIFIED, NOW) is plain
    # Nor is every form kept.
    for each in Form:
        for named in ChangeType:
            Encoder(kind, each).event(change, named, NOW)
    assert len(change.encoded) == 2


def watch_of(account: BytesInFlight) -> tuple[WatchSender, Any, Any]:
    flight = Flight(account)
    flight.user = "joe"
    request = mock.MagicMock()
    request.__getitem__.side_effect = {FLIGHT: flight}.__getitem__
    response = mock.AsyncMock()
    return WatchSender(cast(web.BaseRequest, request), cast(web.StreamResponse, response)), request, response


def test_a_large_event_waits_for_room_before_its_watch_is_hung_up_on() -> None:
    async def check() -> None:
        account = BytesInFlight()
        account.add("joe", USER_BYTES)
        sender, request, response = watch_of(account)
        sending = asyncio.create_task(sender.send([Event(b"x" * LARGE)]))
        await asyncio.sleep(0.05)
        assert not sending.done()
        account.add("joe", -USER_BYTES)
        await sending
        assert sum(len(call.args[0]) for call in response.write.call_args_list) == LARGE
        request.transport.abort.assert_not_called()

    asyncio.run(check())


def test_a_watch_for_which_no_room_comes_is_hung_up_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch_sender, "_ROOM_SECONDS", 0.1)

    async def check() -> None:
        account = BytesInFlight()
        account.add("joe", USER_BYTES)
        sender, request, _ = watch_of(account)
        with pytest.raises(ConnectionResetError):
            await sender.send([Event(b"x" * LARGE)])
        request.transport.abort.assert_called_once()

    asyncio.run(check())

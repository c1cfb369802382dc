"""What the server does to objects in its own name."""

from __future__ import annotations

import asyncio
from unittest import mock

from kvedge.standalone.apiserver.wire.api_errors import AlreadyExists, Target
from kvedge.standalone.apiserver.wire.large_work import LargeWork
from kvedge.standalone.apiserver.writing.server_actor import ServerActor


def test_an_object_that_somebody_else_makes_at_the_same_time_is_there() -> None:
    hub, writer = mock.Mock(), mock.Mock()
    hub.get.return_value = None
    writer.create = mock.AsyncMock(side_effect=AlreadyExists(Target("serviceaccounts", "default")))
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": "n"}}
    asyncio.run(ServerActor(hub, writer, mock.Mock(), LargeWork()).ensure(account))
    writer.create.assert_awaited_once()

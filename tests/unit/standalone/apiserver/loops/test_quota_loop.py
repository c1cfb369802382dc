"""The status of quotas that an older kvedge has let in, which checked nothing of their spec."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, cast
from unittest import mock

import pytest

from kvedge.resources.codec import JsonObject
from kvedge.standalone.apiserver.admission.admission_protocol import Admission
from kvedge.standalone.apiserver.admission.quota_ledger import QuotaLedger
from kvedge.standalone.apiserver.admission.service_ledger import ServiceLedger
from kvedge.standalone.apiserver.loops.quota_loop import QuotaLoop
from kvedge.standalone.apiserver.store.object_hub import ObjectHub
from kvedge.standalone.apiserver.store.object_store import ObjectStore
from kvedge.standalone.apiserver.store.stored import ObjectKey, Write
from kvedge.standalone.apiserver.wire.api_errors import ApiError
from kvedge.standalone.apiserver.wire.large_work import LargeWork
from kvedge.standalone.apiserver.writing.object_writer import ObjectWriter
from kvedge.standalone.apiserver.writing.server_actor import ServerActor
from tests.unit.standalone.apiserver.writing.test_object_writer import NoAdmission

KEY = ObjectKey("resourcequotas", "n", "q")
TERMINATING = ["Terminating", "NotTerminating"]


def with_label(live: JsonObject) -> JsonObject:
    live["metadata"]["labels"] = {"a": "b"}
    return live


def with_another_count(live: JsonObject) -> JsonObject:
    live["spec"]["hard"]["secrets"] = "7"
    return live


async def served(hub: ObjectHub) -> tuple[ServerActor, QuotaLoop]:
    ledger = QuotaLedger(hub.cache)
    writer = ObjectWriter(hub, cast(Admission, NoAdmission()), ledger, ServiceLedger(hub.cache, "10.97.0.0/16"))
    actor = ServerActor(hub, writer, mock.Mock(), LargeWork())
    loop = QuotaLoop(hub, actor, ledger)
    loop.start()
    while loop._loop._waiting:
        await asyncio.sleep(0.01)
    # What was begun last has ended as well.
    await asyncio.sleep(0.2)
    return actor, loop


@pytest.mark.parametrize(
    ("spec", "shown"),
    [
        pytest.param({"hard": {"foo": "1"}}, {"foo": "1"}, id="a name that is none"),
        pytest.param({"hard": {"pods": "1"}, "scopes": TERMINATING}, {"pods": "1"}, id="scopes that are contrary"),
        pytest.param({"hard": {"pods": "-1"}}, {"pods": "-1"}, id="less than nothing"),
        pytest.param({"hard": {"pods": "1500m"}}, {"pods": "1500m"}, id="one and a half"),
    ],
)
def test_a_spec_that_would_be_refused_today_has_a_status_and_takes_labels(
    tmp_path: Path, spec: JsonObject, shown: JsonObject
) -> None:
    async def check() -> None:
        store = ObjectStore(tmp_path / "objects")
        hub = ObjectHub(store, store.open())
        try:
            await hub.commit(Write(KEY, 0, quota(spec)))
            actor, loop = await served(hub)
            assert not loop._loop._failures
            assert found(hub)["status"]["hard"] == shown
            stored = hub.get(KEY)
            assert stored is not None
            await actor.change(stored, with_label)
            assert found(hub)["metadata"]["labels"] == {"a": "b"}
            with pytest.raises(ApiError):
                await actor.change(stored, with_another_count)
            loop.stop()
        finally:
            await asyncio.to_thread(store.stop)

    asyncio.run(check())


@pytest.mark.parametrize("spec", ["x", [], {"hard": "x"}, {"hard": [1]}, {"scopes": 1}])
def test_a_spec_without_the_types_of_its_kind_is_not_tried_again_and_again(tmp_path: Path, spec: Any) -> None:
    async def check() -> None:
        store = ObjectStore(tmp_path / "objects")
        hub = ObjectHub(store, store.open())
        try:
            await hub.commit(Write(KEY, 0, {**quota(spec), "status": {"hard": {"pods": "1"}}}))
            _, loop = await served(hub)
            assert not loop._loop._failures
            loop.stop()
        finally:
            await asyncio.to_thread(store.stop)

    asyncio.run(check())


def quota(spec: Any) -> JsonObject:
    metadata = {"name": "q", "namespace": "n", "uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z"}
    return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "spec": spec}


def found(hub: ObjectHub) -> Any:
    stored = hub.get(KEY)
    assert stored is not None
    return stored.load()

"""The write path when its client goes away in the middle."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import pytest

from kvedge.resources.codec import JsonObject
from kvedge.standalone.apiserver.admission.admission_protocol import Admission, Review
from kvedge.standalone.apiserver.admission.quota_ledger import QuotaLedger
from kvedge.standalone.apiserver.admission.service_ledger import ServiceLedger
from kvedge.standalone.apiserver.kinds.built_in import BUILT_IN
from kvedge.standalone.apiserver.kinds.served_kinds import KindIndex
from kvedge.standalone.apiserver.requests.request_context import Caller, RequestContext
from kvedge.standalone.apiserver.requests.request_target import RequestTarget
from kvedge.standalone.apiserver.store.object_hub import ObjectHub
from kvedge.standalone.apiserver.store.object_store import ObjectStore
from kvedge.standalone.apiserver.store.stored import Change, ObjectKey, Write
from kvedge.standalone.apiserver.wire.api_errors import Forbidden
from kvedge.standalone.apiserver.writing.object_writer import ObjectWriter


class HeldHub(ObjectHub):
    """A hub whose store is in the middle of a commit for as long as the test wants."""

    def __init__(self, store: ObjectStore) -> None:
        self.may_commit = threading.Event()
        self.may_commit.set()
        self.commits = threading.Event()
        super().__init__(store, store.open())

    def _apply_commit(self, changes: Sequence[Change]) -> None:
        self.commits.set()
        assert self.may_commit.wait(30)
        super()._apply_commit(changes)


class NoAdmission:
    """Nobody objects."""

    async def mutate(self, review: Review) -> JsonObject | None:
        return review.obj

    async def validate(self, review: Review) -> None:
        return


def config_map(name: str) -> tuple[RequestContext, JsonObject]:
    kind = KindIndex(BUILT_IN).at("", "v1", "configmaps")
    assert kind is not None
    target = RequestTarget("create", "", "", "v1", "n", "configmaps", "")
    return RequestContext(target, kind, Caller("joe")), {"metadata": {"name": name}}


@pytest.mark.parametrize("hang_ups", [1, 2])
def test_a_client_that_hangs_up_in_the_middle_of_a_commit_gets_nothing_beyond_its_quota(
    tmp_path: Path, hang_ups: int
) -> None:
    async def check() -> None:
        store = ObjectStore(tmp_path / "objects")
        hub = HeldHub(store)
        try:
            await hub.commit(Write(ObjectKey("namespaces", "", "n"), 0, {"metadata": {"name": "n"}}))
            quota = {"metadata": {"name": "q", "namespace": "n"}, "spec": {"hard": {"configmaps": "1"}}}
            await hub.commit(Write(ObjectKey("resourcequotas", "n", "q"), 0, quota))
            writer = ObjectWriter(
                hub, cast(Admission, NoAdmission()), QuotaLedger(hub.cache), ServiceLedger(hub.cache, "10.97.0.0/16")
            )
            hub.may_commit.clear()
            hub.commits.clear()
            first = asyncio.create_task(writer.create(*config_map("first")))
            assert await asyncio.to_thread(hub.commits.wait, 30)
            for _ in range(hang_ups):
                first.cancel()
                await asyncio.sleep(0.01)
            second = asyncio.create_task(writer.create(*config_map("second")))
            await asyncio.wait([second], timeout=1)
            hub.may_commit.set()
            with pytest.raises(Forbidden, match="exceeded quota"):
                await second
            with pytest.raises(asyncio.CancelledError):
                await first
            assert hub.get(ObjectKey("configmaps", "n", "first")) is not None
        finally:
            hub.may_commit.set()
            await asyncio.to_thread(store.stop)

    asyncio.run(check())

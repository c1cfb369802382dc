"""The count of what namespaces use: each change costs what it changes, whatever else is there."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kvedge.resources.codec import JsonObject
from kvedge.standalone.apiserver.admission import quota_ledger
from kvedge.standalone.apiserver.admission.quota_ledger import QuotaLedger
from kvedge.standalone.apiserver.kinds.built_in import BUILT_IN
from kvedge.standalone.apiserver.kinds.served_kinds import KindIndex
from kvedge.standalone.apiserver.requests.request_context import Caller, RequestContext
from kvedge.standalone.apiserver.requests.request_target import RequestTarget
from kvedge.standalone.apiserver.store.object_cache import ObjectCache
from kvedge.standalone.apiserver.store.stored import Change, ChangeType, ObjectKey, Stored
from kvedge.standalone.apiserver.wire.api_errors import Forbidden

KINDS = KindIndex(BUILT_IN)


def stored(resource: str, name: str, namespace: str = "n", **body: Any) -> Stored:
    metadata = {"name": name, "namespace": namespace, "uid": f"{resource}/{name}"}
    text = json.dumps({"metadata": metadata, **body}).encode()
    return Stored(ObjectKey(resource, namespace, name), 1, text)


def quota(name: str = "q", **hard: str) -> Stored:
    return stored("resourcequotas", name, spec={"hard": hard})


def context(plural: str, name: str, namespace: str = "n") -> RequestContext:
    kind = KINDS.at("", "v1", plural)
    assert kind is not None
    return RequestContext(RequestTarget("create", "", "", "v1", namespace, plural, name), kind, Caller("u"))


def publish(cache: ObjectCache, current: Stored, previous: Stored | None = None, *, gone: bool = False) -> None:
    kind = ChangeType.DELETED if gone else ChangeType.MODIFIED if previous else ChangeType.ADDED
    cache.publish([Change(kind, current, previous)])


def take(ledger: QuotaLedger, name: str, obj: JsonObject | None = None) -> Any:
    return ledger.take(context("configmaps", name), name, obj or {"metadata": {"name": name}}, None)


def test_what_is_taken_counts_until_it_is_given_back() -> None:
    ledger = QuotaLedger(ObjectCache([quota(configmaps="1")], 1))
    with take(ledger, "a"), pytest.raises(Forbidden, match="used: configmaps=1"), take(ledger, "b"):
        pass
    with take(ledger, "b"):
        pass


def test_what_was_taken_and_has_arrived_counts_once() -> None:
    """Between the commit's arrival in the cache and the end of the write others may ask."""
    cache = ObjectCache([quota(configmaps="2")], 1)
    ledger = QuotaLedger(cache)
    with take(ledger, "a"):
        publish(cache, stored("configmaps", "a"))
        with take(ledger, "b"):
            pass
        with take(ledger, "b"), pytest.raises(Forbidden), take(ledger, "c"):
            pass


def test_a_change_of_the_quota_keeps_what_is_under_way() -> None:
    cache = ObjectCache([quota(configmaps="1")], 1)
    ledger = QuotaLedger(cache)
    with take(ledger, "a"):
        publish(cache, quota(configmaps="1", secrets="1"), quota(configmaps="1"))
        with pytest.raises(Forbidden), take(ledger, "b"):
            pass


def claim(name: str, size: str) -> Stored:
    return stored("persistentvolumeclaims", name, spec={"resources": {"requests": {"storage": size}}})


def test_a_change_of_the_quota_keeps_what_an_object_that_is_there_is_about_to_take() -> None:
    before, after = claim("a", "1Gi"), claim("a", "2Gi")
    cache = ObjectCache([quota(**{"requests.storage": "2Gi"}), before], 1)
    ledger = QuotaLedger(cache)

    def write(wanted: Stored, live: Stored | None) -> Any:
        name = wanted.key.name
        here = context("persistentvolumeclaims", name)
        return ledger.take(here, name, wanted.load(), live.load() if live is not None else None)

    with write(after, before):
        publish(cache, quota(**{"requests.storage": "2Gi", "pods": "1"}), quota(**{"requests.storage": "2Gi"}))
        with pytest.raises(Forbidden, match=r"used: requests\.storage=2Gi"), write(claim("b", "1Gi"), None):
            pass
        publish(cache, after, before)
    with pytest.raises(Forbidden, match=r"used: requests\.storage=2Gi"), write(claim("b", "1Gi"), None):
        pass


@pytest.mark.parametrize("objects", [10, 1000])
def test_a_write_is_judged_without_looking_at_all_others(objects: int, monkeypatch: pytest.MonkeyPatch) -> None:
    there = [stored("configmaps", f"c{number}") for number in range(objects)]
    cache = ObjectCache([quota(configmaps="5000"), *there], 1)
    ledger = QuotaLedger(cache)
    looked_at: list[str] = []
    monkeypatch.setattr(quota_ledger, "usage_of", lambda resource, obj: looked_at.append(resource) or {})
    with take(ledger, "new"):
        pass
    publish(cache, stored("configmaps", "new"))
    publish(cache, stored("configmaps", "new"), stored("configmaps", "new"), gone=True)
    assert len(looked_at) == 2


def test_a_namespace_without_quotas_has_nothing_read(monkeypatch: pytest.MonkeyPatch) -> None:
    cache = ObjectCache([quota(configmaps="1")], 1)
    QuotaLedger(cache)
    elsewhere = stored("configmaps", "a", "elsewhere")
    monkeypatch.setattr(Stored, "load", lambda self: pytest.fail("it was read"))
    publish(cache, elsewhere)
    # Nor what no quota of the namespace counts.
    publish(cache, stored("secrets", "a"))


@pytest.mark.parametrize(
    "spec",
    [
        "x",
        [],
        {"hard": "x"},
        {"hard": [1]},
        {"hard": {"configmaps": {}}},
        {"hard": {"configmaps": "many"}},
        {"scopes": 1},
    ],
)
def test_a_quota_that_an_older_kvedge_has_let_in_bounds_nothing_and_breaks_nothing(spec: Any) -> None:
    cache = ObjectCache([stored("resourcequotas", "q", spec=spec), stored("configmaps", "a")], 1)
    ledger = QuotaLedger(cache)
    publish(cache, stored("configmaps", "b"))
    with take(ledger, "c"):
        pass

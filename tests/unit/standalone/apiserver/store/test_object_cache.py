"""The current objects and the recent changes in memory."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvedge.standalone.apiserver.store import object_cache
from kvedge.standalone.apiserver.store.object_cache import ObjectCache
from kvedge.standalone.apiserver.store.stored import Change, ObjectKey, Stored
from kvedge.standalone.apiserver.wire.api_errors import Expired
from tests.support.clocks import FakeClock
from tests.unit.standalone.apiserver.stored_objects import added, deleted, modified, stored


def test_it_begins_with_what_the_store_has() -> None:
    cache = ObjectCache([stored("b"), stored("a"), stored("c", namespace="m")], 7)
    assert [item.key.name for item in cache.in_namespace("widgets")] == ["c", "a", "b"]
    assert [item.key.name for item in cache.in_namespace("widgets", "n")] == ["a", "b"]
    assert cache.get(ObjectKey("widgets", "n", "a")) is not None
    assert cache.get(ObjectKey("gadgets", "n", "a")) is None
    assert cache.revision == 7


def test_changes_are_kept_in_order_and_told_to_listeners() -> None:
    cache = ObjectCache([], 1)
    heard: list[Change] = []
    cache.find_history("widgets").listeners.add(heard.append)
    everything: list[Change] = []
    cache.on_change(everything.append)
    one, two = stored("a", 2), stored("a", 3)
    other = stored("x", 4, resource="gadgets")
    changes = [added(one), modified(two, one), added(other)]
    cache.publish(changes)
    assert heard == changes[:2]
    assert everything == changes
    assert cache.revision == 4
    assert list(cache.find_history("widgets").since(2)) == [changes[1]]
    assert list(cache.find_history("gadgets").since(1)) == [changes[2]]


def test_what_happened_before_the_start_is_not_known() -> None:
    cache = ObjectCache([stored("a")], 10)
    with pytest.raises(Expired, match=r"too old resource version: 9 \(11\)"):
        cache.find_history("widgets").since(9)
    assert list(cache.find_history("widgets").since(10)) == []
    with pytest.raises(Expired):
        cache.find_history("new-resource").since(9)


def test_old_changes_are_dropped_and_said_to_be_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_cache, "MAX_CHANGES", 3)
    cache = ObjectCache([], 0)
    for revision in range(1, 6):
        cache.publish([added(stored(f"w{revision}", revision))])
    history = cache.find_history("widgets")
    assert [change.revision for change in history.since(2)] == [3, 4, 5]
    with pytest.raises(Expired):
        history.since(1)


def test_large_objects_push_old_changes_out_but_never_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_cache, "MAX_CHANGE_BYTES", 10_000)
    monkeypatch.setattr(object_cache, "MIN_CHANGES", 5)
    cache = ObjectCache([], 0)
    for revision in range(1, 101):
        cache.publish([added(stored(f"w{revision}", revision, text="x" * 5000))])
    assert len(cache.find_history("widgets").changes) == 5


def grown(cache: ObjectCache, resource: str, revisions: range, size: int) -> None:
    """One object that is changed again and again."""
    before = None
    for revision in revisions:
        now = stored("big", revision, resource=resource, text="x" * size)
        cache.publish([modified(now, before) if before is not None else added(now)])
        before = now


def test_bytes_win_over_the_number_of_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_cache, "MOST_CHANGE_BYTES", 30_000)
    cache = ObjectCache([], 0)
    grown(cache, "widgets", range(1, 101), 5000)
    history = cache.find_history("widgets")
    # Each keeps the version before, and an event.
    assert [change.revision for change in history.since(98)] == [99, 100]
    assert history.bytes <= 30_000
    with pytest.raises(Expired, match=r"too old resource version: 97 \(99\)"):
        history.since(97)
    with pytest.raises(Expired):
        cache.at("widgets", 97)


def test_a_change_that_is_larger_than_all_that_is_kept_is_told_and_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_cache, "MOST_CHANGE_BYTES", 1000)
    cache = ObjectCache([], 0)
    heard: list[Change] = []
    cache.find_history("widgets").listeners.add(heard.append)
    cache.publish([added(stored("w", 1, text="x" * 5000))])
    assert [change.revision for change in heard] == [1]
    assert list(cache.find_history("widgets").since(1)) == []
    assert cache.find_history("widgets").bytes == 0


def test_all_resources_together_keep_so_much_and_the_largest_gives_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_cache, "ALL_CHANGE_BYTES", 100_000)
    cache = ObjectCache([], 0)
    grown(cache, "small", range(1, 11), 100)
    for number in range(20):
        grown(cache, f"large-{number}", range(11 + number * 10, 21 + number * 10), 5000)
    kept = [cache.find_history(resource) for resource in cache.resources()]
    assert sum(history.bytes for history in kept) <= 100_000
    assert len(cache.find_history("small").changes) == 10


def test_changes_of_long_ago_are_dropped_but_for_the_last_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_cache, "MIN_CHANGES", 5)
    clock = FakeClock()
    cache = ObjectCache([], 0, clock.monotonic)
    grown(cache, "widgets", range(1, 21), 100)
    history = cache.find_history("widgets")
    # Another resource's changes make time pass, as heartbeats do.
    for revision in range(21, 31):
        clock.seconds += 30
        cache.publish([added(stored(f"beat-{revision}", revision, resource="leases"))])
    assert len(history.changes) == 20
    clock.seconds += 30
    cache.publish([added(stored("beat-31", 31, resource="leases"))])
    assert [change.revision for change in history.since(15)] == [16, 17, 18, 19, 20]
    with pytest.raises(Expired):
        history.since(14)
    assert [change.revision for change in cache.find_history("leases").since(21)] == list(range(22, 32))


def test_events_of_the_newest_changes_alone_are_kept_as_they_were_sent() -> None:
    cache = ObjectCache([], 0)
    changes = []
    for revision in range(1, 101):
        change = added(stored(f"w{revision}", revision))
        change.encoded[("json", change.type)] = b"{}"
        changes.append(change)
        cache.publish([change])
    kept = [change.revision for change in changes if change.encoded]
    assert kept == list(range(69, 101))
    assert [change.revision for change in cache.find_history("widgets").since(50)] == list(range(51, 101))


def test_owners_are_found_and_forgotten() -> None:
    owner = {"apiVersion": "v1", "kind": "Widget", "name": "o", "uid": "uid-o"}
    child = stored("c", 2, metadata={"ownerReferences": [owner]})
    cache = ObjectCache([child], 2)
    assert cache.find_owned_by("uid-o") == [child]
    free = stored("c", 3)
    cache.publish([modified(free, child)])
    assert cache.find_owned_by("uid-o") == []
    assert cache.owner_uids() == []


@given(st.lists(st.tuples(st.sampled_from("abc"), st.booleans()), max_size=40))
def test_the_state_at_any_kept_revision_can_be_had_again(steps: list[tuple[str, bool]]) -> None:
    cache = ObjectCache([], 0)
    states: list[dict[str, int]] = [{}]
    for revision, (name, wanted) in enumerate(steps, start=1):
        key = ObjectKey("widgets", "n", name)
        before, now = cache.get(key), stored(name, revision)
        if not wanted and before is None:
            cache.publish([added(stored(name, revision))])
        elif not wanted and before is not None:
            cache.publish([deleted(now, before)])
        elif before is None:
            cache.publish([added(now)])
        else:
            cache.publish([modified(now, before)])
        states.append({item.key.name: item.revision for item in cache.in_namespace("widgets")})
    for revision, expected in enumerate(states):
        found: list[Stored] = cache.at("widgets", revision)
        assert {item.key.name: item.revision for item in found} == expected
        replayed = dict(expected)
        for change in cache.find_history("widgets").since(revision):
            if change.type == "DELETED":
                del replayed[change.current.key.name]
            else:
                replayed[change.current.key.name] = change.revision
        assert replayed == states[-1]

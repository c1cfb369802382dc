"""How versions follow each other in an informer's cache."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvedge.kube.object_cache import ObjectCache, version_number
from kvedge.resources.meta import ObjectMeta, OwnerReference
from kvedge.resources.types.core import ConfigMap


def a_map(name: str, version: int, owner: str = "") -> ConfigMap:
    owners = [OwnerReference(api_version="v1", kind="X", name="x", uid=owner, controller=True)] if owner else []
    meta = ObjectMeta(
        name=name, namespace="default", uid=f"uid-{name}", resource_version=str(version), owner_references=owners
    )
    return ConfigMap(metadata=meta)


@pytest.fixture
def cache() -> ObjectCache[ConfigMap]:
    cache: ObjectCache[ConfigMap] = ObjectCache()
    cache.replace([a_map("a", 3)], 5)
    return cache


def version_of(cache: ObjectCache[ConfigMap], name: str) -> str | None:
    found = cache.get("default", name)
    return None if found is None else found.metadata.resource_version


def test_a_change_tells_what_was_there_before(cache):
    old, new = cache.take(a_map("a", 6), gone=False)
    assert (old.metadata.resource_version, new.metadata.resource_version) == ("3", "6")


def test_a_deletion_tells_what_was_there_before(cache):
    old, new = cache.take(a_map("a", 7), gone=True)
    assert old.metadata.resource_version == "3"
    assert new is None
    assert cache.take(a_map("a", 7), gone=True) is None


def test_an_own_write_is_seen_at_once_and_told_once(cache):
    assert cache.take_own(a_map("a", 6))
    assert version_of(cache, "a") == "6"
    assert cache.take(a_map("a", 6), gone=False) is None


def test_old_news_does_not_undo_an_own_write(cache):
    cache.take_own(a_map("a", 9))
    assert cache.take(a_map("a", 8), gone=False) is None
    assert cache.take(a_map("a", 7), gone=True) is None
    assert version_of(cache, "a") == "9"


def test_news_after_an_own_write_is_taken(cache):
    cache.take_own(a_map("a", 9))
    assert cache.take(a_map("a", 10), gone=False) is not None
    assert version_of(cache, "a") == "10"


def test_the_answer_of_an_own_write_that_comes_late_is_ignored(cache):
    cache.take(a_map("a", 9), gone=False)
    assert not cache.take_own(a_map("a", 8))
    assert version_of(cache, "a") == "9"


def test_an_own_write_does_not_bring_a_deleted_object_back(cache):
    cache.take(a_map("a", 9), gone=True)
    assert not cache.take_own(a_map("a", 8))
    assert version_of(cache, "a") is None


def test_a_bookmark_counts_as_having_been_told(cache):
    cache.note_reached(20)
    assert not cache.take_own(a_map("b", 15))
    assert cache.take_own(a_map("b", 21))


def test_a_list_tells_only_what_changed(cache):
    changes = cache.replace([a_map("a", 3), a_map("b", 4)], 8)
    assert [(old, new.metadata.name) for old, new in changes] == [(None, "b")]
    (gone,) = cache.replace([a_map("b", 4)], 9)
    assert gone[0].metadata.name == "a"
    assert gone[1] is None


def test_an_own_write_during_a_listing_survives_it(cache):
    cache.forget_own_writes()
    cache.take_own(a_map("b", 12))
    cache.replace([a_map("a", 3)], 11)
    assert version_of(cache, "b") == "12"


def test_a_server_that_was_restored_is_believed_though_its_versions_are_smaller(cache):
    cache.take(a_map("a", 900), gone=False)
    cache.take_own(a_map("a", 901))
    cache.forget_own_writes()
    cache.replace([a_map("a", 2)], 4)
    assert version_of(cache, "a") == "2"
    assert cache.take(a_map("a", 5), gone=False) is not None
    assert cache.take_own(a_map("a", 6))


def test_objects_are_found_by_their_owner_as_long_as_they_have_it(cache):
    cache.take(a_map("b", 6, owner="o"), gone=False)
    assert [item.metadata.name for item in cache.find_indexed("owner", "o")] == ["b"]
    cache.take(a_map("b", 7), gone=False)
    assert cache.find_indexed("owner", "o") == []


def test_an_index_of_ones_own_covers_what_is_there_already(cache):
    cache.add_index("first", lambda item: (item.metadata.name[0],))
    assert [item.metadata.name for item in cache.find_indexed("first", "a")] == ["a"]


@pytest.mark.parametrize(("text", "number"), [("12", 12), ("", 0), ("abc", 0), ("-1", 0)])
def test_a_version_that_is_no_number_counts_as_none(text, number):
    assert version_number(text) == number


STEPS = st.lists(st.tuples(st.sampled_from(["news", "gone", "own", "list"]), st.sampled_from("abc")), max_size=30)


@given(STEPS)
def test_whatever_happens_the_indexes_agree_with_the_objects(steps):
    cache: ObjectCache[ConfigMap] = ObjectCache()
    for version, (step, name) in enumerate(steps, 1):
        item = a_map(name, version, owner=f"o{version % 3}")
        if step == "own":
            cache.take_own(item)
        elif step == "list":
            cache.replace([item], version)
        else:
            cache.take(item, gone=step == "gone")
    for owner in ("o0", "o1", "o2"):
        found = {item.metadata.name for item in cache.find_indexed("owner", owner)}
        wanted = {i.metadata.name for i in cache.list() if i.metadata.owner_references[0].uid == owner}
        assert found == wanted


def test_an_object_that_changes_is_never_missing_to_those_who_look_meanwhile(cache):
    seen = []

    def look(_item):
        seen.append(version_of(cache, "a"))
        return ()

    cache.add_index("looks", look)
    seen.clear()
    cache.take(a_map("a", 6), gone=False)
    cache.take_own(a_map("a", 7))
    cache.replace([a_map("a", 8)], 8)
    assert None not in seen
    assert seen[-1] in ("7", "8")

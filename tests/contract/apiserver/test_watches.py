"""Watches: from now, from a revision, from everything; selections, bookmarks, ends."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.api_client import TABLE, ApiClient
from tests.support.widgets import config_map, config_maps, pod, pods, widget, widgets

pytestmark = pytest.mark.contract


def told(events: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """The type and the object's name of each event."""
    return [(event["type"], event["object"]["metadata"].get("name", "")) for event in events]


def revision_of(admin: ApiClient, path: str) -> str:
    """The revision of the present state."""
    revision: str = admin.get(path).json["metadata"]["resourceVersion"]
    return revision


def test_a_watch_without_a_revision_begins_with_what_is_there(admin: ApiClient, namespace: str) -> None:
    admin.made(config_maps(namespace), config_map("a"))
    watch = admin.watch(config_maps(namespace))
    assert told(watch.wait(1)) == [("ADDED", "a")]
    admin.made(config_maps(namespace), config_map("b"))
    admin.patch(config_maps(namespace, "a"), {"data": {"x": "y"}})
    admin.delete(config_maps(namespace, "b"))
    assert told(watch.wait(4)) == [("ADDED", "a"), ("ADDED", "b"), ("MODIFIED", "a"), ("DELETED", "b")]
    watch.close()


def test_a_watch_from_a_revision_tells_what_came_after(admin: ApiClient, namespace: str) -> None:
    admin.made(config_maps(namespace), config_map("a"))
    start = revision_of(admin, config_maps(namespace))
    admin.made(config_maps(namespace), config_map("b"))
    admin.delete(config_maps(namespace, "a"))
    watch = admin.watch(config_maps(namespace), resourceVersion=start)
    events = watch.wait(2)
    assert told(events) == [("ADDED", "b"), ("DELETED", "a")]
    revisions = [int(event["object"]["metadata"]["resourceVersion"]) for event in events]
    assert revisions == sorted(revisions)
    assert revisions[0] > int(start)
    admin.made(config_maps(namespace), config_map("c"))
    assert told(watch.wait(3))[2] == ("ADDED", "c")
    watch.close()


def test_a_deletion_shows_the_last_state_at_the_revision_of_the_deletion(admin: ApiClient, namespace: str) -> None:
    made = admin.made(widgets(namespace), widget("a", 7))
    watch = admin.watch(widgets(namespace), resourceVersion=made["metadata"]["resourceVersion"])
    admin.delete(widgets(namespace, "a"))
    gone = watch.wait(1)[0]
    assert gone["type"] == "DELETED"
    assert gone["object"]["spec"]["size"] == 7
    assert int(gone["object"]["metadata"]["resourceVersion"]) > int(made["metadata"]["resourceVersion"])
    watch.close()


def test_objects_enter_and_leave_a_selection(admin: ApiClient, namespace: str) -> None:
    start = revision_of(admin, config_maps(namespace))
    watch = admin.watch(config_maps(namespace), resourceVersion=start, labelSelector="in=yes")
    path = config_maps(namespace, "a")
    admin.made(config_maps(namespace), config_map("a"))
    admin.patch(path, {"metadata": {"labels": {"in": "yes"}}})
    admin.patch(path, {"data": {"x": "y"}})
    admin.patch(path, {"metadata": {"labels": {"in": "no"}}})
    admin.patch(path, {"data": {"x": "z"}})
    admin.patch(path, {"metadata": {"labels": {"in": "yes"}}})
    admin.delete(path)
    events = watch.wait(5)
    assert [event["type"] for event in events] == ["ADDED", "MODIFIED", "DELETED", "ADDED", "DELETED"]
    assert events[2]["object"]["metadata"]["labels"] == {"in": "yes"}
    watch.close()


def test_fields_select_in_a_watch(admin: ApiClient, namespace: str) -> None:
    admin.made(pods(namespace), pod("one", nodeName="n1"))
    watch = admin.watch(pods(namespace), fieldSelector="spec.nodeName=n1")
    admin.made(pods(namespace), pod("two", nodeName="n2"))
    admin.made(pods(namespace), pod("three", nodeName="n1"))
    assert told(watch.wait(2)) == [("ADDED", "one"), ("ADDED", "three")]
    watch.close()


def test_one_object_is_watched_by_its_name(admin: ApiClient, namespace: str) -> None:
    for name in "ab":
        admin.made(config_maps(namespace), config_map(name))
    watch = admin.watch(config_maps(namespace), fieldSelector="metadata.name=b")
    admin.patch(config_maps(namespace, "a"), {"data": {"x": "y"}})
    admin.patch(config_maps(namespace, "b"), {"data": {"x": "y"}})
    assert told(watch.wait(2)) == [("ADDED", "b"), ("MODIFIED", "b")]
    watch.close()


def test_a_watch_ends_when_its_time_is_up(admin: ApiClient, namespace: str) -> None:
    watch = admin.watch(config_maps(namespace), timeoutSeconds="1")
    watch.wait_end()


def test_initial_events_end_with_a_bookmark(admin: ApiClient, namespace: str) -> None:
    for name in "ab":
        admin.made(config_maps(namespace), config_map(name))
    watch = admin.watch(
        config_maps(namespace),
        sendInitialEvents="true",
        resourceVersionMatch="NotOlderThan",
        allowWatchBookmarks="true",
    )
    events = watch.wait(3)
    assert sorted(told(events)[:2]) == [("ADDED", "a"), ("ADDED", "b")]
    assert events[2]["type"] == "BOOKMARK"
    assert events[2]["object"]["kind"] == "ConfigMap"
    assert events[2]["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
    admin.made(config_maps(namespace), config_map("c"))
    assert told(watch.wait(4))[3] == ("ADDED", "c")
    watch.close()


def test_a_watch_can_be_a_table(admin: ApiClient, namespace: str) -> None:
    watch = admin.watch(widgets(namespace), accept=f"{TABLE},application/json")
    admin.made(widgets(namespace), widget("a", 3))
    event = watch.wait(1)[0]
    assert event["type"] == "ADDED"
    assert event["object"]["kind"] == "Table"
    assert event["object"]["rows"][0]["cells"][:2] == ["a", 3]
    watch.close()


def test_a_watch_of_one_version_shows_that_version(admin: ApiClient, namespace: str) -> None:
    watch = admin.watch(widgets(namespace, version="v1alpha1"))
    admin.made(widgets(namespace), widget("a"))
    admin.delete(widgets(namespace, "a"))
    assert [event["object"]["apiVersion"] for event in watch.wait(2)] == ["example.com/v1alpha1"] * 2
    watch.close()


def test_watch_options_that_contradict_each_other_are_refused(admin: ApiClient, namespace: str) -> None:
    path = config_maps(namespace)
    assert admin.get(path, watch="true", sendInitialEvents="true").status == 422
    assert admin.get(path, watch="true", resourceVersion="1", resourceVersionMatch="Exact").status == 422

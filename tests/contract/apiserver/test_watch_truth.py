"""Watches under concurrent writers: no event lost, doubled or out of order, also for who hangs up and resumes."""

from __future__ import annotations

import random
import threading
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.contract.apiserver.conftest import Server
from tests.support.api_client import ApiClient, Watch, names
from tests.support.widgets import config_map, config_maps, widget, widgets

pytestmark = pytest.mark.contract

WRITERS, WRITES, WATCHERS, NAMES = 6, 50, 6, 15
LAST = "zz-last"


@dataclass
class Truth:
    """What the writers were answered: the type and name of each write by its revision, deletions by name alone."""

    written: dict[int, tuple[str, str]] = field(default_factory=dict)
    deleted: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def note(self, kind: str, answer: Any) -> None:
        """Take an answer in; what was refused as somebody else was faster did not happen."""
        if answer.status in (404, 409):
            return
        assert answer.status in (200, 201), answer.body
        with self.lock:
            if kind == "DELETED":
                self.deleted.append(answer.json["details"]["name"])
            else:
                meta = answer.json["metadata"]
                self.written[int(meta["resourceVersion"])] = (kind, meta["name"])


def write(client: ApiClient, path: str, number: int, truth: Truth) -> None:
    """Create, change and delete objects that others work on as well."""
    chance = random.Random(number)
    for turn in range(WRITES):
        name = f"w{chance.randrange(NAMES)}"
        action = chance.random()
        if action < 0.4:
            truth.note("ADDED", client.post(path, widget(name, 1, free={"by": number})))
        elif action < 0.8:
            truth.note("MODIFIED", client.patch(f"{path}/{name}", {"spec": {"free": {"turn": f"{number}-{turn}"}}}))
        else:
            truth.note("DELETED", client.delete(f"{path}/{name}"))


def follow(client: ApiClient, path: str, start: str, number: int) -> list[tuple[str, str, int]]:
    """All events up to the last object, through many watches: each hangs up when it likes, the next goes on."""
    chance, seen, revision = random.Random(number), list[tuple[str, str, int]](), start
    while not seen or seen[-1][1] != LAST:
        watch = client.watch(path, resourceVersion=revision)
        try:
            for kind, name, at in _some(watch, chance.randrange(1, 40)):
                seen.append((kind, name, at))
                revision = str(at)
        finally:
            watch.close()
    return seen


def _some(watch: Watch, count: int) -> list[tuple[str, str, int]]:
    with watch._grown:
        watch._grown.wait_for(
            lambda: watch.ended or len(watch.events) >= count or (watch.events and _facts(watch.events[-1])[1] == LAST),
            30,
        )
        return [_facts(event) for event in watch.events]


def _facts(event: dict[str, Any]) -> tuple[str, str, int]:
    meta = event["object"]["metadata"]
    return event["type"], meta["name"], int(meta["resourceVersion"])


def test_every_watcher_is_told_what_happened_once_and_in_order(api_server: Server, namespace: str) -> None:
    path, truth = widgets(namespace), Truth()
    start = api_server.admin.get(path).json["metadata"]["resourceVersion"]
    told: dict[int, list[tuple[str, str, int]]] = {}

    def client() -> ApiClient:
        return ApiClient(api_server.url, api_server.admin.context)

    writers = [
        threading.Thread(target=write, args=(client(), path, number, truth), name=f"writer-{number}")
        for number in range(WRITERS)
    ]
    watchers = [
        threading.Thread(
            target=lambda number=number: told.update({number: follow(client(), path, start, number)}),
            name=f"watcher-{number}",
        )
        for number in range(WATCHERS)
    ]
    for thread in (*watchers, *writers):
        thread.start()
    for thread in writers:
        thread.join()
    truth.note("ADDED", api_server.admin.post(path, widget(LAST)))
    for thread in watchers:
        thread.join(60)
    assert len(told) == WATCHERS
    first = told[0]
    revisions = [revision for _, _, revision in first]
    assert revisions == sorted(set(revisions))
    assert all(events == first for events in told.values())
    assert {at: (kind, name) for kind, name, at in first if kind != "DELETED"} == truth.written
    assert sorted(name for kind, name, _ in first if kind == "DELETED") == sorted(truth.deleted)
    alive: set[str] = set()
    for kind, name, _ in first:
        # An object is added when it is not there, and changed or deleted when it is.
        assert (name in alive) == (kind != "ADDED"), (kind, name)
        alive = alive - {name} if kind == "DELETED" else alive | {name}
    assert sorted(alive) == names(api_server.admin.get(path))


def test_a_list_and_the_watch_from_it_make_up_the_truth_while_others_write(api_server: Server, namespace: str) -> None:
    path, truth = widgets(namespace), Truth()
    client = ApiClient(api_server.url, api_server.admin.context)
    writer = threading.Thread(target=write, args=(client, path, 99, truth), name="writer")
    writer.start()
    states = []
    for _ in range(5):
        listed = api_server.admin.get(path).json
        known = {item["metadata"]["name"]: int(item["metadata"]["resourceVersion"]) for item in listed["items"]}
        assert all(revision <= int(listed["metadata"]["resourceVersion"]) for revision in known.values())
        states.append((known, api_server.admin.watch(path, resourceVersion=listed["metadata"]["resourceVersion"])))
    writer.join()
    api_server.admin.made(path, widget(LAST))
    final = {
        item["metadata"]["name"]: int(item["metadata"]["resourceVersion"])
        for item in api_server.admin.get(path).json["items"]
    }
    for known, watch in states:
        with watch._grown:
            assert watch._grown.wait_for(lambda one=watch: one.events and _facts(one.events[-1])[1] == LAST, 20)
        for kind, name, revision in map(_facts, watch.events):
            if kind == "DELETED":
                del known[name]
            else:
                known[name] = revision
        assert known == final
        watch.close()


def test_bookmarks_say_how_far_a_quiet_watch_has_come(api_server: Server, namespace: str) -> None:
    admin = api_server.admin
    start = admin.get(widgets(namespace)).json["metadata"]["resourceVersion"]
    watch = admin.watch(
        widgets(namespace),
        resourceVersion=start,
        allowWatchBookmarks="true",
        timeoutSeconds="4",
        labelSelector="none=of",
    )
    # Nothing of this is selected, but the store goes on.
    made = admin.made(widgets(namespace), widget("other"))
    event = watch.wait(1)[0]
    assert event["type"] == "BOOKMARK"
    assert event["object"]["kind"] == "Widget"
    assert event["object"]["metadata"].keys() <= {"resourceVersion", "creationTimestamp"}
    reached = event["object"]["metadata"]["resourceVersion"]
    assert int(reached) >= int(made["metadata"]["resourceVersion"])
    watch.wait_end()
    watch.close()
    resumed = admin.watch(widgets(namespace), resourceVersion=reached)
    admin.made(widgets(namespace), widget("later"))
    assert _facts(resumed.wait(1)[0])[:2] == ("ADDED", "later")
    resumed.close()


def test_two_hundred_watches_may_come_and_go(api_server: Server, namespace: str) -> None:
    admin = api_server.admin
    admin.made(config_maps(namespace), config_map("a"))
    for _ in range(20):
        watches = [admin.watch(config_maps(namespace)) for _ in range(10)]
        for watch in watches:
            assert watch.wait(1)[0]["type"] == "ADDED"
            watch.close()
    assert admin.patch(config_maps(namespace, "a"), {"data": {"x": "y"}}).status == 200

"""Informers whose server fails on purpose; in good health they are tested in tests/contract."""

from __future__ import annotations

import json
import logging
import threading
import time
from pathlib import Path

import pytest

from kvedge.kube.informer import Informer
from kvedge.kube.kube_client import KubeClient
from kvedge.resources.meta import ObjectMeta
from kvedge.resources.types.core import ConfigMap
from kvedge.runtime import background
from tests.support.scripted_api import (
    Exchange,
    Script,
    ScriptedApi,
    bookmark,
    change,
    listing,
    refusing,
    scripted_api,
    status,
)
from tests.support.waiting import wait_until


class Watched:
    """An informer of a scripted server, and what it told."""

    def __init__(self, api: ScriptedApi, path: Path) -> None:
        self.api = api
        self.informer = Informer(KubeClient.from_kubeconfig(api.write_kubeconfig(path)), ConfigMap)
        self.told: list[tuple[str | None, str | None]] = []
        self.informer.on_change(self._tell)

    def _tell(self, old: ConfigMap | None, new: ConfigMap | None) -> None:
        self.told.append(
            tuple(item and f"{item.metadata.name}@{item.metadata.resource_version}" for item in (old, new))
        )

    def __enter__(self) -> Watched:
        self.informer.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.api.over.set()
        self.informer.stop()

    def wait_for(self, *told: tuple[str | None, str | None]) -> None:
        wait_until(lambda: self.told == list(told), f"{told}, not {self.told}")


def silent(exchange: Exchange, *pieces: bytes) -> None:
    """A watch that tells and then stays open until the client goes."""
    exchange.begin()
    exchange.say(*pieces)
    _over.wait(20)


_over = threading.Event()


@pytest.fixture(autouse=True)
def _end_scripts():
    _over.clear()
    yield
    _over.set()


def stays(*pieces: bytes) -> Script:
    return lambda exchange: silent(exchange, *pieces)


def ends(*pieces: bytes) -> Script:
    def script(exchange: Exchange) -> None:
        exchange.begin()
        exchange.say(*pieces)
        exchange.finish()

    return script


def breaks(*pieces: bytes) -> Script:
    def script(exchange: Exchange) -> None:
        exchange.begin()
        exchange.say(*pieces)
        exchange.hang_up()

    return script


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "kubeconfig"


def versions(api: ScriptedApi) -> list[str | None]:
    """From which version each watch went on; None for a list."""
    return [request.query.get("resourceVersion") for request in api.requests]


def test_a_watch_that_ends_is_resumed_where_it_was(path):
    with scripted_api(listing("a"), ends(change("ADDED", "b", "8")), stays(change("ADDED", "c", "9"))) as api:
        with Watched(api, path) as seen:
            seen.wait_for((None, "a@1"), (None, "b@8"), (None, "c@9"))
        assert versions(api) == [None, "5", "8"]


def test_a_bookmark_moves_the_place_to_resume_from(path):
    with scripted_api(listing("a"), ends(bookmark("70")), stays()) as api:
        with Watched(api, path):
            wait_until(lambda: len(api.requests) == 3, "the watch is resumed")
        assert versions(api) == [None, "5", "70"]


def test_a_connection_that_breaks_in_the_middle_of_a_line_loses_nothing(path):
    line = change("MODIFIED", "a", "8")
    with (
        scripted_api(listing("a"), breaks(line[:20]), stays(line[:20], line[20:])) as api,
        Watched(api, path) as seen,
    ):
        seen.wait_for((None, "a@1"), ("a@1", "a@8"))
        assert versions(api) == [None, "5", "5"]


def test_a_version_that_is_too_old_leads_to_a_new_list_that_tells_the_difference(path):
    gone = json.dumps({"type": "ERROR", "object": status(410, "Expired")}).encode() + b"\n"
    with (
        scripted_api(listing("a", "b"), ends(gone), listing("b", "c", version="90"), stays()) as api,
        Watched(api, path) as seen,
    ):
        wait_until(lambda: len(api.requests) == 4, "listed and watched again")
        assert versions(api) == [None, "5", None, "90"]
        assert sorted(map(str, seen.told[2:])) == sorted(map(str, [("a@1", None), ("b@2", "b@1"), (None, "c@2")]))


@pytest.mark.parametrize("code", [410, 504, 400])
def test_a_watch_that_is_refused_for_its_version_leads_to_a_new_list(path, code):
    with (
        scripted_api(
            listing("a"), refusing(code, "Expired" if code == 410 else "Timeout"), listing("a"), stays()
        ) as api,
        Watched(api, path),
    ):
        wait_until(lambda: len(api.requests) == 4, "listed and watched again")
        assert versions(api) == [None, "5", None, "5"]


def test_a_kind_that_is_not_served_yet_is_waited_for_and_told_once(path, caplog):
    missing = refusing(404, "NotFound")
    with (
        caplog.at_level(logging.INFO),
        scripted_api(missing, missing, listing("a"), missing, missing, stays()) as api,
        Watched(api, path),
    ):
        wait_until(lambda: len(api.requests) == 6, "asked for again and again")
    told = [(record.levelname, record.message) for record in caplog.records]
    # One that was there and went is another matter.
    assert told == [("INFO", "kind not served yet"), ("WARNING", "watch interrupted")]


def test_a_server_that_is_overloaded_is_not_burdened_with_lists(path):
    with (
        scripted_api(
            listing("a"), refusing(503, "ServiceUnavailable"), refusing(429, "TooManyRequests"), stays()
        ) as api,
        Watched(api, path),
    ):
        wait_until(lambda: len(api.requests) == 4, "watched again")
        assert versions(api) == [None, "5", "5", "5"]


def test_watches_that_end_at_once_are_not_renewed_in_a_tight_loop(path):
    with scripted_api(listing("a"), ends()) as api, Watched(api, path):
        begun = time.monotonic()
        wait_until(lambda: len(api.requests) >= 4, "some watches")
        # Three pauses that double from 0.2 s on, each at least half as long.
        assert time.monotonic() - begun > 0.25


def test_an_object_that_does_not_fit_its_type_is_left_alone(path):
    odd = change("MODIFIED", "a", "8", data=["not a map"])
    with scripted_api(listing("a"), stays(odd, change("ADDED", "b", "9"))) as api, Watched(api, path) as seen:
        seen.wait_for((None, "a@1"), (None, "b@9"))


def test_stopping_is_not_held_up_while_the_server_says_nothing(path):
    with scripted_api(listing("a"), stays()) as api, Watched(api, path) as seen:
        wait_until(lambda: len(api.requests) == 2, "the watch is open")
        begun = time.monotonic()
        seen.informer.stop()
        assert time.monotonic() - begun < 8
        assert seen.informer._thread is not None
        assert not seen.informer._thread.is_alive()


def test_stopping_is_not_held_up_while_the_server_is_away(path):
    with scripted_api(refusing(503, "ServiceUnavailable")) as api, Watched(api, path) as seen:
        wait_until(lambda: api.requests, "a try")
        begun = time.monotonic()
        seen.informer.stop()
        assert time.monotonic() - begun < 8


def test_an_own_write_is_told_once(path):
    with scripted_api(listing("a"), lambda exchange: script(exchange)) as api:
        open_ = threading.Event()

        def script(exchange: Exchange) -> None:
            exchange.begin()
            open_.wait(10)
            exchange.say(change("MODIFIED", "a", "8"), change("ADDED", "b", "9"))
            _over.wait(10)

        with Watched(api, path) as seen:
            seen.informer.wait_synced(10)
            seen.informer.observe(
                ConfigMap(metadata=ObjectMeta(name="a", namespace="default", uid="uid-a", resource_version="8"))
            )
            seen.wait_for((None, "a@1"), ("a@1", "a@8"))
            open_.set()
            seen.wait_for((None, "a@1"), ("a@1", "a@8"), (None, "b@9"))


def test_whoever_comes_late_is_told_what_is_known(path):
    with scripted_api(listing("a"), stays()) as api, Watched(api, path) as seen:
        assert seen.informer.wait_synced(10)
        late: list[str] = []
        seen.informer.on_change(lambda old, new: late.append(new.metadata.name))
        assert late == ["a"]


def test_it_says_that_it_has_synced_only_when_it_has(path):
    with scripted_api(refusing(503, "ServiceUnavailable")) as api, Watched(api, path) as seen:
        assert not seen.informer.wait_synced(0.1)
        assert seen.informer.failure() is None


def test_a_callback_that_fails_for_what_is_there_already_is_its_owners_error(path):
    with scripted_api(listing("a"), stays()) as api, Watched(api, path) as seen:
        seen.informer.wait_synced(10)
        with pytest.raises(ZeroDivisionError):
            seen.informer.on_change(lambda old, new: 1 / 0)


@pytest.mark.parametrize("error", [ValueError, OverflowError, MemoryError])
def test_a_callback_that_fails_is_told_again_and_keeps_nobody_from_hearing(path, monkeypatch, caplog, error):
    monkeypatch.setattr(background, "FIRST_PAUSE", 0.01)

    def bookmarks(exchange: Exchange) -> None:
        exchange.begin()
        exchange.say(change("ADDED", "b", "6"))
        while not _over.wait(0.02):
            exchange.say(bookmark("7"))

    heard: list[str] = []
    failures = iter([error("an odd object")] * 3)

    def stumble(old: ConfigMap | None, new: ConfigMap | None) -> None:
        for failure in failures:
            raise failure
        heard.append(new.metadata.name if new else "")

    with scripted_api(listing("a"), bookmarks) as api:
        seen = Watched(api, path)
        seen.informer.on_change(stumble)
        last: list[str] = []
        seen.informer.on_change(lambda old, new: last.append(new.metadata.name))
        with seen:
            wait_until(lambda: sorted(heard) == ["a", "b"], "it hears of both in the end")
            assert last == ["a", "b"], "who comes after it heard of each at once, and once"
            assert seen.informer.failure() is None
            assert caplog.text.count("background work failed") == 3
            _over.set()


def made(uid: str, version: str, kind: str = "ADDED") -> bytes:
    return change(kind, "c", version).replace(b"uid-c", uid.encode())


@pytest.mark.parametrize(
    ("changes", "fails", "heard"),
    [
        ([made("A", "6"), made("A", "7", "DELETED")], [(None, "A")], []),
        ([made("A", "6"), made("A", "7", "DELETED")], [("A", None)], [(None, "A"), ("A", None)]),
        (
            [made("A", "6"), made("A", "7", "DELETED"), made("B", "8")],
            [("A", None)],
            [(None, "A"), ("A", None), (None, "B")],
        ),
        (
            [made("A", "6"), made("A", "7", "DELETED"), made("B", "8")],
            [("A", None), (None, "B")],
            [(None, "A"), ("A", None), (None, "B")],
        ),
        (
            [made("A", "6"), made("A", "7", "DELETED"), made("B", "8"), made("B", "9", "DELETED")],
            [("A", None), (None, "B")],
            [(None, "A"), ("A", None)],
        ),
    ],
    ids=["gone before it was heard of", "its end", "its end, made again", "both", "both, gone again"],
)
def test_a_listener_that_failed_hears_of_each_object_from_its_beginning_to_its_end(
    path, monkeypatch, changes, fails, heard
):
    # All changes come before anything is told again.
    monkeypatch.setattr(background, "FIRST_PAUSE", 0.5)

    def told(exchange: Exchange) -> None:
        exchange.begin()
        exchange.say(change("ADDED", "b", "5"), *changes)
        while not _over.wait(0.02):
            exchange.say(bookmark("20"))

    calls: list[tuple[str | None, str | None]] = []
    successes: list[tuple[str | None, str | None]] = []
    ahead = list(fails)

    def listen(old: ConfigMap | None, new: ConfigMap | None) -> None:
        if (new or old) is not None and (new or old).metadata.name != "c":
            return
        calls.append((old and old.metadata.uid, new and new.metadata.uid))
        if calls[-1] in ahead:
            ahead.remove(calls[-1])
            raise ValueError("an odd object")
        successes.append(calls[-1])

    with scripted_api(listing("a"), told) as api:
        seen = Watched(api, path)
        seen.informer.on_change(listen)
        with seen:
            wait_until(lambda: seen.informer.version >= 20 and not seen.informer._missed, "nothing is missed any more")
            assert (successes, ahead) == (heard, [])
            assert (None, None) not in calls
            _over.set()

"""A box's clock that jumps: nothing of the embedded API's order, watches and deletions hangs on it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from kvedge.standalone.apiserver.loops.expiry_loop import MOST, find_expired_events
from kvedge.standalone.apiserver.store import object_store_copies
from kvedge.standalone.apiserver.store.stored import ObjectKey, Stored
from kvedge.standalone.apiserver.writing import object_writer
from tests.contract.apiserver.conftest import Server, embedded
from tests.support.api_client import ApiClient, eventually, names
from tests.support.clocks import TurnedClock
from tests.support.widgets import config_map, config_maps, pod, pods, widget, widgets

pytestmark = pytest.mark.contract

_YEARS = timedelta(days=3650)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> TurnedClock:
    made = TurnedClock()
    monkeypatch.setattr(object_writer, "datetime", made)
    monkeypatch.setattr(object_store_copies, "datetime", made)
    return made


@pytest.fixture
def server(clock: TurnedClock, tmp_path: Path) -> Iterator[Server]:
    """A server whose clock the test moves."""
    yield from embedded(tmp_path)


@pytest.mark.parametrize("jump", [_YEARS, -_YEARS], ids=["forward", "back"])
def test_versions_rise_and_watches_go_on_across_a_jump(server: Server, clock: TurnedClock, jump: timedelta) -> None:
    admin = server.admin
    watch = admin.watch(widgets("default"))
    made = admin.made(widgets("default"), widget("before"))
    clock.jump(jump)
    changed = admin.patch(widgets("default", "before"), {"spec": {"size": 2}}).json
    after = admin.made(widgets("default"), widget("after"))
    clock.jump(timedelta())
    last = admin.made(widgets("default"), widget("last"))
    revisions = [int(obj["metadata"]["resourceVersion"]) for obj in (made, changed, after, last)]
    assert revisions == sorted(set(revisions))
    assert changed["metadata"]["creationTimestamp"] == made["metadata"]["creationTimestamp"]
    assert after["metadata"]["creationTimestamp"][:4] != last["metadata"]["creationTimestamp"][:4]
    events = watch.wait(4)
    assert [int(event["object"]["metadata"]["resourceVersion"]) for event in events] == revisions
    watch.close()


@pytest.mark.parametrize("jump", [_YEARS, -_YEARS], ids=["forward", "back"])
def test_a_watch_lasts_as_long_as_was_asked_whatever_the_clock_says(
    server: Server, clock: TurnedClock, jump: timedelta
) -> None:
    begin = time.monotonic()
    watch = server.admin.watch(config_maps("default"), timeoutSeconds="2")
    clock.jump(jump)
    server.admin.made(config_maps("default"), config_map("a"))
    watch.wait(1)
    watch.wait_end(20)
    assert time.monotonic() - begin >= 1.5
    watch.close()


@pytest.mark.parametrize("jump", [_YEARS, -_YEARS], ids=["forward", "back"])
def test_what_is_being_deleted_when_the_clock_jumps_still_ends(
    server: Server, clock: TurnedClock, jump: timedelta
) -> None:
    admin = server.admin
    admin.made(pods("default"), pod("p", nodeName="box"))
    marked = admin.delete(pods("default", "p")).json
    assert marked["metadata"]["deletionTimestamp"]
    clock.jump(jump)
    # A kubelet that is done deletes with no time left; so does a user who has no patience.
    assert admin.delete(pods("default", "p"), {"gracePeriodSeconds": 0}).status == 200
    assert admin.get(pods("default", "p")).status == 404
    admin.made("/api/v1/namespaces", {"metadata": {"name": "going"}})
    admin.made(config_maps("going"), config_map("a"))
    admin.delete("/api/v1/namespaces/going")
    clock.jump(timedelta())
    eventually(lambda: admin.get("/api/v1/namespaces/going").status == 404)


def test_a_lease_of_the_future_can_be_taken_and_renewed(server: Server, clock: TurnedClock) -> None:
    admin: ApiClient = server.admin
    path = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
    for number, offset in enumerate((_YEARS, -_YEARS, timedelta())):
        clock.jump(offset)
        moment = (datetime.now(UTC) + offset).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        spec = {"holderIdentity": f"h{number}", "leaseDurationSeconds": 15, "acquireTime": moment, "renewTime": moment}
        lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l"}, "spec": spec}
        answer = admin.put(f"{path}/l", lease) if number else admin.post(path, lease)
        assert answer.status in (200, 201), answer.body
        assert admin.get(f"{path}/l").json["spec"]["renewTime"] == moment


def test_applied_owners_stay_right_across_a_jump(server: Server, clock: TurnedClock) -> None:
    admin = server.admin
    path = widgets("default", "w")
    for offset, size in ((_YEARS, 1), (-_YEARS, 2), (timedelta(), 3)):
        clock.jump(offset)
        answer = admin.patch(path, widget("w", size), "application/apply-patch+yaml", fieldManager="m")
        assert answer.status in (200, 201), answer.body
    (entry,) = admin.get(path).json["metadata"]["managedFields"]
    assert (entry["manager"], entry["operation"]) == ("m", "Apply")


@pytest.mark.parametrize("jump", [_YEARS, -_YEARS], ids=["forward", "back"])
def test_a_restart_after_a_jump_serves_the_same_objects(tmp_path: Path, clock: TurnedClock, jump: timedelta) -> None:
    for one in embedded(tmp_path):
        before = one.admin.made(config_maps("default"), config_map("a"))
    clock.jump(jump)
    for one in embedded(tmp_path):
        assert one.admin.get(config_maps("default", "a")).json == before
        newer = one.admin.made(config_maps("default"), config_map("b"))
        assert int(newer["metadata"]["resourceVersion"]) > int(before["metadata"]["resourceVersion"])
    clock.jump(timedelta())
    for one in embedded(tmp_path):
        assert names(one.admin.get(config_maps("default"))) == ["a", "b"]


def test_events_of_the_future_do_not_pile_up_for_ever() -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    future = (now + _YEARS).strftime("%Y-%m-%dT%H:%M:%SZ")
    body = f'{{"metadata":{{"creationTimestamp":"{future}"}}}}'.encode()
    events = [Stored(ObjectKey("events", "n", f"e{number}"), number, body) for number in range(MOST + 10)]
    assert [stored.key.name for stored in find_expired_events(events, now)] == [f"e{number}" for number in range(10)]

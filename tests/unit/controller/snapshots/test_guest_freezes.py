# Tests: kvedge/controller/snapshots/guest_freezes.py, kvedge/controller/snapshots/snapshot_writes.py
"""Guests are frozen and thawed by the verbs that users have, each for itself: none waits for the agent of another."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import pytest

from kvedge.controller.snapshots.guest_freezes import WORKERS, GuestFreezes, ask_freeze, thaw_guest
from kvedge.controller.snapshots.snapshot_actions import Freeze, SnapshotPlan, Thaw
from kvedge.controller.snapshots.snapshot_view import FreezeCall
from kvedge.controller.snapshots.snapshot_writes import SnapshotWrites
from kvedge.kube.errors import KubeError, Unavailable
from kvedge.kube.events import EventRecorder
from kvedge.kube.kube_client import KubeClient
from kvedge.resources.types.vmi import VirtualMachineInstance
from tests.support.builders import a_vmi
from tests.support.clocks import FakeClock
from tests.support.scripted_api import refusing, scripted_api
from tests.unit.controller.snapshots.snapshot_world import World

PATH = "/apis/subresources.kubevirt.io/v1/namespaces/default/virtualmachineinstances/"
PATIENCE = 30.0


def guest(name: str, uid: str = "") -> VirtualMachineInstance:
    vmi = a_vmi("Running")
    vmi.metadata.name, vmi.metadata.uid = name, uid or f"uid-of-{name}"
    return vmi


class Guests:
    """Stands for a client of the server: the agents of guests answer when the test lets them, and are counted."""

    def __init__(self) -> None:
        self.orders: list[str] = []
        self.slow: dict[str, threading.Event] = {}
        self.quick_verb = "unfreeze"
        self.errors: dict[str, Exception] = {}
        self.ended: list[str] = []
        self.came = threading.Condition()

    def hurry(self, seconds: float) -> Guests:
        return self

    def request(self, method: str, path: str, body: Any) -> None:
        name, verb = path.split("/")[-2:]
        self._tell(self.orders, f"{verb} {name}")
        if verb != self.quick_verb and name in self.slow:
            assert self.slow[name].wait(PATIENCE)
        if verb == "freeze" and name in self.errors:
            raise self.errors[name]

    def note_end(self, namespace: str, name: str) -> None:
        self._tell(self.ended, name)

    def wait(self, kept: list[str], *wanted: str) -> None:
        with self.came:
            assert self.came.wait_for(lambda: set(wanted) <= set(kept), PATIENCE), (wanted, kept)

    def wait_until(self, is_so: Callable[[], bool]) -> None:
        with self.came:
            assert self.came.wait_for(is_so, PATIENCE), self.orders

    def _tell(self, kept: list[str], what: str) -> None:
        with self.came:
            kept.append(what)
            self.came.notify_all()


@pytest.fixture
def guests() -> Guests:
    return Guests()


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def freezes(guests: Guests, clock: FakeClock) -> Iterator[GuestFreezes]:
    made = GuestFreezes(cast(KubeClient, guests), clock, guests.note_end)
    yield made
    for slow in guests.slow.values():
        slow.set()
    made.stop()


def carry_out(guests: Guests, freezes: GuestFreezes, *actions: Any) -> None:
    world = World()
    assert world.snapshot is not None
    client = cast(KubeClient, guests)
    writes = SnapshotWrites(client, EventRecorder(client, "test"), {}, freezes)
    assert writes.carry_out(world.snapshot, SnapshotPlan(actions)) == ("", None)


def test_a_thaw_goes_on_while_the_freeze_of_another_guest_hangs(guests: Guests, freezes: GuestFreezes) -> None:
    guests.slow["slow"] = threading.Event()
    carry_out(guests, freezes, Freeze(guest("quick"), 60, "a"))
    guests.wait(guests.ended, "quick")
    carry_out(guests, freezes, Freeze(guest("slow"), 60, "b"))
    guests.wait(guests.orders, "freeze slow")
    carry_out(guests, freezes, Thaw(guest("quick"), "a"))
    guests.wait(guests.orders, "unfreeze quick")
    assert guests.orders == ["freeze quick", "freeze slow", "unfreeze quick"]
    guests.wait_until(lambda: guests.ended == ["quick", "quick"])
    assert freezes.find(guest("quick"), "a") == FreezeCall(False, is_thawed=True)


def test_thaws_hold_up_neither_their_loop_nor_one_another_and_have_a_worker_while_all_freezes_hang(
    guests: Guests, freezes: GuestFreezes, clock: FakeClock
) -> None:
    names = [f"slow-{number}" for number in range(WORKERS)]
    guests.slow = {name: threading.Event() for name in (*names, "late")}
    for name in names:
        freezes.begin(Freeze(guest(name), 60, name))
    guests.wait(guests.orders, *(f"freeze {name}" for name in names))
    guests.quick_verb = ""
    carry_out(guests, freezes, Thaw(guest("late"), "a"), Thaw(guest("quick"), "b"))
    guests.wait(guests.ended, "quick")
    assert "late" not in guests.ended
    assert freezes.find(guest("late"), "a") == FreezeCall(False, clock.now())
    # Nobody has it frozen before it has answered, and it is asked once.
    carry_out(guests, freezes, Thaw(guest("late"), "a"), Freeze(guest("late"), 60, "c"))
    guests.slow["late"].set()
    guests.wait(guests.ended, "late")
    assert [each for each in guests.orders if "late" in each] == ["unfreeze late"]
    assert freezes.find(guest("late"), "a") == FreezeCall(False, is_thawed=True)
    freezes.begin(Freeze(guest("late"), 60, "a"))
    assert freezes.find(guest("late"), "a") == FreezeCall(True), "what was thawed before tells nothing of this one"


def test_what_was_thawed_is_forgotten_with_its_snapshot(guests: Guests, freezes: GuestFreezes) -> None:
    carry_out(guests, freezes, Thaw(guest("web"), "a"))
    guests.wait(guests.ended, "web")
    assert freezes.find(guest("web"), "b") is None
    freezes.drop("a")
    assert freezes.find(guest("web"), "a") is None


def test_others_are_frozen_while_one_hangs_and_no_more_than_there_are_workers(
    guests: Guests, freezes: GuestFreezes
) -> None:
    names = [f"slow-{number}" for number in range(WORKERS)]
    guests.slow = {name: threading.Event() for name in names}
    for name in names:
        freezes.begin(Freeze(guest(name), 60, name))
    guests.wait(guests.orders, *(f"freeze {name}" for name in names))
    freezes.begin(Freeze(guest("last"), 60, "last"))
    # One that waits has not been asked, so that its time does not run.
    assert freezes.find(guest("last"), "last") == FreezeCall(True)
    assert "freeze last" not in guests.orders
    guests.slow["slow-3"].set()
    guests.wait(guests.ended, "slow-3", "last")


def test_a_guest_is_never_frozen_twice_at_once(guests: Guests, freezes: GuestFreezes, clock: FakeClock) -> None:
    guests.slow["web"] = threading.Event()
    vmi = guest("web")
    for snapshot in ("a", "a", "b"):
        freezes.begin(Freeze(vmi, 60, snapshot))
    guests.wait(guests.orders, "freeze web")
    freezes.begin(Freeze(guest("web", "uid-of-the-next-run"), 60, "c"))
    assert freezes.find(vmi, "b") == FreezeCall(False, clock.now())
    guests.slow["web"].set()
    guests.wait(guests.ended, "web")
    assert guests.orders == ["freeze web"]
    assert freezes.find(vmi, "b") is None
    assert freezes.find(guest("web", "uid-of-the-next-run"), "a") is None
    freezes.begin(Freeze(vmi, 60, "b"))
    with guests.came:
        assert guests.came.wait_for(lambda: guests.orders == ["freeze web"] * 2, PATIENCE)


def test_what_came_of_it_is_seen_with_when_it_began(guests: Guests, freezes: GuestFreezes, clock: FakeClock) -> None:
    guests.slow["web"] = threading.Event()
    guests.errors["web"] = Unavailable(503, "", "the guest agent does not answer")
    begun, vmi = clock.now(), guest("web")
    freezes.begin(Freeze(vmi, 60, "a"))
    guests.wait(guests.orders, "freeze web")
    clock.set_wall(begun + timedelta(seconds=40))
    guests.slow["web"].set()
    guests.wait(guests.ended, "web")
    found = freezes.find(vmi, "a")
    assert found == FreezeCall(True, begun, begun + timedelta(seconds=40), str(guests.errors["web"]))
    guests.slow["web"].clear()
    freezes.begin(Freeze(vmi, 60, "a"))
    again = freezes.find(vmi, "a")
    assert again is not None
    assert (again.ended, again.fault) == (None, found.fault), "a try that goes on has the words of the last one"


@pytest.mark.parametrize("how", ["thaw", "snapshot gone", "failed late"])
def test_a_guest_that_nobody_wants_frozen_any_more_is_thawed_when_its_freeze_has_ended(
    how: str, guests: Guests, freezes: GuestFreezes
) -> None:
    guests.slow["web"] = threading.Event()
    vmi = guest("web")
    if how == "failed late":
        guests.errors["web"] = Unavailable(503, "", "no answer within 45 s")
    freezes.begin(Freeze(vmi, 60, "a"))
    guests.wait(guests.orders, "freeze web")
    if how == "snapshot gone":
        freezes.drop("a")
    else:
        carry_out(guests, freezes, Thaw(vmi, "a"))
    assert guests.orders == ["freeze web"]
    found = freezes.find(vmi, "a")
    assert found is not None
    assert not found.is_own
    guests.slow["web"].set()
    guests.wait(guests.ended, "web")
    assert guests.orders == ["freeze web", "unfreeze web"]
    assert freezes.find(vmi, "a") == (None if how == "snapshot gone" else FreezeCall(False, is_thawed=True))


def test_a_defect_is_a_failed_call_and_ends_no_other(guests: Guests, freezes: GuestFreezes) -> None:
    guests.errors["web"] = ValueError("on purpose")
    freezes.begin(Freeze(guest("web"), 60, "a"))
    guests.wait(guests.ended, "web")
    found = freezes.find(guest("web"), "a")
    assert found is not None
    assert "could not be asked" in found.fault
    assert [each.failure() for each in freezes.loops] == [None, None]


@pytest.mark.parametrize("code", [404, 409, 500, 503])
def test_a_freeze_that_is_refused_has_the_words_of_the_server(tmp_path: Path, code: int) -> None:
    vmi = a_vmi("Running")
    with scripted_api(refusing(code, "Refused", "the guest agent does not answer")) as api:
        client = KubeClient.from_kubeconfig(api.write_kubeconfig(tmp_path / "kubeconfig"))
        with pytest.raises(KubeError, match="the guest agent does not answer"):
            ask_freeze(client, Freeze(vmi, 60, "a"))
        client.close()
        (asked,) = api.requests
    assert (asked.method, asked.path) == ("PUT", f"{PATH}{vmi.metadata.name}/freeze")
    assert json.loads(asked.body) == {"unfreezeTimeout": "60s"}


def test_a_thaw_that_fails_is_left_to_the_launcher(tmp_path: Path) -> None:
    with scripted_api(refusing(500, "InternalError", "no answer")) as api:
        client = KubeClient.from_kubeconfig(api.write_kubeconfig(tmp_path / "kubeconfig"))
        thaw_guest(client, a_vmi("Running"))
        client.close()
        assert [each.path.rpartition("/")[2] for each in api.requests] == ["unfreeze"]

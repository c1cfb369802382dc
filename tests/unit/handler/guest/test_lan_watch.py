"""A network that goes while a guest runs: condition, event, and that both end by themselves."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from kvedge.handler.guest import lan_watch
from kvedge.handler.guest.lan_watch import LAN_SECONDS, LanWatch
from kvedge.handler.guest.pass_events import PassEvents
from kvedge.handler.guest.pass_memory import PassMemory
from kvedge.handler.guest.vmi_status import Observation, status_patch
from kvedge.handler.launchers.sync_plan import LauncherView
from kvedge.network.errors import NetworkError
from kvedge.network.insight.cut_off import NicSeen
from kvedge.resources.codec import JsonObject
from kvedge.resources.meta import Condition
from kvedge.resources.types.pod_networks import pod_nic
from kvedge.rpc import launcher_pb2 as pb
from tests.support.builders import vmi_with
from tests.support.clocks import FakeClock
from tests.support.values import replace

KEY: Any = ("default", "web")
RUNS = LauncherView(connected=True, synced=True, status=pb.DomainStatus(state=pb.DOMAIN_STATE_RUNNING))
GONE = "there is no bridge br0 on the node; make it again: the guest is put back on it within the minute"
SAID = f"spec.networks[1] (lan): the guest is cut off: {GONE}"
SPEC: JsonObject = {
    "domain": {"devices": {"interfaces": [{"name": "default", "bridge": {}}, {"name": "lan", "bridge": {}}]}},
    "networks": [{"name": "default", "pod": {}}, {"name": "lan", "multus": {"networkName": "lan"}}],
}
JOINED = {"phase": "Running", "interfaces": [{"name": "lan", "infoSource": "domain, multus-status"}]}


class World:
    """A node whose links a test plays, and the watch over one guest of it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.trouble = ""
        self.fails = False
        self.is_gone = False
        self.said: list[tuple[str, str]] = []
        self.looked_up: list[dict[str, int]] = []
        self.clock = FakeClock()
        recorder = SimpleNamespace(record=lambda _vmi, _type, reason, text: self.said.append((reason, text)))
        events = PassEvents(recorder, SimpleNamespace())  # type: ignore[arg-type]
        connections = SimpleNamespace(launcher=lambda _: nullcontext("the launcher"))
        self.watch = LanWatch(connections, events, self.clock)  # type: ignore[arg-type]
        monkeypatch.setattr(self.watch.links, "judge", self._judge)
        monkeypatch.setattr(lan_watch, "hold_network", lambda _: nullcontext(7))
        monkeypatch.setattr(lan_watch, "ends_of", self._ends_of)
        self.vmi = vmi_with(SPEC, JOINED)
        self.memory = PassMemory("uid", 0.0)

    def _ends_of(self, _netns: int, nics: dict[str, int]) -> dict[str, int]:
        self.looked_up.append(dict(nics))
        return dict.fromkeys(nics, 9)

    def _judge(self, ends: dict[str, int], _before: dict[str, NicSeen]) -> dict[str, NicSeen]:
        if self.fails:
            raise NetworkError("cannot list links")
        return {nic: NicSeen("br0", (), self.trouble, is_gone=self.is_gone) for nic in ends}

    def look(self, view: LauncherView = RUNS) -> float | None:
        return self.watch.look(KEY, self.vmi, view, self.memory)

    def look_later(self) -> tuple[str, ...]:
        self.clock.seconds += LAN_SECONDS
        assert self.look() == LAN_SECONDS
        return self.memory.cut_off


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch)


def test_a_bridge_that_goes_is_told_by_field_and_once_and_no_more_when_it_is_back(world: World) -> None:
    assert world.look() == LAN_SECONDS
    assert (world.memory.cut_off, world.said) == ((), [])
    world.trouble = GONE
    assert world.look_later() == (SAID,)
    assert world.look_later() == (SAID,)
    assert world.said == [("NetworkCutOff", SAID)]
    world.trouble = ""
    assert world.look_later() == ()
    assert world.looked_up == [{pod_nic("lan"): 1}], "a Pod's pairs stay as they are"


def test_between_two_looks_nothing_is_asked(world: World) -> None:
    world.look()
    world.trouble = GONE
    world.clock.seconds += 5
    assert world.look() == LAN_SECONDS - 5
    assert world.memory.cut_off == ()


def test_a_look_that_fails_changes_nothing(world: World) -> None:
    world.trouble = GONE
    world.look()
    world.fails = True
    assert world.look_later() == (SAID,)


def test_a_guest_that_has_ended_is_cut_off_from_nothing(world: World) -> None:
    world.trouble = GONE
    world.look()
    assert world.look(replace(RUNS, status=pb.DomainStatus(state=pb.DOMAIN_STATE_SHUTOFF))) is None
    assert world.memory.cut_off == ()


def test_while_a_launcher_is_reconnected_what_was_seen_last_holds(world: World) -> None:
    world.trouble = GONE
    world.look()
    assert world.look(LauncherView()) is None
    assert world.memory.cut_off == (SAID,)


def test_a_pair_that_was_made_anew_is_looked_up_again(world: World) -> None:
    world.is_gone = True
    world.look()
    world.is_gone = False
    world.look_later()
    world.look_later()
    assert len(world.looked_up) == 2


def test_a_guest_on_the_pods_network_alone_is_not_looked_at(world: World) -> None:
    world.vmi = vmi_with({**SPEC, "networks": SPEC["networks"][:1]}, JOINED)
    assert world.look() is None
    assert world.looked_up == []


def test_a_nic_that_has_not_joined_yet_is_looked_at_once_it_has(world: World) -> None:
    joined = world.vmi
    world.vmi = vmi_with(SPEC, {"phase": "Running"})
    assert world.look() is None
    world.vmi = joined
    world.look()
    assert world.looked_up == [{pod_nic("lan"): 1}]


def synchronized(world: World, cut_off: tuple[str, ...]) -> Condition | None:
    """What the VMI says after a pass that saw this."""
    seen = Observation(phase="Running", status=RUNS.status, cut_off=cut_off)
    patch = status_patch(world.vmi, seen, world.clock.now())
    changes: Any = patch["status"] if patch else {}
    world.vmi = vmi_with(SPEC, {key: value for key, value in (JOINED | changes).items() if value is not None})
    return next((each for each in world.vmi.status.conditions if each.type == "Synchronized"), None)


def test_the_condition_comes_and_goes_with_the_trouble(world: World) -> None:
    found = synchronized(world, (SAID,))
    assert found is not None
    assert (found.status, found.reason, found.message) == ("False", "NetworkCutOff", SAID)
    assert synchronized(world, ()) is None

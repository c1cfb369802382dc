"""Volumes and interfaces on their way to a run: what is refused is told, and tried again after a pause."""

from __future__ import annotations

from unittest.mock import MagicMock

import pytest

from kvedge.controller.vm.live_changes import LiveChanges
from kvedge.controller.vm.vm_actions import Live
from kvedge.kube.errors import Conflict, Forbidden, KubeError, NotFound, Unavailable
from kvedge.resources.meta import ObjectMeta
from kvedge.resources.types.vm import VirtualMachine
from tests.support.clocks import FakeClock


class Carrying:
    """One VM, whose run takes volumes or refuses them."""

    def __init__(self) -> None:
        self.clock, self.events = FakeClock(), MagicMock()
        self.live = LiveChanges(self.events, self.clock.monotonic, lambda: True)
        self.vm = VirtualMachine(metadata=ObjectMeta(name="web", uid="vm", generation=1))

    def carry(self, refusal: KubeError | None = None, what: Live = Live.VOLUMES) -> None:
        self.live.carry(self.vm, what, MagicMock(side_effect=refusal))

    def refusals(self) -> dict[Live, str]:
        return dict(self.live.hotplug_of(self.vm).refusals)


def test_a_refusal_is_told_and_known_until_the_pause_is_over() -> None:
    carrying = Carrying()
    carrying.carry(Forbidden(403, "Forbidden", "no more volumes"))
    ((_, kind, reason, text), _) = carrying.events.record.call_args
    assert (kind, reason) == ("Warning", "HotPlugVolumeError")
    assert "no more volumes" in text
    assert carrying.refusals() == {Live.VOLUMES: text}
    left = carrying.live.count_seconds_left(carrying.vm)
    assert left is not None
    carrying.clock.seconds += left
    assert carrying.refusals() == {}
    assert carrying.live.count_seconds_left(carrying.vm) is None


def test_interfaces_are_carried_while_volumes_are_refused() -> None:
    carrying = Carrying()
    carrying.carry(Forbidden(403, "Forbidden", "no more volumes"))
    carrying.carry(None, Live.INTERFACES)
    assert list(carrying.refusals()) == [Live.VOLUMES]
    carrying.carry(Forbidden(403, "Forbidden", "no such network"), Live.INTERFACES)
    assert carrying.events.record.call_args.args[2] == Live.INTERFACES.value
    assert set(carrying.refusals()) == {Live.VOLUMES, Live.INTERFACES}


@pytest.mark.parametrize("ends", ["another spec", "they are taken", "the VM is gone"])
def test_a_refusal_is_forgotten_when_it_no_longer_holds(ends: str) -> None:
    carrying = Carrying()
    carrying.carry(Forbidden(403, "Forbidden", "no more volumes"))
    if ends == "another spec":
        carrying.vm.metadata.generation = 2
    elif ends == "they are taken":
        carrying.carry()
    else:
        carrying.live.forget("vm")
    assert carrying.live.count_seconds_left(carrying.vm) is None
    assert carrying.refusals() == {}


@pytest.mark.parametrize(
    "error",
    [Conflict(409, "Conflict", ""), NotFound(404, "NotFound", ""), Unavailable(503, "", "")],
    ids=["it has changed", "it is gone", "the server is busy"],
)
def test_what_passes_by_itself_is_the_loops_to_repeat(error: KubeError) -> None:
    carrying = Carrying()
    with pytest.raises(type(error)):
        carrying.carry(error)
    assert carrying.live.count_seconds_left(carrying.vm) is None
    assert not carrying.events.record.called

"""Which side's steps apply to a VMI that two caches of one node may know of."""

from __future__ import annotations

from typing import Any

import pytest

from kvedge.handler.guest.moving_guests import MovingGuests
from kvedge.resources.types.vmi import VirtualMachineInstance
from tests.support.migration_world import HERE, KEY, THERE, Cache, moving_vmi


class Targets:
    """What was asked of the target's steps."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def keep(self, _key: object) -> None:
        self.asked.append("keep")

    def forget(self, _key: object) -> None:
        self.asked.append("forget")


def at_version(version: int, node: str, **state: Any) -> VirtualMachineInstance:
    vmi = moving_vmi(node, **state)
    vmi.metadata.resource_version = str(version)
    return vmi


CASES = [
    pytest.param(None, None, False, ["forget"], id="a vmi that is nowhere"),
    pytest.param(at_version(5, HERE), None, True, [], id="one that is to come"),
    pytest.param(at_version(9, HERE), at_version(10, THERE), False, ["keep"], id="one that has come"),
    pytest.param(at_version(10, HERE), at_version(9, THERE), True, [], id="one that left and comes back"),
    pytest.param(at_version(5, HERE, targetNode="node-c"), None, False, ["forget"], id="one that goes elsewhere"),
    pytest.param(None, at_version(5, THERE), False, ["keep"], id="one of this node"),
]


@pytest.mark.parametrize(("coming", "own", "comes", "asked"), CASES)
def test_whose_a_vmi_is(
    coming: VirtualMachineInstance | None, own: VirtualMachineInstance | None, comes: bool, asked: list[str]
) -> None:
    targets = Targets()
    moving = MovingGuests(Cache(coming), None, targets, THERE)  # type: ignore[arg-type]
    found = moving.find_coming(KEY, own)
    assert (found is not None and found is coming) is comes
    assert targets.asked == asked

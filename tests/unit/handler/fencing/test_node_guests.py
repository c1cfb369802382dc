"""Whose guests a node is to end, by what the API says of them."""

from __future__ import annotations

from typing import Any

import pytest

from kvedge.handler.fencing.node_guests import NodeGuests, Wish
from kvedge.resources.meta import ObjectMeta
from kvedge.resources.node_loss.fence_terms import SELF_FENCING, FenceTerms
from kvedge.resources.node_loss.node_lease import ON_NODE_LOSS
from kvedge.resources.types.kubevirt import KubeVirt
from kvedge.resources.types.migrations import MigrationState
from kvedge.resources.types.vmi import VirtualMachineInstance, VirtualMachineInstanceStatus


class Listed:
    """An informer that has listed this."""

    def __init__(self, *items: Any, synced: bool = True) -> None:
        self.items, self.synced, self.started = items, synced, False

    def start(self) -> None:
        self.started = True

    def stop(self) -> None:
        self.started = False

    def failure(self) -> str | None:
        return None

    def wait_synced(self, timeout: float) -> bool:
        return self.synced

    def list(self) -> tuple[Any, ...]:
        return self.items


def a_vmi(uid: str, word: str | None, **status: Any) -> VirtualMachineInstance:
    annotations = {} if word is None else {ON_NODE_LOSS: word}
    found = VirtualMachineInstanceStatus(phase="Running", node_name="n", active_pods={f"pod-{uid}": "n", "else": "m"})
    for name, value in status.items():
        setattr(found, name, value)
    return VirtualMachineInstance(metadata=ObjectMeta(name=uid, uid=uid, annotations=annotations), status=found)


def made(kubevirt: Listed, vmis: Listed, coming: Listed) -> NodeGuests:
    guests = NodeGuests.__new__(NodeGuests)
    guests._node, guests._follows_vmis = "n", False
    guests._kubevirts, guests._vmis, guests._coming = kubevirt, vmis, coming  # type: ignore[assignment]
    return guests


def asking(text: str) -> Listed:
    metadata = ObjectMeta(name="kubevirt", annotations={SELF_FENCING: text})
    return Listed(KubeVirt(metadata=metadata))


MOVING = MigrationState(migration_uid="m", source_node="m", target_node="n")


def test_those_that_ask_for_it_are_to_end_and_all_that_are_here_are_known() -> None:
    vmis = Listed(
        a_vmi("a", "restart"),
        a_vmi("b", "wait"),
        a_vmi("c", None),
        a_vmi("over", "restart", phase="Failed"),
        a_vmi("left", "restart", node_name="m"),
    )
    coming = Listed(a_vmi("d", "restart", node_name="m", migration_state=MOVING))
    wish = made(asking("enabled"), vmis, coming).read()
    assert wish == Wish(FenceTerms(), {"a": "pod-a", "d": "pod-d"}, frozenset("abcd"))


@pytest.mark.parametrize("text", ["", "disabled", "soon"])
def test_vmis_are_not_even_followed_where_nodes_do_not_fence_themselves(text: str) -> None:
    vmis = Listed(a_vmi("a", "restart"))
    assert made(asking(text), vmis, Listed()).read() == Wish()
    assert not vmis.started


def test_what_is_switched_off_later_asks_for_no_guest() -> None:
    guests = made(asking("enabled"), Listed(a_vmi("a", "restart")), Listed())
    assert guests.read() != Wish()
    guests._kubevirts = asking("disabled")  # type: ignore[assignment]
    assert guests.read() == Wish(None, {}, frozenset("a"))


def test_nothing_is_said_before_the_api_has_told_all() -> None:
    assert made(Listed(synced=False), Listed(), Listed()).read() is None
    assert made(asking("enabled"), Listed(synced=False), Listed()).read() is None

# Tests: kvedge/launcher/hotplug/memory_plan.py, kvedge/resources/values/memory_blocks.py
"""How much memory a running guest is asked to have."""

from __future__ import annotations

import pytest

from kvedge.launcher.hotplug.memory_plan import MemoryStep, plan_memory, refuse_growth
from kvedge.launcher.libvirt.domain_facts import MemoryFacts

GIB = 1 << 30
MIB = 1 << 20


def facts(requested: int = 0, plugged: int = 0) -> MemoryFacts:
    return MemoryFacts(boot=GIB, room=3 * GIB, requested=requested, plugged=plugged)


@pytest.mark.parametrize(
    ("wanted", "has", "steps"),
    [
        (2 * GIB, facts(), [MemoryStep(GIB, GIB)]),
        (4 * GIB, facts(GIB, GIB), [MemoryStep(3 * GIB, 2 * GIB)]),
        (4 * GIB, facts(GIB, 0), [MemoryStep(3 * GIB, 2 * GIB)]),
        (GIB, facts(GIB, GIB), [MemoryStep(0)]),
        (2 * GIB, facts(2 * GIB, 2 * GIB), [MemoryStep(GIB)]),
        (GIB + 1, facts(), [MemoryStep(2 * MIB, 2 * MIB)]),
        (2 * GIB, facts(GIB, 0), []),
        (GIB // 2, facts(), []),
        (0, facts(GIB, GIB), []),
        (2 * GIB, MemoryFacts(), []),
    ],
    ids=[
        "more",
        "more again",
        "more after a migration",
        "all back",
        "some back",
        "blocks",
        "asked",
        "less than at start",
        "unsaid",
        "no domain",
    ],
)
def test_a_guest_is_asked_once_and_for_whole_blocks(wanted: int, has: MemoryFacts, steps: list[MemoryStep]) -> None:
    assert plan_memory(wanted, has) == steps


def test_what_there_is_no_room_for_is_refused_by_name() -> None:
    (step,) = plan_memory(5 * GIB, facts())
    assert step.refusal == "the guest was started with room for 4096 MiB of memory, and is to have 5120 MiB"
    (step,) = plan_memory(2 * GIB, MemoryFacts(boot=GIB))
    assert step.refusal == "the guest was started with room for 1024 MiB of memory, and is to have 2048 MiB"


@pytest.mark.parametrize(("free", "is_refused"), [(GIB, False), (GIB - 1, True), (None, False)])
def test_a_guest_grows_into_what_the_node_has_to_spare(free: int | None, is_refused: bool) -> None:
    assert bool(refuse_growth(MemoryStep(2 * GIB, GIB), free)) is is_refused


def test_a_refusal_names_both_sizes() -> None:
    told = refuse_growth(MemoryStep(GIB, GIB), 100 * MIB)
    assert told == "the node has 100 MiB of memory to spare, and the guest is to have 1024 MiB more"

"""How much memory a running guest is to be asked to have beside what it started with.

Called by `memory_keeper`. Pure: no clock, no libvirt. A guest that is to have less gives back what it can spare, when
it can: it is asked once, and has as much as `MemoryFacts.plugged` says.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from kvedge.launcher.libvirt.domain_facts import MemoryFacts
from kvedge.resources.values.memory_blocks import MEMORY_BLOCK

_MIB: Final = 1 << 20


class MemoryStep(NamedTuple):
    """Ask the guest to have `requested` bytes beside those of its start; `refusal` is why that cannot be, or empty."""

    requested: int
    more: int = 0
    refusal: str = ""

    @property
    def name(self) -> str:
        """There is one such step at a time."""
        return "memory"


def plan_memory(wanted: int, facts: MemoryFacts) -> list[MemoryStep]:
    """The step that is due, if any, for a guest that is to have so many bytes in all; 0 asks for nothing."""
    if not wanted or not facts.boot:
        return []
    beside = max(0, wanted - facts.boot)
    requested = -(-beside // MEMORY_BLOCK) * MEMORY_BLOCK
    if requested > facts.room:
        has = (facts.boot + facts.room) // _MIB
        text = f"the guest was started with room for {has} MiB of memory, and is to have {-(-wanted // _MIB)} MiB"
        return [MemoryStep(requested, refusal=text)]
    if requested == facts.requested:
        return []
    # What the guest was asked to have before has been looked for already; libvirt may not know that it has it.
    return [MemoryStep(requested, more=max(0, requested - max(facts.requested, facts.plugged)))]


def refuse_growth(step: MemoryStep, free: int | None) -> str:
    """Why the node has not got the memory of this step; empty when it has. `free` is None where that is not known.

    The Pod has asked the scheduler for what the guest started with: what comes beside it is looked for here.
    """
    if free is None or step.more <= free:
        return ""
    return f"the node has {free // _MIB} MiB of memory to spare, and the guest is to have {step.more // _MIB} MiB more"

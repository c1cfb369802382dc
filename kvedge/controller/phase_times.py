"""How long VMIs and migrations took to a phase, by the moments in their status.

Called by the loops over them when they hear of a change. Pure. A change that was missed, while nobody watched, is not
counted: that is KubeVirt's way, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kvedge.kube.figures.vmi_figures import BETWEEN, FROM_CREATION, FROM_DELETION, MIGRATION, Transition
from kvedge.resources.types.migrations import MigrationPhaseTransition, VirtualMachineInstanceMigration
from kvedge.resources.types.vmi import PhaseTransition, VirtualMachineInstance
from kvedge.runtime.clock import parse_rfc3339

_Found = Iterator[tuple[Transition, float]]


def time_vmi(old: VirtualMachineInstance | None, new: VirtualMachineInstance | None) -> _Found:
    """What a change of a VMI says of its phases."""
    if old is None or new is None or old.status.phase == new.status.phase:
        return
    phase, last = new.status.phase, old.status.phase
    entries = new.status.phase_transition_timestamps
    entered, made = _find(entries, phase), new.metadata.creation_timestamp
    before = made if not last else _find(entries, last)
    yield from _measure(Transition(BETWEEN, phase, last), before, entered)
    yield from _measure(Transition(FROM_CREATION, phase), made, entered)
    if new.is_final:
        yield from _measure(Transition(FROM_DELETION, phase), new.metadata.deletion_timestamp, entered)


def time_migration(old: VirtualMachineInstanceMigration | None, new: VirtualMachineInstanceMigration | None) -> _Found:
    """What a change of a migration says of its phases."""
    if old is None or new is None or old.status.phase == new.status.phase:
        return
    entered = _find(new.status.phase_transition_timestamps, new.status.phase)
    yield from _measure(Transition(MIGRATION, new.status.phase), new.metadata.creation_timestamp, entered)


def _find(entries: Iterable[PhaseTransition | MigrationPhaseTransition], phase: str) -> str | None:
    """When a phase was entered last."""
    entered: dict[str, str] = {entry.phase: entry.phase_transition_timestamp for entry in entries}
    return entered.get(phase)


def _measure(transition: Transition, start: str | None, end: str | None) -> _Found:
    if not start or not end:
        return
    try:
        seconds = (parse_rfc3339(end) - parse_rfc3339(start)).total_seconds()
    except (ValueError, OverflowError):
        return
    # Clocks of two nodes.
    yield transition, max(0.0, seconds)

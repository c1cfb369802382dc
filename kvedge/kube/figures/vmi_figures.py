"""What this process counts of VMIs and migrations: how long they took to each phase, and the rounds over each VMI.

Fed by the controller's loops and the handler's; from any thread. The phases are few. The rounds of a bounded number of
VMIs are counted, and those of a VMI that goes are forgotten.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable
from typing import Final, NamedTuple

from kvedge.kube.figures.histogram import Histogram
from kvedge.resources.usage.role_stats import TransitionStats, VmiCount

# KubeVirt's bounds, in seconds.
BOUNDS: Final = (0.5, 1, 2, 5, 10, 20, 30, 40, 50, 60, 90, 120, 180, 300, 600, 1200, 1800, 3600)
# VMIs whose rounds are counted.
MOST_VMIS: Final = 1000
# Guests whose panics are remembered: a VM that starts again after one has another VMI of the same name.
MOST_PANICKED: Final = 500


class Transition(NamedTuple):
    """A change of a phase: `kind` says from which moment on its time is counted, `last_phase` is told by one kind."""

    kind: str
    phase: str
    last_phase: str = ""


# The kinds of transitions: from the phase before, from the object's creation, from its deletion.
BETWEEN: Final = "vmi"
FROM_CREATION: Final = "vmi-from-creation"
FROM_DELETION: Final = "vmi-from-deletion"
MIGRATION: Final = "migration-from-creation"


class VmiFigures:
    """Counts of one process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._times: dict[Transition, Histogram] = {}
        self._rounds: Counter[tuple[str, str]] = Counter()
        # In the order of their last panics.
        self._panics: Counter[tuple[str, str]] = Counter()

    def note_transitions(self, found: Iterable[tuple[Transition, float]]) -> None:
        """These changes took so many seconds."""
        with self._lock:
            for transition, seconds in found:
                self._times.setdefault(transition, Histogram(BOUNDS)).observe(seconds)

    def note_round(self, namespace: str, name: str) -> None:
        """A VMI was seen to."""
        with self._lock:
            if (namespace, name) in self._rounds or len(self._rounds) < MOST_VMIS:
                self._rounds[namespace, name] += 1

    def note_panic(self, namespace: str, name: str) -> None:
        """A guest's system has panicked."""
        with self._lock:
            self._panics[namespace, name] = self._panics.pop((namespace, name), 0) + 1
            if len(self._panics) > MOST_PANICKED:
                del self._panics[next(iter(self._panics))]

    def forget(self, namespace: str, name: str) -> None:
        """A VMI is gone."""
        with self._lock:
            self._rounds.pop((namespace, name), None)

    def tell_transitions(self) -> list[TransitionStats]:
        """How long changes of phases took."""
        with self._lock:
            return [
                TransitionStats(**transition._asdict(), times=histogram.tell())
                for transition, histogram in self._times.items()
            ]

    def tell_rounds(self) -> list[VmiCount]:
        """How often each VMI was seen to."""
        return self._tell(self._rounds)

    def tell_panics(self) -> list[VmiCount]:
        """How often the system of each guest has panicked."""
        return self._tell(self._panics)

    def _tell(self, counts: Counter[tuple[str, str]]) -> list[VmiCount]:
        with self._lock:
            return [
                VmiCount(namespace=namespace, name=name, count=count) for (namespace, name), count in counts.items()
            ]


VMI_FIGURES: Final = VmiFigures()

"""Carries changes of a VM to its running guest, and remembers the refused ones.

Used by the VM loop. The user hears of a refusal by an event, and the change is tried again with back-off.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from kvedge.controller.vm.create_patience import CreatePatience
from kvedge.controller.vm.create_refusal import is_passing
from kvedge.controller.vm.vm_actions import Hotplug, Live, Rollout
from kvedge.kube.errors import Conflict, KubeError, NotFound
from kvedge.kube.events import EventRecorder
from kvedge.resources.types.vm import VirtualMachine

_DOING: Final = {
    Live.VOLUMES: "handling declarative hotplug volumes",
    Live.INTERFACES: "trying to patch the interfaces of the run",
    Live.MEMORY_DUMP: "bringing the claim of a memory dump to the run, or taking it back",
    Live.CPUS: "plugging CPUs into the run",
    Live.PLACEMENT: "trying to patch where the run may be",
    Live.MEMORY: "changing the memory of the run",
    Live.BACKUPS: "telling the run whether backups freeze its guest",
    Live.MACHINE: "noting in the VM which machine its guest has, which it may lose with its next start",
}

T = TypeVar("T")


class LiveChanges:
    """The refusals, by the VM's UID and the part of the VM."""

    def __init__(
        self,
        events: EventRecorder,
        monotonic: Callable[[], float],
        is_declarative: Callable[[], bool],
        plugins: Callable[[], frozenset[str]] = frozenset,
        rollout: Callable[[], Rollout] = Rollout,
    ) -> None:
        self._events = events
        self._is_declarative = is_declarative
        self._plugins = plugins
        self._rollout = rollout
        self._patience = {what: CreatePatience(monotonic) for what in Live}
        self._texts: dict[tuple[str, Live], str] = {}

    def hotplug_of(self, vm: VirtualMachine) -> Hotplug:
        """What the plan has to know: the changes that wait for another try, and why."""
        uid = vm.metadata.uid
        refusals = {what: self._texts[uid, what] for what in self._find_waits(vm) if (uid, what) in self._texts}
        return Hotplug(self._is_declarative(), refusals, self._plugins(), rollout=self._rollout())

    def count_seconds_left(self, vm: VirtualMachine) -> float | None:
        """In how many seconds the next change is tried again; None when none waits."""
        return min(self._find_waits(vm).values(), default=None)

    def forget(self, uid: str) -> None:
        """The VM is gone."""
        for what in Live:
            self._clear(uid, what)

    def carry(self, vm: VirtualMachine, what: Live, patch: Callable[[], T]) -> T | None:
        """Carry a change to the run by `patch`, whose result is returned, and tell the user of a refusal.

        Raises:
            KubeError: when the pass should be repeated.
        """
        meta = vm.metadata
        try:
            patched = patch()
        except (Conflict, NotFound):
            raise
        except KubeError as error:
            if is_passing(error):
                raise
            text = f"Error encountered while {_DOING[what]}: {error}"
            self._texts[meta.uid, what] = text
            self._patience[what].note_refusal(meta.uid, meta.generation)
            self._events.record(vm, "Warning", what.value, text)
            return None
        self._clear(meta.uid, what)
        return patched

    def _find_waits(self, vm: VirtualMachine) -> dict[Live, float]:
        meta = vm.metadata
        left = {what: self._patience[what].count_seconds_left(meta.uid, meta.generation) for what in Live}
        return {what: seconds for what, seconds in left.items() if seconds > 0}

    def _clear(self, uid: str, what: Live) -> None:
        self._patience[what].forget(uid)
        self._texts.pop((uid, what), None)

"""Carries a VM's hotpluggable volumes to its run, and remembers what was refused of them.

Used by the VM loop.
"""

from __future__ import annotations

from collections.abc import Callable

from kvedge.controller.vm.create_patience import CreatePatience
from kvedge.controller.vm.create_refusal import is_passing
from kvedge.controller.vm.vm_plan import Hotplug
from kvedge.kube.errors import Conflict, KubeError, NotFound
from kvedge.kube.events import EventRecorder
from kvedge.resources.types.vm import VirtualMachine


class RunVolumes:
    """Why volumes could not be carried, by the VM's UID, and how long not to try."""

    def __init__(
        self, events: EventRecorder, monotonic: Callable[[], float], is_declarative: Callable[[], bool]
    ) -> None:
        self._events = events
        self._is_declarative = is_declarative
        self._patience = CreatePatience(monotonic)
        self._refusals: dict[str, str] = {}

    def seen(self, vm: VirtualMachine) -> Hotplug:
        """What the plan has to know of it."""
        is_refused = self.seconds_left(vm) > 0
        return Hotplug(self._is_declarative(), self._refusals.get(vm.metadata.uid, "") if is_refused else "")

    def seconds_left(self, vm: VirtualMachine) -> float:
        """How long not to try."""
        return self._patience.seconds_left(vm.metadata.uid, vm.metadata.generation)

    def forget(self, uid: str) -> None:
        """They were carried, or the VM is gone."""
        self._patience.forget(uid)
        self._refusals.pop(uid, None)

    def carry(self, vm: VirtualMachine, patch: Callable[[], None]) -> None:
        """Carry volumes to the run by `patch`; what is refused is told, and tried again with back-off.

        Raises:
            KubeError: when the pass is just to be repeated.
        """
        uid = vm.metadata.uid
        try:
            patch()
        except (Conflict, NotFound):
            raise
        except KubeError as error:
            if is_passing(error):
                raise
            text = f"Error encountered while handling declarative hotplug volumes: {error}"
            self._refusals[uid] = text
            self._patience.refused(uid, vm.metadata.generation)
            self._events.record(vm, "Warning", "HotPlugVolumeError", text)
        else:
            self.forget(uid)

"""Waits until a VM or VMI is as it was asked to be, and tells how far it is.

Called by the verbs with --wait. Polls the API; the pure functions here judge the objects that were seen.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from types import TracebackType
from typing import Final, Protocol, Self

from msgspec import Struct

from kvedge.client.errors import RefusedError, TimedOutError
from kvedge.client.session import Session
from kvedge.kube.errors import NotFound, Unavailable
from kvedge.resources.codec import JsonObject
from kvedge.resources.kinds import Kind
from kvedge.resources.meta import Condition
from kvedge.resources.phases import FINAL_PHASES
from kvedge.resources.types.vm import VirtualMachine
from kvedge.resources.types.vmi import VirtualMachineInstance

# Short at first, as most things take a second or two; then easy on the server.
_FIRST_LOOK: Final = 0.1
_LONGEST_LOOK: Final = 1.0
# With these run strategies the controller starts no guest again that has ended.
_RUNS_ONCE: Final = frozenset({"Once", "Manual", "Halted"})
# With these it starts a guest by itself.
_STARTING: Final = ("Always", "RerunOnFailure", "Once")


class Seen(Struct, frozen=True):
    """A VM and its VMI as they were at one time; None for what is not there."""

    vm: VirtualMachine | None
    vmi: VirtualMachineInstance | None

    @property
    def run(self) -> str:
        """The UID of the run."""
        return self.vmi.metadata.uid if self.vmi is not None else ""


def starts_by_itself(kind: Kind, document: JsonObject) -> bool:
    """Whether a manifest is of a guest that starts by itself."""
    if kind.group != "kubevirt.io" or kind.kind not in ("VirtualMachine", "VirtualMachineInstance"):
        return False
    spec = document.get("spec") or {}
    is_vmi = kind.kind == "VirtualMachineInstance"
    return is_vmi or spec.get("running") is True or spec.get("runStrategy") in _STARTING


def is_running(seen: Seen, before: str = "", *, paused: bool = False) -> bool:
    """Whether it runs, in another run than the one `before`, and its VM says so too."""
    if seen.vmi is None or seen.vmi.status.phase != "Running" or (before and seen.run == before):
        return False
    if seen.vm is None:
        return True
    return seen.vm.status.printable_status in {"Running", "Migrating", *(("Paused",) if paused else ())}


def is_stopped(seen: Seen, before: str) -> bool:
    """Whether the run `before` is over and gone, and no other has begun that is not ending too."""
    return seen.vmi is None if not before else seen.run != before


def is_over(seen: Seen, before: str = "") -> bool:
    """Whether the guest has ended and will not be started again."""
    if seen.vmi is None or seen.run == before or seen.vmi.status.phase not in FINAL_PHASES:
        return False
    return seen.vm is None or seen.vm.run_strategy in _RUNS_ONCE


def summary(seen: Seen) -> str:
    """What it is now, in a word or two, and why."""
    if seen.vm is None and seen.vmi is None:
        return "is not there"
    status = seen.vm.status.printable_status if seen.vm is not None else ""
    phase = seen.vmi.status.phase if seen.vmi is not None else ""
    word = status or phase or "not seen by the controller yet"
    reason = _reason(seen)
    return f"{word}: {reason}" if reason else word


def _reason(seen: Seen) -> str:
    """The message of a condition that says why something is not so."""
    conditions: list[Condition] = []
    for item in (seen.vm, seen.vmi):
        conditions += item.status.conditions if item is not None else []
    told = [item.message for item in conditions if item.message and _is_trouble(item)]
    return told[-1] if told else ""


def _is_trouble(item: Condition) -> bool:
    return (item.type == "Failure" and item.status == "True") or (
        item.type in ("PodScheduled", "Synchronized", "Ready") and item.status == "False"
    )


class Progress(Protocol):
    """Shows how far something is, while it is entered; the command line has one for terminals."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def show(self, text: str) -> None:
        """What it is now."""


class VmWait:
    """Waits for one VM; made before it is asked for anything, so that the run of that time is known."""

    def __init__(self, session: Session, name: str, timeout: float, progress: Callable[[], Progress]) -> None:
        self._session = session
        self._name = name
        self._timeout = timeout
        self._progress = progress
        # The runs that were seen while waiting: their events tell the reason of a failure.
        self._runs: set[str] = set()
        self._before = self._look()

    def wait_until_running(self, *, paused: bool = False, anew: bool = False) -> str:
        """Until it runs; `anew` when the run that there was does not count.

        Raises:
            TimedOutError: with what it is instead and the newest warnings.
            RefusedError: when its guest ended; with the same.
        """
        # A run that had ended already is not the one that is waited for.
        has_ended = self._before.vmi is not None and self._before.vmi.status.phase in FINAL_PHASES
        before = self._before.run if anew or has_ended else ""
        if anew:
            # The run that is to end first may be the one that hangs.
            self._runs.add(before)
        seen = self._wait_until(lambda seen: is_running(seen, before, paused=paused), before, "run")
        assert seen.vmi is not None
        addresses = [item.ip_address for item in seen.vmi.status.interfaces if item.ip_address]
        return f"VM {self._name} is running{f' at {addresses[0]}' if addresses else ''}"

    def wait_until_stopped(self) -> str:
        """Until the run that was there is gone.

        Raises:
            TimedOutError: with what it is instead.
        """
        self._runs.add(self._before.run)
        self._wait_until(lambda seen: is_stopped(seen, self._before.run), None, "stop")
        return f"VM {self._name} is stopped"

    def _wait_until(self, is_so: Callable[[Seen], bool], over_after: str | None, what: str) -> Seen:
        deadline = time.monotonic() + self._timeout
        pause = _FIRST_LOOK
        seen = Seen(None, None)
        with self._progress() as progress:
            while True:
                # A server that restarts is waited for as well.
                with contextlib.suppress(Unavailable):
                    seen = self._look()
                    if seen.run and seen.run != over_after:
                        self._runs.add(seen.run)
                if is_so(seen):
                    return seen
                if over_after is not None and is_over(seen, over_after):
                    raise RefusedError(f"the guest of VM {self._name} ended: {summary(seen)}{self._warnings()}")
                progress.show(f"{self._name}: {summary(seen)}")
                if time.monotonic() > deadline:
                    raise TimedOutError(
                        f"timed out after {self._timeout:g} s waiting for VM {self._name} to {what}: "
                        f"{summary(seen)}; `kvedge describe vmi {self._name}` tells more{self._warnings()}"
                    )
                time.sleep(min(pause, max(0.0, deadline - time.monotonic())))
                pause = min(_LONGEST_LOOK, pause * 1.5)

    def _warnings(self) -> str:
        from kvedge.client.vm_warnings import read_newest_warnings

        return read_newest_warnings(self._session.client, self._session.namespace, self._name, self._runs)

    def _look(self) -> Seen:
        client, namespace = self._session.client, self._session.namespace
        vm: VirtualMachine | None = None
        vmi: VirtualMachineInstance | None = None
        with contextlib.suppress(NotFound):
            vm = client.get(VirtualMachine, namespace, self._name)
        with contextlib.suppress(NotFound):
            vmi = client.get(VirtualMachineInstance, namespace, self._name)
        return Seen(vm, vmi)

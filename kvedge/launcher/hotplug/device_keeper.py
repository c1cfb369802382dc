"""What the keepers of disks and of NICs have in common: a thread that looks, and steps that are tried again.

Base of `disk_keeper` and `nic_keeper`, which say what is wanted, what is to be done, and how. Nothing here waits for
the guest: a device that it does not release is asked for again, with pauses that grow, and holds up no other one.
"""

from __future__ import annotations

import logging
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar

from kvedge.launcher.hotplug.attempts import Attempt, note_attempt
from kvedge.launcher.launcher_errors import LauncherError, Unanswered
from kvedge.runtime.background import BackgroundThread

if TYPE_CHECKING:
    from kvedge.launcher.libvirt.domain_facts import DomainFacts
    from kvedge.launcher.libvirt.libvirt_session import LibvirtSession

log = logging.getLogger(__name__)

# A change that is under way ends before wishes are exchanged; libvirt gives QEMU half a minute.
HAND_OVER_SECONDS: Final = 20.0
# Events say when to look; this is for the one that never came.
LOOK_AGAIN_SECONDS: Final = 10.0
LONGEST_MESSAGE: Final = 512


class DeviceStep(Protocol):
    """One change of one device."""

    @property
    def name(self) -> str:
        """The device's, as the VMI has it."""


Step = TypeVar("Step", bound=DeviceStep)


class DeviceKeeper(ABC, Generic[Step]):
    """The devices of one kind; every public method may be called from any thread."""

    # The word for one of these devices, in logs and errors.
    device: str

    def __init__(
        self, session: LibvirtSession, on_change: Callable[[], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`on_change()` is called after a change, and for what there is to tell."""
        self._session = session
        self._on_change = on_change
        self._clock = clock
        # Taken for one change at a time.
        self._acting = threading.Lock()
        self._wanted = threading.Event()
        self._thread: BackgroundThread | None = None
        self._attempts: dict[str, Attempt[Step]] = {}

    def start(self) -> None:
        """Begin to look after the devices; a guest whose devices stay as they are costs no thread."""
        if self._thread is None:
            self._thread = BackgroundThread(f"{self.device.lower()}-keeper", self._keep)
            self._thread.start()

    def look_soon(self) -> None:
        """Something may have changed."""
        self._wanted.set()

    @abstractmethod
    def look(self) -> float:
        """Do what can be done now; after how many seconds to look again."""

    def _keep(self) -> None:
        pause = 0.0
        while True:
            if pause > 0:
                self._wanted.wait(pause)
            self._wanted.clear()
            pause = self.look()

    @contextmanager
    def _handing_over(self) -> Iterator[None]:
        """No change is under way inside, so that wishes may be exchanged.

        Raises:
            Unanswered: when one is under way that does not end.
        """
        if not self._acting.acquire(timeout=HAND_OVER_SECONDS):
            raise Unanswered(f"libvirt is still busy with another {self.device}")
        try:
            yield
        finally:
            self._acting.release()

    def _read_domain(self) -> DomainFacts | None:
        """The domain that runs; None when there is none to look after."""
        try:
            facts = self._session.facts()
        except LauncherError as error:
            log.warning("could not look at the %ss", self.device, extra={"facts": {"why": str(error)}})
            return None
        return facts if facts is not None and facts.is_active else None

    def _choose_due(self, steps: Iterable[Step]) -> list[Step]:
        """The steps whose time has come; what was known of others than these steps is forgotten."""
        steps = list(steps)
        wanted = {step.name: step for step in steps}
        kept = {name: item for name, item in self._attempts.items() if wanted.get(name) == item.step}
        if len(kept) != len(self._attempts):
            self._attempts = kept
            self._on_change()
        now = self._clock()
        return [step for step in steps if step.name not in kept or now >= kept[step.name].due]

    def _try_step(self, step: Step, change: Callable[[], None], error: str, *, asks: bool) -> bool:
        """Change a device unless there is an error already, note how it went; whether that was the last of it.

        A step that `asks` the guest to release a device is asked again until the device has gone.
        """
        if not error:
            try:
                change()
            except LauncherError as refusal:
                error = str(refusal)
        before = self._attempts.get(step.name)
        known = before if before and before.step == step else None
        made = note_attempt(known, step, self._clock(), error, asks=asks)
        if error:
            told = {self.device.lower(): step.name, "why": error[:LONGEST_MESSAGE]}
            log.warning("a %s was not changed", self.device, extra={"facts": told})
        if error or asks:
            self._attempts = {**self._attempts, step.name: made}
        else:
            self._attempts = {name: item for name, item in self._attempts.items() if name != step.name}
        return not (error or asks)

    def _pause_before(self, steps: Iterable[Step]) -> float:
        now = self._clock()
        dues = [self._attempts[step.name].due - now for step in steps if step.name in self._attempts]
        return max(0.05, min([LOOK_AGAIN_SECONDS, *dues]))

    def _describe_troubles(self) -> list[tuple[Step, dict[str, Any]]]:
        """The steps that somebody should hear of, by name, each with what the messages of both kinds have."""
        now = self._clock()
        return [
            (
                item.step,
                {
                    "name": item.step.name,
                    "message": item.error[:LONGEST_MESSAGE],
                    "tries": item.tries,
                    "since_unix_ms": int((time.time() - (now - item.since)) * 1000),
                },
            )
            for _, item in sorted(self._attempts.items())
            if item.is_told(now)
        ]

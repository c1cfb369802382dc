"""Virtual functions of cards that a guest gives back before it moves, as another node has others.

Called by `outgoing_guest` in the thread of a migration. libvirt refuses to move a guest that has one. Where the guest
stays after all, and where it has come to, `nic_keeper` gives it those of the Pod that it is in. KubeVirt's launcher
does the same, and waits as long.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from kvedge.launcher.hotplug.attempts import ASK_AGAIN_SECONDS
from kvedge.launcher.hotplug.nic_keeper import NicKeeper
from kvedge.launcher.launcher_errors import Unanswered, WrongState
from kvedge.launcher.libvirt.domain_facts import Life
from kvedge.resources.names import SRIOV_PREFIX

if TYPE_CHECKING:
    from kvedge.launcher.libvirt.libvirt_session import LibvirtSession

log = logging.getLogger(__name__)

# What a guest takes to release its NICs: KubeVirt's time.
RELEASE_SECONDS: Final = 30.0
_POLL: Final = 0.1


class FunctionRelease:
    """The functions of one guest that is about to leave."""

    def __init__(
        self,
        session: LibvirtSession,
        keeper: NicKeeper,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._session = session
        self._keeper = keeper
        self._clock = clock
        self._sleep = sleep

    def release(self, is_given_up: Callable[[], bool]) -> None:
        """Have the guest give all of them back, unless the migration `is_given_up()`.

        Raises:
            WrongState: when it is, or the guest cannot, as it is paused.
            Unanswered: when the guest does not.
            LauncherError: as libvirt has it.
        """
        if not self._find():
            return
        self._keeper.wait_for_rest()
        deadline, ask_at = self._clock() + RELEASE_SECONDS, self._clock()
        while names := self._find():
            if is_given_up():
                raise WrongState("the migration was ended before it began")
            now = self._clock()
            if now >= deadline:
                raise Unanswered(
                    f"the guest has not released interface {', '.join(names)} within {RELEASE_SECONDS:.0f} s: a virtual"
                    " function of this node, without which it moves; see that the guest's system handles PCI hotplug"
                )
            if now >= ask_at:
                for name in names:
                    self._session.detach_device(f"{SRIOV_PREFIX}{name}")
                ask_at = now + ASK_AGAIN_SECONDS
            self._sleep(_POLL)
        log.info("the guest has given back its virtual functions, to move")

    def _find(self) -> list[str]:
        facts = self._session.facts()
        if facts is None or not facts.is_active:
            return []
        names = [nic.name for nic in facts.nics if nic.is_function]
        if names and facts.life is Life.PAUSED:
            raise WrongState(
                f"the guest is paused, and cannot release interface {', '.join(names)}, a virtual function of this"
                " node, without which it moves: unpause it first"
            )
        return names

"""The launcher's side of the directories that its guest has: that they are there at its start, and which one is lost.

Called by the launcher's preparation and by its run. Each directory is served by a container of its own, which leaves
its marks in a directory that both have; a Pod without such containers has not even that.
"""

from __future__ import annotations

import itertools
import os
import time
from typing import TYPE_CHECKING, Final

from kvedge.launcher.launcher_errors import BadRequest
from kvedge.launcher.shares.share_marks import LAUNCHER, hold, is_held, read_reason
from kvedge.resources.names import SHARES_DIRECTORY
from kvedge.resources.values.name_grammar import is_label

if TYPE_CHECKING:
    from kvedge.launcher.libvirt.domain_facts import DomainFacts
    from kvedge.resources.types.vmi import VirtualMachineInstance

# How long their containers may take, which are started at the same time as the launcher's.
START_SECONDS: Final = 60.0
# A daemon ends with its QEMU, a moment before libvirt tells of that.
LOST_SECONDS: Final = 5.0
_LOOK_SECONDS: Final = 0.1
_FIELD: Final = "spec.domain.devices.filesystems"
# Of names in that directory; admission allows a VMI 16 filesystems, with three files each.
_MOST_NAMES: Final = 100


def hold_launcher_mark(root: str) -> None:
    """Tell those containers until this process ends that there is a launcher."""
    if os.path.isdir(root + SHARES_DIRECTORY):
        hold(f"{root}{SHARES_DIRECTORY}/{LAUNCHER}", wait=True)


def await_shares(vmi: VirtualMachineInstance, root: str, seconds: float = START_SECONDS) -> None:
    """Wait until QEMU can connect to each of the VMI's filesystems.

    Raises:
        BadRequest: when one cannot be served on this node, or is not in time.
    """
    until = time.monotonic() + seconds
    for index, filesystem in enumerate(vmi.spec.domain.devices.filesystems):
        place = f"{root}{SHARES_DIRECTORY}/{filesystem.name}"
        while not _is_served(place):
            if reason := read_reason(f"{place}.refused"):
                raise BadRequest(f"{_FIELD}[{index}]", reason)
            if time.monotonic() > until:
                text = f"its container is not ready after {seconds:.0f} s"
                raise BadRequest(f"{_FIELD}[{index}]", text, "look at the container's log, and start the VM again")
            time.sleep(_LOOK_SECONDS)


class LostShares:
    """Finds the filesystems of a running guest that nothing serves any more."""

    def __init__(self, root: str) -> None:
        self._directory = root + SHARES_DIRECTORY
        self._since: dict[str, float] = {}

    def look(self, facts: DomainFacts | None, now: float) -> list[str]:
        """Their names; `now` is of a monotonic clock."""
        lost = _find_unserved(self._directory) if facts is not None and facts.is_active else []
        self._since = {name: self._since.get(name, now) for name in lost}
        return [name for name, since in self._since.items() if now - since >= LOST_SECONDS]


def _is_served(place: str) -> bool:
    """Whether somebody listens at a filesystem's socket, without a try to connect, which would be its only one.

    Who holds the mark has put its socket there before.
    """
    return is_held(f"{place}.lock") and os.path.exists(f"{place}.sock")


def _find_unserved(directory: str) -> list[str]:
    try:
        with os.scandir(directory) as found:
            names = [entry.name for entry in itertools.islice(found, _MOST_NAMES)]
    except OSError:
        return []
    locks = {name.removesuffix(".lock") for name in names if name.endswith(".lock")}
    return [name for name in sorted(locks) if is_label(name) and not is_held(f"{directory}/{name}.lock")]

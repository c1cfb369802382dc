"""The domain for people who look at it, as `virsh` in the launcher's container shows it.

Called by the gRPC server's threads, a few at a time; nothing waits for the guest. Anybody who may run programs in the
Pod may see it: libvirt leaves passwords out of its document, and cloud-init's data is in a file that is only named.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

from kvedge.launcher.launcher_errors import DomainMissing, LibvirtFailed, Unanswered
from kvedge.launcher.libvirt.domain_facts import DomainLook, Life, Why
from kvedge.rpc.launcher_pb2 import DomainDescription, VcpuPlace

if TYPE_CHECKING:
    from kvedge.launcher.libvirt.libvirt_session import LibvirtSession
    from kvedge.launcher.run.status_board import StatusBoard

# A guest with a hundred disks has 100 KB. The clients take no longer answer.
LARGEST_DOCUMENT: Final = 768 << 10
# Each keeps a thread of the server while libvirt is busy.
MOST_DESCRIPTIONS: Final = 2
# As virsh names them.
_STATES: Final[Mapping[Life, str]] = {
    Life.RUNNING: "running",
    Life.BLOCKED: "idle",
    Life.PAUSED: "paused",
    Life.SHUTTING_DOWN: "in shutdown",
    Life.SHUTOFF: "shut off",
    Life.CRASHED: "crashed",
    Life.SUSPENDED: "pmsuspended",
    Life.UNKNOWN: "no state",
}


class Descriptions:
    """Descriptions of one domain; its method may be called from any thread."""

    def __init__(self, session: LibvirtSession, board: StatusBoard) -> None:
        self._session = session
        self._board = board
        self._describing = threading.Semaphore(MOST_DESCRIPTIONS)

    def describe(self) -> DomainDescription:
        """What the domain is like now; one without a name when there is none.

        Raises:
            Unanswered: when it is being described already.
            LauncherError: when libvirt does not tell, or too much.
        """
        if not self._describing.acquire(blocking=False):
            raise Unanswered(f"{MOST_DESCRIPTIONS} others wait for libvirt to describe the domain")
        try:
            return self._describe()
        except DomainMissing:
            # It went while it was looked at.
            return DomainDescription()
        finally:
            self._describing.release()

    def _describe(self) -> DomainDescription:
        look = self._session.look_closely()
        if look is None:
            return DomainDescription()
        if len(look.document.encode()) > LARGEST_DOCUMENT:
            raise LibvirtFailed("describing the domain", 0, 0, f"it is longer than {LARGEST_DOCUMENT >> 10} KiB")
        made = describe(look, os.cpu_count() or 1)
        made.addresses.extend(self._board.status.addresses)
        return made


def describe(look: DomainLook, host_cpus: int) -> DomainDescription:
    """The message for what libvirt says."""
    return DomainDescription(
        name=look.name,
        uuid=look.uuid,
        id=look.id,
        state=_STATES[look.life],
        reason="" if look.why is Why.OTHER else look.why.value,
        document=look.document,
        vcpus=[
            VcpuPlace(
                number=place.number,
                waits=place.waits,
                host_cpu=place.host_cpu,
                run_ns=place.run_ns,
                may_use=ranges(place.may_use),
            )
            for place in look.vcpus
        ],
        libvirt_version=look.libvirt,
        qemu_version=look.qemu,
        host_cpus=host_cpus,
    )


def ranges(numbers: Iterable[int]) -> str:
    """Numbers that grow, as Linux writes lists of CPUs: "0-3,7"."""
    found: list[list[int]] = []
    for number in numbers:
        if found and found[-1][1] == number - 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in found)

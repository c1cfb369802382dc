"""Lets the guest see that its disks have grown.

Called by `domain_life` on each Sync, which the handler repeats when a claim's copy in the VMI changes. Asks libvirt for
the disks' sizes and resizes them; the guest itself grows partition and file system.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from kvedge.launcher.launcher_errors import LauncherError
from kvedge.launcher.run.growth_plan import plan_growth, read_wanted

if TYPE_CHECKING:
    from kvedge.launcher.libvirt.libvirt_session import LibvirtSession

log = logging.getLogger(__name__)


# Of what libvirt says.
_LONGEST: Final = 300


def grow_disks(vmi_json: bytes, session: LibvirtSession) -> tuple[str, ...]:
    """Grow what has to grow, and nothing else; a sentence for the user on each disk that libvirt does not grow.

    The guest runs on with its old disk.
    """
    wanted = read_wanted(vmi_json)
    if not wanted:
        return ()
    refused = []
    try:
        sizes = session.disk_sizes(frozenset(wanted))
    except LauncherError as error:
        log.warning("the sizes of disks cannot be read", extra={"facts": {"reason": str(error)}})
        return ()
    for growth in plan_growth(wanted, sizes):
        try:
            session.resize_disk(growth.target, growth.bytes)
        except LauncherError as error:
            log.warning("disk not grown", extra={"facts": {"disk": growth.name, "reason": str(error)}})
            refused.append(
                f"Disk {growth.name} does not grow to {growth.bytes} bytes with its claim: {str(error)[:_LONGEST]};"
                " a restart of the VM gives the guest the larger disk"
            )
            continue
        log.info("disk grown", extra={"facts": {"disk": growth.name, "bytes": growth.bytes}})
    return tuple(refused)

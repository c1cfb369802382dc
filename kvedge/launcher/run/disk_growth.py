"""Lets the guest see that its disks have grown.

Called by `domain_life` on each Sync, which the handler repeats when a claim's copy in the VMI changes. Asks libvirt for
the disks' sizes and resizes them; the guest itself grows partition and file system.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from kvedge.launcher.launcher_errors import LauncherError
from kvedge.launcher.run.growth_plan import plan_growth, read_wanted

if TYPE_CHECKING:
    from kvedge.launcher.libvirt.libvirt_session import LibvirtSession

log = logging.getLogger(__name__)


def grow_disks(vmi_json: bytes, session: LibvirtSession) -> None:
    """Grow what has to grow, and nothing else.

    Raises:
        LauncherError: when libvirt refuses; the others have grown by then.
    """
    wanted = read_wanted(vmi_json)
    if not wanted:
        return
    failure: LauncherError | None = None
    for growth in plan_growth(wanted, session.disk_sizes(frozenset(wanted))):
        try:
            session.resize_disk(growth.target, growth.bytes)
        except LauncherError as error:
            failure = failure or error
            continue
        log.info("disk grown", extra={"facts": {"disk": growth.name, "bytes": growth.bytes}})
    if failure is not None:
        raise failure

"""Whether the handler has put a hotplugged volume into the Pod.

Called by the preparation and by `hotplug`, which keeps it. Looks at the volume's place; opens nothing.
"""

from __future__ import annotations

import os
import stat


def is_handed_over(path: str, *, block: bool) -> bool:
    """Whether the volume is there: a device node, or a file that is more than the place for one."""
    try:
        facts = os.lstat(path)
    except OSError:
        return False
    return stat.S_ISBLK(facts.st_mode) if block else stat.S_ISREG(facts.st_mode) and facts.st_size > 0

"""Links to the devices of volumes, under the volumes' own names.

Called by the drivers, and by whoever gives a volume's device to a Pod. Touches the directory of links alone; whoever
looks finds the old device or the new one.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

_LOOP: Final = re.compile(r"loop[0-9]+")
_SYS: Final = Path("/sys/block")


def lead_to(link: Path, device: Path) -> Path:
    """Have a link lead to a device, and return it; may be repeated.

    Raises:
        OSError: as the file system has it.
    """
    if not (link.is_symlink() and link.readlink() == device):
        link.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        staged = link.with_name(f".{link.name}.new")
        staged.unlink(missing_ok=True)
        staged.symlink_to(device)
        staged.replace(link)
    return link


def leads_to_own(link: Path, sys: Path = _SYS) -> bool:
    """Whether a link leads to the device of the volume whose name it has, as far as the kernel tells: the number of a
    loop device that somebody has let go of may be another volume's by now.

    Raises:
        OSError: when it is no link.
    """
    device = link.readlink().name
    if not _LOOP.fullmatch(device):
        return True
    try:
        backing = (sys / device / "loop" / "backing_file").read_text()
    except OSError:
        # It has no file.
        return False
    return Path(backing.strip()).parent.name == link.name

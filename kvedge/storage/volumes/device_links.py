"""Links to the devices of volumes, under the volumes' own names.

Called by the drivers. Touches the directory of links alone; whoever looks finds the old device or the new one.
"""

from __future__ import annotations

from pathlib import Path


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

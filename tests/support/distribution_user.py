"""The user that Debian's libvirt is built for, known in a mount namespace of its own.

As root, libvirt looks its distribution's user up before it reads that it is to take another one. Debian makes that user
with a package of services that kvedge does not need (libvirt-daemon-system), so packaging/environment does not install
it. Used by programs that open libvirt's QEMU driver as root: bench and golden domains.
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Final

_ENTRIES: Final = {"passwd": "libvirt-qemu:x:64055:64055::/:/usr/sbin/nologin", "group": "libvirt-qemu:x:64055:"}


def know_the_distributions_user(directory: Path) -> None:
    """Make libvirt find that user where the host has none; to be called in a mount namespace of one's own.

    Args:
        directory: where the files that are mounted over those of /etc may lie, for as long as the namespace lasts.
    """
    for file, line in _ENTRIES.items():
        name = line.partition(":")[0]
        known = Path("/etc", file).read_text()
        if not any(entry.startswith(f"{name}:") for entry in known.splitlines()):
            (directory / file).write_text(f"{known}{line}\n")
            subprocess.run(["mount", "--bind", directory / file, f"/etc/{file}"], check=True)

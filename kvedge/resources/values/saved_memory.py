"""The saved memory that a guest's next start goes on from: what the controller, the handler and the launcher agree on.

Called by those roles, and by the launcher's process that stays. Pure; imports names alone. A restore writes the
annotation together with the new disks, in one write; the VM's next run has it, too, and it goes once that run is there.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Final

# On a VM and on the VMI that it starts: the claim that the memory is in, and which disks belong to it.
RESUME_MEMORY: Final = "kvedge.io/resume-memory"
# The claim's volume in the launcher's Pod.
MEMORY_VOLUME: Final = "saved-memory-of-this-vm"
_DIGEST: Final = 16


def write_resume(claim: str, disks: Mapping[str, str]) -> str:
    """The annotation's value; `disks` are the claims that belong to the memory, by volume.

    >>> write_resume("memory", {"root": "web"})
    'memory f525f57ce30d59f7'
    """
    return f"{claim} {_digest(disks)}"


def read_resume(annotations: Mapping[str, str], disks: Mapping[str, str]) -> str:
    """The claim with the memory that a start goes on from; empty for none, or when these are not its disks."""
    claim, _, digest = annotations.get(RESUME_MEMORY, "").partition(" ")
    return claim if digest == _digest(disks) else ""


def resume_claim(annotations: Mapping[str, str]) -> str:
    """The claim with the memory, whatever disks there are; empty for none."""
    return annotations.get(RESUME_MEMORY, "").partition(" ")[0]


def _digest(disks: Mapping[str, str]) -> str:
    listed = "\n".join(f"{volume}={claim}" for volume, claim in sorted(disks.items()))
    return hashlib.sha256(listed.encode()).hexdigest()[:_DIGEST]

"""What of a VMI's claims its launcher has been told: when it changes, the launcher is told again.

Called by the sync loop. Pure.
"""

from __future__ import annotations

from typing import TypeAlias

from kvedge.resources.types.vmi import VirtualMachineInstance

ToldClaims: TypeAlias = tuple[tuple[str, str, str], ...]


def summarize_claims(vmi: VirtualMachineInstance) -> ToldClaims:
    """By volume: what its claim asks for and what it has, as the VMI's status has it."""
    return tuple(
        (entry.name, str(info.requests.get("storage", "")), str(info.capacity.get("storage", "")))
        for entry in vmi.status.volume_status
        if (info := entry.persistent_volume_claim_info) is not None
    )

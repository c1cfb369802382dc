"""Guests whose disks still come back from a backup: they have them by a worker's socket, on the worker's node.

Called by the Pod's manifest. Pure. A claim of one node draws both there anyway; one that any node may attach does not.
"""

from __future__ import annotations

from collections.abc import Mapping

from kvedge.resources.disks.snapshot_names import COMES_BACK, RETURNED_BY
from kvedge.resources.types.storage import PersistentVolumeClaim


def list_servers(claims: Mapping[str, PersistentVolumeClaim]) -> list[str]:
    """What the label of backup workers says of those that serve these claims."""
    notes = [claim.metadata.annotations for claim in claims.values()]
    return sorted({each[RETURNED_BY] for each in notes if COMES_BACK in each and each.get(RETURNED_BY)})

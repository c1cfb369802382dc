"""The part of a claim that its file system may take, as CDIConfig says it.

Called by the controller: for the size of claims that it makes, and for that of disks which grow with their claims.
Pure.
"""

from __future__ import annotations

from kvedge.resources.data_volume_names import DEFAULT_OVERHEAD
from kvedge.resources.types.data_volumes import CdiConfig


def filesystem_overhead(config: CdiConfig, class_name: str | None) -> str:
    """The fraction for claims of a storage class, such as "0.06"; the default where the CDIConfig says nothing."""
    status = config.status.filesystem_overhead
    if status is None:
        return DEFAULT_OVERHEAD
    return status.storage_class.get(class_name or "") or status.global_ or DEFAULT_OVERHEAD

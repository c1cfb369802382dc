"""Sizes of huge pages, and the resources by which Kubernetes counts them.

Called by admission, the controller and the node agent of one box. Pure.
"""

from __future__ import annotations

from typing import Final

_PREFIX: Final = "hugepages-"
_UNITS: Final = ((1 << 30, "Gi"), (1 << 20, "Mi"), (1 << 10, "Ki"))
# Of all processors that kvedge runs on: arm64 with pages of 4 KiB has 64Ki, 2Mi, 32Mi and 1Gi, amd64 2Mi and 1Gi.
_SMALLEST: Final = 64 << 10


def can_be_page(size: int) -> bool:
    """Whether some processor may have huge pages of this size."""
    return size >= _SMALLEST and size & (size - 1) == 0


def page_resource(size: int) -> str:
    """The resource of pages of this size.

    >>> page_resource(2 << 20)
    'hugepages-2Mi'
    """
    for unit, name in _UNITS:
        if size % unit == 0:
            return f"{_PREFIX}{size // unit}{name}"
    return f"{_PREFIX}{size}"

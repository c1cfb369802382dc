"""What the volumes of a VMI are called in its launcher's Pod, which has volumes of its own, such as `private`.

Called by the Pod's volumes. Pure.
"""

from __future__ import annotations

from typing import Final

# Kubernetes' limit for the name of a Pod's volume.
_LONGEST_NAME: Final = 63
_SUFFIX: Final = "-vmi"


def free_name(name: str, taken: set[str]) -> str:
    """The volume's own name, or one like it where another volume of the Pod has that; it is taken from then on."""
    found, number = name, 1
    while found in taken:
        suffix = _SUFFIX if number == 1 else f"{_SUFFIX}{number}"
        found, number = f"{name[: _LONGEST_NAME - len(suffix)].rstrip('-')}{suffix}", number + 1
    taken.add(found)
    return found

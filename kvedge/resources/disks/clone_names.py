"""Names of clones and of what they make on their way: KubeVirt's.

Used by admission, which names targets, and by the controller. Pure.
"""

from __future__ import annotations

from typing import Final

# The target's name becomes the value of a label.
_LONGEST: Final = 63
_SUFFIX: Final = 5


def temporary_snapshot(clone_uid: str) -> str:
    """The name of the snapshot that a clone of a VM takes."""
    return f"tmp-snapshot-{clone_uid}"


def temporary_restore(clone_uid: str) -> str:
    """The name of the restore by which a clone makes its VM."""
    return f"tmp-restore-{clone_uid}"


def target_name(source: str, suffix: str) -> str:
    """The name of a clone that nobody has named.

    >>> target_name("web", "x7k2pq")
    'clone-web-x7k2p'
    """
    room = _LONGEST - len("clone--") - _SUFFIX
    return f"clone-{source[:room].rstrip('-.')}-{suffix[:_SUFFIX]}"

"""Which versions of kvedge may be together in one cluster, told by the control plane's and a node's.

Used by handlers (who take no VM when they are too far apart), by the controller (who tells of them) and by installing.
Pure. The rule is Kubernetes': the control plane goes first and nodes may be one minor version behind it; that a node is
one ahead happens while several servers are upgraded one after the other. Patch versions never matter.
"""

from __future__ import annotations

from enum import Enum

from kvedge.resources.values.whole_numbers import whole_number


class Skew(Enum):
    """Where a node is, as its control plane sees it."""

    # One of the two programs does not say its version, or is no release.
    UNKNOWN = "unknown"
    SAME = "same"
    # One minor version: the order of an upgrade.
    BEHIND = "behind"
    # One minor version: passing, while servers are upgraded.
    AHEAD = "ahead"
    # Anything else.
    APART = "apart"


def skew(control_plane: str, node: str) -> Skew:
    """Where a node of this version is."""
    theirs, ours = _release(control_plane), _release(node)
    if theirs is None or ours is None:
        return Skew.UNKNOWN
    if theirs[0] != ours[0]:
        return Skew.APART
    return {0: Skew.SAME, -1: Skew.BEHIND, 1: Skew.AHEAD}.get(ours[1] - theirs[1], Skew.APART)


def refusal(control_plane: str, node: str) -> str:
    """Why a node of this version takes no VM; empty when it does."""
    if skew(control_plane, node) is not Skew.APART:
        return ""
    theirs, ours = _release(control_plane), _release(node)
    first = "this node" if theirs is not None and ours is not None and theirs > ours else "the servers"
    return (
        f"kvedge {node} here and {control_plane} on the servers are more than one minor version apart: upgrade {first},"
        " one minor version at a time"
    )


def _release(version: str) -> tuple[int, int] | None:
    """Major and minor; what follows them, such as a patch level or a build's name, does not count."""
    major, minor = (whole_number(part) for part in (*version.removeprefix("v").split("."), "")[:2])
    return None if major is None or minor is None else (major, minor)

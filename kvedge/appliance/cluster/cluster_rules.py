"""Whether a cluster can take this version of kvedge: the age of its Kubernetes, and the version that its servers have.

Called by installing, before anything is changed. Pure.
"""

from __future__ import annotations

import re
from typing import Final, Literal

from kvedge.resources.version_skew import Skew, skew

# The first with ValidatingAdmissionPolicy, which keeps a node's handler to its node; sidecar containers came before.
_OLDEST: Final = (1, 30)


def too_old(version: str, what: str, remedy: str) -> str:
    """What is wrong with a version of Kubernetes, such as v1.28.4+k3s1; empty when nothing is, or nobody can say."""
    found = re.match(r"v?(\d+)\.(\d+)", version)
    if found is None or (int(found[1]), int(found[2])) >= _OLDEST:
        return ""
    oldest = ".".join(str(part) for part in _OLDEST)
    return f"{what} is Kubernetes {version}, and kvedge needs {oldest} or newer (admission policies): upgrade {remedy}"


def wrong_order(role: Literal["server", "agent"], control_plane: str, own: str) -> str:
    """Why this version must not be installed in this role now; empty when it may.

    Servers go first, as they bring rights and kinds along; and nobody leaves a minor version out.
    """
    found = skew(control_plane, own)
    if found is Skew.APART:
        return (
            f"this is kvedge {own}, and the cluster's servers run {control_plane}: go one minor version at a time,"
            " servers first"
        )
    if found is Skew.AHEAD and role == "agent":
        return f"this is kvedge {own}, and the cluster's servers run {control_plane}: upgrade the servers first"
    return ""

"""Whether an API server has the policies by which each handler is kept to its own node.

Called by registration_loop.py. Pure. RBAC knows kinds only: without policies any node's handler could write every VMI
and every Node whenever the webhook is away, so that the api role does not register with such a server at all.
"""

from __future__ import annotations

from kvedge.api.registration.policy_manifest import GROUP_VERSION, POLICIES
from kvedge.resources.codec import JsonObject


def judges_by_policies(served: JsonObject | None) -> bool:
    """Whether a server has them, by what it says of their group and version; None when it has none of that."""
    return any(resource["name"] == POLICIES for resource in (served or {}).get("resources") or ())


def without_policies(version: JsonObject | None) -> str:
    """What is to be said of a server without them, by what it says of itself."""
    told = str((version or {}).get("gitVersion", "")) or "of an unknown version"
    return (
        f"the API server, Kubernetes {told}, has no ValidatingAdmissionPolicy in {GROUP_VERSION}, and nothing else"
        " keeps a node's handler to the VMs of its own node: kvedge needs Kubernetes 1.30 or newer, with that kind"
    )

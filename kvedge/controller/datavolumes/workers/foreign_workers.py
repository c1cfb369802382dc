"""A Pod of somebody else's that has the name of a worker, so that the worker cannot be made.

Called by data_volume_loop.py and cron_loop.py when the API server says that the name is taken. Asks the server, as the
loops' informer knows workers only.
"""

from __future__ import annotations

from kvedge.controller.datavolumes.claim_plan import ClaimProblem
from kvedge.kube.errors import NotFound
from kvedge.kube.kube_client import KubeClient
from kvedge.resources.types.core import Pod


def foreign_worker(client: KubeClient, wanted: Pod) -> ClaimProblem | None:
    """What to tell of the Pod that is in the way of `wanted`; None when it is the worker itself, or has gone.

    Raises:
        KubeError: when the API server does not answer.
    """
    meta = wanted.metadata
    try:
        found = client.get(Pod, meta.namespace, meta.name)
    except NotFound:
        return None
    ours = {owner.uid for owner in meta.owner_references}
    if any(owner.uid in ours for owner in found.metadata.owner_references):
        return None
    text = f"Pod {meta.name} exists and is no worker of this DataVolume, which needs the name: delete that Pod"
    return ClaimProblem("ErrResourceExists", text)

"""Deletes an object of an informer, which then knows it.

Called by reconcile loops. Writes to the API server.
"""

from __future__ import annotations

from kvedge.kube.errors import NotFound
from kvedge.kube.informer import Informer
from kvedge.kube.kube_client import KubeClient, Preconditions
from kvedge.kube.watches import T


def delete_observed(client: KubeClient, informer: Informer[T], item: T) -> bool:
    """Delete this very object, never another one of its name; what is left of it goes into the cache.

    Whether it was there.

    Raises:
        KubeError: when the server refuses or does not answer.
    """
    meta = item.metadata
    try:
        left = client.delete(type(item), meta.namespace, meta.name, Preconditions(uid=meta.uid))
    except NotFound:
        return False
    if left is not None:
        informer.observe(left)
    return True

"""VolumeSnapshots that DataVolumes and DataSources name.

Called by what judges these. Reads the API server, anew each time: a driver may have been installed meanwhile, and where
none is, the server does not know the kind.
"""

from __future__ import annotations

from kvedge.kube.errors import Forbidden, NotFound
from kvedge.kube.kube_client import KubeClient
from kvedge.resources.types.protection.volume_snapshots import VolumeSnapshot


def find_snapshot(client: KubeClient, namespace: str, name: str) -> VolumeSnapshot | None:
    """A VolumeSnapshot; None where there is none, or no such kind.

    Raises:
        KubeError: when the server does not answer.
    """
    try:
        return client.get(VolumeSnapshot, namespace, name)
    except (NotFound, Forbidden):
        return None

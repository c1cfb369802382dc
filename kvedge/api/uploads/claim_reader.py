"""What the upload proxy asks of the cluster: a claim, and the address of its worker.

Used by upload_proxy.py. The API client blocks, so that each question is asked in a worker thread of the loop.
"""

from __future__ import annotations

import asyncio

from kvedge.api.transfer_slots import TransferRefused
from kvedge.kube.errors import KubeError, NotFound
from kvedge.kube.kube_client import KubeClient
from kvedge.resources.disks.uploads import upload_pod_name
from kvedge.resources.types.core import Pod
from kvedge.resources.types.storage import PersistentVolumeClaim


class ClaimReader:
    """Questions to one API server, from an event loop."""

    def __init__(self, client: KubeClient) -> None:
        self._client = client

    async def claim(self, namespace: str, name: str) -> PersistentVolumeClaim | None:
        """The claim, or None. Raises TransferRefused when the API server does not say."""
        try:
            return await asyncio.to_thread(self._client.get, PersistentVolumeClaim, namespace, name)
        except NotFound:
            return None
        except KubeError as error:
            raise TransferRefused(503, f"the API server: {error.message or error}") from error

    async def find_worker_address(self, claim: PersistentVolumeClaim) -> str:
        """The address of the claim's worker, empty while it has none. Raises as :meth:`claim`."""
        namespace, name = claim.metadata.namespace, upload_pod_name(claim.metadata.name)
        try:
            pod = await asyncio.to_thread(self._client.get, Pod, namespace, name)
        except NotFound:
            return ""
        except KubeError as error:
            raise TransferRefused(503, f"the API server: {error.message or error}") from error
        return pod.status.pod_ip if pod.status.phase == "Running" else ""

"""Whether the cluster gives devices to claims (DRA), asked before a launcher's Pod with some is made.

Called when that Pod is made; asks the API server, as one without the feature drops a Pod's claims and says nothing: the
guest would come without its devices.
"""

from __future__ import annotations

from kvedge.kube.errors import NotFound
from kvedge.kube.kube_client import KubeClient
from kvedge.resources.host_devices.claimed_devices import CLAIM_GROUP
from kvedge.resources.types.vmi import VirtualMachineInstance


class ClaimsNotServed(Exception):
    """The cluster has no claims. The text has field and remedy."""


def check_claims_served(vmi: VirtualMachineInstance, client: KubeClient) -> None:
    """Raises:
    ClaimsNotServed: when the VMI has claims, and the server does not know them.
    KubeError: when the server cannot be asked.
    """
    if not vmi.spec.resource_claims:
        return
    try:
        client.request("GET", f"/apis/{CLAIM_GROUP}")
    except NotFound as error:
        raise ClaimsNotServed(
            f"spec.resourceClaims: this cluster does not serve {CLAIM_GROUP}, so that nothing gives devices to claims;"
            " use Kubernetes 1.34 or later, or permittedHostDevices and deviceName; the VM starts once it is there"
        ) from error

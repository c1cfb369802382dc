"""What a launcher's Pod has beyond its VMI's own words: the nodes that volumes and networks reach, and their devices.

Called by the VMI's loop before it creates the Pod; asks the API server for what a VMI only names.
"""

from __future__ import annotations

from collections.abc import Iterable

from kvedge.controller.kubevirt.cluster_config import ClusterConfig
from kvedge.controller.vmi.claimed_resources import check_claims_served
from kvedge.controller.vmi.hotplug.launcher_place import place_by_volumes
from kvedge.controller.vmi.lans.lan_places import on_its_lans
from kvedge.controller.vmi.permitted_resources import check_permitted
from kvedge.controller.vmi.sriov_resources import with_functions
from kvedge.kube.kube_client import KubeClient
from kvedge.resources.types.core import Pod
from kvedge.resources.types.storage import PersistentVolumeClaim
from kvedge.resources.types.vmi import VirtualMachineInstance


def place_pod(
    pod: Pod,
    vmi: VirtualMachineInstance,
    claims: Iterable[PersistentVolumeClaim],
    client: KubeClient,
    config: ClusterConfig,
) -> Pod:
    """The Pod as it is to be created; `claims` are the existing ones of the VMI.

    Raises:
        ClaimsNotServed: when the VMI has claims on devices, and the cluster does not know any.
        NotPermitted: when the KubeVirt object does not permit a device or a volume.
        NetworkMissing: when a network of the VMI is not there.
        FunctionsUnknown: when nobody says which device plugin has the functions of a network.
        KubeError: when the server cannot be asked.
    """
    check_permitted(vmi, config)
    check_claims_served(vmi, client)
    placed = on_its_lans(place_by_volumes(pod, vmi, claims, client), vmi, client)
    return with_functions(placed, vmi, client, by_others=config.functions_by_others)

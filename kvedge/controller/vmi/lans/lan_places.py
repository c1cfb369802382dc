"""Which nodes a launcher may run on, so that its guest's networks of the LAN are there.

Called when a launcher's Pod is made; reads the NetworkAttachmentDefinitions of its VMI, one by one.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator

import msgspec

from kvedge.kube.errors import Forbidden, NotFound
from kvedge.kube.kube_client import KubeClient
from kvedge.resources.lan_bridges import BRIDGE_PREFIX, find_needed_bridge
from kvedge.resources.types.attachments import NetworkAttachmentDefinition
from kvedge.resources.types.core import Pod
from kvedge.resources.types.pod_networks import Selection, attachment_of, lan_interfaces, missing_network
from kvedge.resources.types.vmi import VirtualMachineInstance

log = logging.getLogger(__name__)


class NetworkMissing(Exception):
    """A network that a VMI's Pod is to join is not there. The text has field and remedy."""


def on_its_lans(pod: Pod, vmi: VirtualMachineInstance, client: KubeClient) -> Pod:
    """The Pod, bound to nodes with the bridges of those networks that ask for that.

    A kubelet would tell of a network that is not there by events of the Pod alone.

    Raises:
        NetworkMissing: when one is not there.
        KubeError: when a network cannot be read now: a Pod that nothing binds may run where its guest hears nobody.
    """
    wanted = {BRIDGE_PREFIX + bridge: "true" for bridge in _bridges(vmi, client)}
    if not wanted:
        return pod
    spec = msgspec.structs.replace(pod.spec, node_selector={**pod.spec.node_selector, **wanted})
    return msgspec.structs.replace(pod, spec=spec)


def _bridges(vmi: VirtualMachineInstance, client: KubeClient) -> Iterator[str]:
    joined = {interface.name for _, interface, _ in lan_interfaces(vmi)}
    for index, network in enumerate(vmi.spec.networks):
        if network.multus is None or network.multus.default:
            # Multus looks for the network in place of the cluster's in a namespace of its own.
            continue
        namespace, name = attachment_of(network.multus.network_name, vmi.metadata.namespace)
        try:
            bridge = find_needed_bridge(client.get(NetworkAttachmentDefinition, namespace, name))
        except NotFound as error:
            if network.name in joined:
                missing = missing_network(Selection(name=name, namespace=namespace))
                raise NetworkMissing(f"spec.networks[{index}]: {missing}") from error
            continue
        except Forbidden as error:
            # The controller came before its rights did: until somebody applies them, VMs start as they did before.
            facts = {"network": f"{namespace}/{name}", "error": str(error), "remedy": "apply k3s/rbac again"}
            log.warning("the controller may not read on which nodes a network is", extra={"facts": facts})
            continue
        if bridge:
            yield bridge

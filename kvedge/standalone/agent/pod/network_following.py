"""A Pod that runs follows its annotation onto networks, off them, and from one to another.

Called by the Pod loop in the worker that has the Pod's key. The annotation is the controller's order for a launcher
whose guest gets a NIC, has released one, or is to have one elsewhere. What cannot be done is told by an event, and
tried again by itself.
"""

from __future__ import annotations

import time

from kvedge.kube.errors import NotFound
from kvedge.kube.events import EventRecorder
from kvedge.kube.informer import Informer
from kvedge.kube.kube_client import KubeClient
from kvedge.kube.patches import at_version
from kvedge.kube.reconcile_loop import backoff
from kvedge.resources.names import SWITCHES_NETWORKS
from kvedge.resources.types.core import Pod
from kvedge.resources.types.pod_networks import NETWORK_STATUS, NETWORKS
from kvedge.standalone.agent.pod.local_pods import LocalPod
from kvedge.standalone.agent.pod.place.pod_place import PlaceError, Places


def follow(places: Places, events: EventRecorder, local: LocalPod) -> float | None:
    """Bring the Pod to its networks; in how many seconds to try again, None when all is as it should be.

    Raises:
        KubeError: when the API cannot be asked.
    """
    pod = local.pod
    wanted = pod.metadata.annotations.get(NETWORKS, "")
    if pod.spec.host_network or pod.metadata.deletion_timestamp is not None or local.joined_for == wanted:
        return None
    delay = local.next_network_try - time.monotonic()
    if delay > 0:
        return delay
    complaint = ""
    try:
        local.network_status, complaint = places.follow_networks(pod, local.files, local.record.addresses)
    except PlaceError as error:
        complaint = str(error)
    if not complaint:
        local.joined_for, local.network_failures, local.next_network_try = wanted, 0, 0.0
        return None
    local.network_failures += 1
    delay = backoff(local.network_failures + 3, 0.5)
    local.next_network_try = time.monotonic() + delay
    events.record(pod, "Warning", "FailedJoinNetwork", complaint)
    return delay


def tell_networks(client: KubeClient, informer: Informer[Pod], local: LocalPod) -> None:
    """As Multus does, on the Pod itself: which networks it joined, and by which NIC.

    Raises:
        KubeError: when that fails.
    """
    told, meta = local.network_status, local.pod.metadata
    if local.joined_for is None and not told:
        # This agent has not looked yet.
        return
    wanted = {NETWORK_STATUS: told, SWITCHES_NETWORKS: "true" if told else ""}
    if all(meta.annotations.get(key, "") == value for key, value in wanted.items()):
        return
    change = {"metadata": {"annotations": {key: value or None for key, value in wanted.items()}}}
    try:
        local.pod = client.patch(Pod, meta.namespace, meta.name, at_version(change, meta.resource_version))
    except NotFound:
        return
    informer.observe(local.pod)

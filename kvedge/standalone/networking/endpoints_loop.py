"""Keeps the Endpoints and EndpointSlices of Services with a selector: reads, asks the plan, writes what differs.

Run by the networking service, one Service at a time. What users write for Services without a selector is left alone.
"""

from __future__ import annotations

from msgspec import Struct

from kvedge.kube.errors import NotFound
from kvedge.kube.informer import Informer
from kvedge.kube.kube_client import KubeClient, Preconditions
from kvedge.kube.work_queue import Key
from kvedge.resources.types.core import Pod
from kvedge.resources.types.services import SERVICE_NAME, Endpoints, EndpointSlice, Service
from kvedge.standalone.networking.endpoints_plan import (
    CONTROLLER,
    ENDPOINTS_CONTROLLER,
    ENDPOINTS_MANAGED_BY,
    MANAGED_BY,
    plan_endpoints,
)

BY_NAMESPACE = "namespace"
BY_SERVICE = "service"


class FollowedServices(Struct, frozen=True):
    """What the loops of this folder see of the API."""

    services: Informer[Service]
    pods: Informer[Pod]
    endpoints: Informer[Endpoints]
    slices: Informer[EndpointSlice]


def make_followed_services(client: KubeClient) -> FollowedServices:
    """Informers with the indexes that the loops ask for; not started."""
    followed = FollowedServices(
        services=Informer(client, Service),
        pods=Informer(client, Pod),
        endpoints=Informer(client, Endpoints),
        slices=Informer(client, EndpointSlice),
    )
    followed.services.add_index(BY_NAMESPACE, lambda item: (item.metadata.namespace,))
    followed.pods.add_index(BY_NAMESPACE, lambda item: (item.metadata.namespace,))
    followed.slices.add_index(BY_SERVICE, lambda item: (str(service_of(item)),))
    return followed


def service_of(item: EndpointSlice) -> Key:
    """The Service that a slice names."""
    return Key(item.metadata.namespace, item.metadata.labels.get(SERVICE_NAME, ""))


class EndpointsLoop(Struct, frozen=True):
    """Looks after all Services' endpoints."""

    client: KubeClient
    followed: FollowedServices

    def reconcile(self, key: Key) -> None:
        """Bring one Service's endpoints to what its Pods say.

        Raises:
            KubeError: when the API cannot be asked: tried again by the loop.
        """
        service = self.followed.services.get(key.namespace, key.name)
        present = [item for item in self.followed.slices.find_indexed(BY_SERVICE, str(key)) if _is_ours(item)]
        known = self.followed.endpoints.get(key.namespace, key.name)
        if service is None or not service.spec.selector or service.spec.type == "ExternalName":
            self._remove(known, present)
            return
        endpoints, slices = plan_endpoints(service, self.followed.pods.find_indexed(BY_NAMESPACE, key.namespace))
        self._keep_endpoints(known, endpoints)
        by_name = {item.metadata.name: item for item in present}
        for wanted in slices:
            self._keep_slice(by_name.pop(wanted.metadata.name, None), wanted)
        self._remove(None, list(by_name.values()))

    def _keep_endpoints(self, known: Endpoints | None, wanted: Endpoints) -> None:
        if known is None:
            self.followed.endpoints.observe(self.client.create(wanted))
        elif (known.subsets, known.metadata.labels) != (wanted.subsets, wanted.metadata.labels):
            wanted.metadata.resource_version = known.metadata.resource_version
            self.followed.endpoints.observe(self.client.replace(wanted))

    def _keep_slice(self, known: EndpointSlice | None, wanted: EndpointSlice) -> None:
        if known is None:
            self.followed.slices.observe(self.client.create(wanted))
            return
        same = (known.endpoints, known.ports, known.metadata.labels)
        if same != (wanted.endpoints, wanted.ports, wanted.metadata.labels):
            wanted.metadata.resource_version = known.metadata.resource_version
            self.followed.slices.observe(self.client.replace(wanted))

    def _remove(self, endpoints: Endpoints | None, slices: list[EndpointSlice]) -> None:
        gone: list[Endpoints | EndpointSlice] = list(slices)
        if endpoints is not None and endpoints.metadata.labels.get(ENDPOINTS_MANAGED_BY) == ENDPOINTS_CONTROLLER:
            gone.append(endpoints)
        for item in gone:
            meta = item.metadata
            try:
                self.client.delete(type(item), meta.namespace, meta.name, Preconditions(uid=meta.uid))
            except NotFound:
                continue


def _is_ours(item: EndpointSlice) -> bool:
    return item.metadata.labels.get(MANAGED_BY) == CONTROLLER

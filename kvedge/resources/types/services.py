"""Services and where they lead (core/v1, discovery.k8s.io/v1).

Of a Service only the fields that kvedge uses are typed: it is changed by patches only. Endpoints and EndpointSlices
are whole, as the loop that keeps them writes them anew. Touches nothing.
"""

from __future__ import annotations

from typing import ClassVar

from msgspec import field

from kvedge.resources.codec import KubeStruct
from kvedge.resources.kinds import Kind
from kvedge.resources.meta import ObjectMeta, ObjectReference

# Which Service a slice belongs to.
SERVICE_NAME: str = "kubernetes.io/service-name"
IPV4: str = "IPv4"
IPV6: str = "IPv6"
# Ports at the node come from here.
FIRST_NODE_PORT: int = 30000
LAST_NODE_PORT: int = 32767


class ServicePort(KubeStruct, kw_only=True):
    """A port of a Service."""

    name: str = ""
    port: int = 0
    protocol: str = "TCP"
    target_port: int | str = 0
    node_port: int = 0
    app_protocol: str = ""


class ServiceSpec(KubeStruct, kw_only=True):
    """What a Service should be."""

    type: str = ""
    selector: dict[str, str] = {}
    ports: list[ServicePort] = []
    cluster_ip: str = field(default="", name="clusterIP")
    cluster_ips: list[str] = field(default=[], name="clusterIPs")
    ip_families: list[str] = field(default=[], name="ipFamilies")
    session_affinity: str = ""
    load_balancer_class: str | None = None
    load_balancer_ip: str = field(default="", name="loadBalancerIP")
    publish_not_ready_addresses: bool = False

    @property
    def families(self) -> list[str]:
        """Of which families its endpoints are; one of an earlier version has IPv4 alone."""
        return self.ip_families or [IPV4]

    @property
    def addresses(self) -> dict[str, str]:
        """Its addresses by their family; none for one without an address of its own."""
        given = self.cluster_ips or [self.cluster_ip]
        return {} if given[0] in ("", "None") else {IPV6 if ":" in each else IPV4: each for each in given}


class LoadBalancerIngress(KubeStruct, kw_only=True):
    """Where a load balancer is."""

    ip: str = ""
    hostname: str = ""


class LoadBalancerStatus(KubeStruct, kw_only=True):
    """Where a load balancer is, by all its ways."""

    ingress: list[LoadBalancerIngress] = []


class ServiceStatus(KubeStruct, kw_only=True):
    """What a Service is now."""

    load_balancer: LoadBalancerStatus = field(default_factory=LoadBalancerStatus)


class Service(KubeStruct, kw_only=True):
    """core/v1 Service."""

    KIND: ClassVar[Kind] = Kind("", "v1", "Service", "services")
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: ServiceSpec = field(default_factory=ServiceSpec)
    status: ServiceStatus = field(default_factory=ServiceStatus)


class EndpointPort(KubeStruct, kw_only=True):
    """A port behind a Service."""

    name: str = ""
    port: int | None = None
    # Always on the wire: the API's default must not take its place.
    protocol: str | None = None
    app_protocol: str | None = None


class EndpointAddress(KubeStruct, kw_only=True):
    """An address behind a Service."""

    ip: str
    hostname: str = ""
    node_name: str | None = None
    target_ref: ObjectReference | None = None


class EndpointSubset(KubeStruct, kw_only=True):
    """Addresses that have the same ports."""

    addresses: list[EndpointAddress] = []
    not_ready_addresses: list[EndpointAddress] = []
    ports: list[EndpointPort] = []


class Endpoints(KubeStruct, kw_only=True):
    """core/v1 Endpoints."""

    KIND: ClassVar[Kind] = Kind("", "v1", "Endpoints", "endpoints")
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    subsets: list[EndpointSubset] = []


class EndpointConditions(KubeStruct, kw_only=True):
    """Whether an endpoint is ready, serves, is ending; None is unknown."""

    ready: bool | None = None
    serving: bool | None = None
    terminating: bool | None = None


class Endpoint(KubeStruct, kw_only=True):
    """The addresses of one Pod."""

    addresses: list[str]
    conditions: EndpointConditions = field(default_factory=EndpointConditions)
    hostname: str | None = None
    node_name: str | None = None
    target_ref: ObjectReference | None = None


class EndpointSlice(KubeStruct, kw_only=True):
    """discovery.k8s.io/v1 EndpointSlice."""

    KIND: ClassVar[Kind] = Kind("discovery.k8s.io", "v1", "EndpointSlice", "endpointslices")
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    address_type: str
    # Always on the wire, as the API wants it.
    endpoints: list[Endpoint]
    ports: list[EndpointPort] = []

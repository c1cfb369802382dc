"""Which Endpoints and EndpointSlices a Service has: those of its Pods, as they are ready. Pure.

Called by the endpoints' loop. The rules are Kubernetes': a Pod that ends is no longer ready but still serves; an ended
Pod is none; a Service that publishes all addresses takes its Pods for ready.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from msgspec import Struct

from kvedge.resources.meta import ObjectMeta, ObjectReference, condition, owner_reference
from kvedge.resources.phases import FINAL_POD_PHASES
from kvedge.resources.types.core import Pod
from kvedge.resources.types.services import (
    IPV4,
    IPV6,
    SERVICE_NAME,
    Endpoint,
    EndpointAddress,
    EndpointConditions,
    EndpointPort,
    Endpoints,
    EndpointSlice,
    EndpointSubset,
    Service,
)

MANAGED_BY: Final = "endpointslice.kubernetes.io/managed-by"
CONTROLLER: Final = "endpointslice-controller.k8s.io"
# On Endpoints that a loop keeps, as those of Services without a selector are somebody else's.
ENDPOINTS_MANAGED_BY: Final = "endpoints.kubernetes.io/managed-by"
ENDPOINTS_CONTROLLER: Final = "endpoint-controller"
_MOST_IN_A_SLICE: Final = 100
_HEADLESS: Final = "service.kubernetes.io/headless"
_LONGEST_PREFIX: Final = 57

_Ports = tuple[tuple[str, int, str, str], ...]


class _Member(Struct, frozen=True):
    """A Pod behind a Service, its address of one family, and the ports that it has for it."""

    pod: Pod
    address: str
    ports: _Ports


def selects(service: Service, pod: Pod) -> bool:
    """Whether a Pod is meant by a Service's selector."""
    labels, selector = pod.metadata.labels, service.spec.selector
    same_namespace = service.metadata.namespace == pod.metadata.namespace
    return bool(selector) and same_namespace and all(labels.get(key) == value for key, value in selector.items())


def plan_endpoints(service: Service, pods: Iterable[Pod]) -> tuple[Endpoints, list[EndpointSlice]]:
    """What a Service with a selector has: slices of each of its families, Endpoints of the first of them alone.

    `pods` are those of its namespace.
    """
    chosen = [pod for pod in sorted(pods, key=lambda pod: pod.metadata.name) if selects(service, pod) and _counts(pod)]
    families = service.spec.families
    groups = {family: _groups(service, chosen, family) for family in families}
    slices = [
        each
        for family in families
        for ports, those in sorted(groups[family].items())
        for each in _slices(service, family, ports, those)
    ]
    subsets = [_subset(service, ports, those) for ports, those in sorted(groups[families[0]].items())]
    return _endpoints(service, [each for each in subsets if each.addresses or each.not_ready_addresses]), slices


def address_of(pod: Pod, family: str) -> str:
    """A Pod's address of that family, empty for none."""
    given = [each.ip for each in pod.status.pod_ips] or [pod.status.pod_ip]
    return next((each for each in given if each and (":" in each) == (family == IPV6)), "")


def _groups(service: Service, pods: Iterable[Pod], family: str) -> dict[_Ports, list[_Member]]:
    members = [
        _Member(pod, address, ports)
        for pod in pods
        if (address := address_of(pod, family)) and (ports := _ports(service, pod)) is not None
    ]
    groups: dict[_Ports, list[_Member]] = {}
    for member in members:
        groups.setdefault(member.ports, []).append(member)
    if not groups:
        # An empty slice tells that somebody has looked.
        groups = {(): []}
    return groups


def is_ready(pod: Pod) -> bool:
    """Whether a Pod says of itself that it is."""
    found = condition(pod.status.conditions, "Ready")
    return found is not None and found.status == "True"


def _counts(pod: Pod) -> bool:
    return bool(pod.status.pod_ip) and pod.status.phase not in FINAL_POD_PHASES


def _ports(service: Service, pod: Pod) -> _Ports | None:
    """The ports of a Pod by the names of the Service's, without those that the Pod does not have.

    None where the Pod has none of them, unless the Service, without an address, names none.
    """
    found = []
    for port in service.spec.ports:
        number = _number(port.target_port or port.port, port.protocol, pod)
        if number:
            found.append((port.name, number, port.protocol, port.app_protocol))
    return tuple(found) if found or not service.spec.ports else None


def _number(target: int | str, protocol: str, pod: Pod) -> int:
    if isinstance(target, int):
        return target
    for container in pod.spec.containers:
        for port in container.ports:
            if port.name == target and port.protocol == protocol:
                return port.container_port
    return 0


def _slices(service: Service, family: str, ports: _Ports, members: list[_Member]) -> Iterator[EndpointSlice]:
    meta = service.metadata
    labels = {**_labels(service), SERVICE_NAME: meta.name, MANAGED_BY: CONTROLLER}
    for number, first in enumerate(range(0, max(len(members), 1), _MOST_IN_A_SLICE)):
        # Those of IPv4 keep the names that they had before there were others.
        what = f"{meta.uid} {ports} {number}" + ("" if family == IPV4 else f" {family}")
        digest = hashlib.sha256(what.encode()).hexdigest()[:5]
        yield EndpointSlice(
            metadata=ObjectMeta(
                name=f"{meta.name[:_LONGEST_PREFIX]}-{digest}",
                namespace=meta.namespace,
                labels=labels,
                owner_references=[owner_reference(service)],
            ),
            address_type=family,
            endpoints=[_endpoint(service, each) for each in members[first : first + _MOST_IN_A_SLICE]],
            ports=_port_list(ports),
        )


def _endpoint(service: Service, member: _Member) -> Endpoint:
    pod = member.pod
    serving, ending = is_ready(pod), pod.metadata.deletion_timestamp is not None
    ready = service.spec.publish_not_ready_addresses or (serving and not ending)
    return Endpoint(
        addresses=[member.address],
        conditions=EndpointConditions(ready=ready, serving=serving, terminating=ending),
        hostname=_hostname(service, pod) or None,
        node_name=pod.spec.node_name or None,
        target_ref=_reference(pod),
    )


def _subset(service: Service, ports: _Ports, members: list[_Member]) -> EndpointSubset:
    everybody = service.spec.publish_not_ready_addresses
    ready: list[EndpointAddress] = []
    not_ready: list[EndpointAddress] = []
    for each in members:
        pod = each.pod
        if pod.metadata.deletion_timestamp is not None and not everybody:
            continue
        address = EndpointAddress(
            ip=each.address,
            hostname=_hostname(service, pod),
            node_name=pod.spec.node_name or None,
            target_ref=_reference(pod),
        )
        (ready if everybody or is_ready(pod) else not_ready).append(address)
    return EndpointSubset(addresses=ready, not_ready_addresses=not_ready, ports=_port_list(ports))


def _endpoints(service: Service, subsets: list[EndpointSubset]) -> Endpoints:
    meta = service.metadata
    labels = {**_labels(service), ENDPOINTS_MANAGED_BY: ENDPOINTS_CONTROLLER}
    return Endpoints(metadata=ObjectMeta(name=meta.name, namespace=meta.namespace, labels=labels), subsets=subsets)


def _labels(service: Service) -> Mapping[str, str]:
    labels = dict(service.metadata.labels)
    if service.spec.cluster_ip == "None":
        labels[_HEADLESS] = ""
    return labels


def _port_list(ports: _Ports) -> list[EndpointPort]:
    return [
        EndpointPort(name=name, port=number, protocol=protocol, app_protocol=application or None)
        for name, number, protocol, application in ports
    ]


def _hostname(service: Service, pod: Pod) -> str:
    return pod.spec.hostname if pod.spec.hostname and pod.spec.subdomain == service.metadata.name else ""


def _reference(pod: Pod) -> ObjectReference:
    meta = pod.metadata
    return ObjectReference(kind="Pod", namespace=meta.namespace, name=meta.name, uid=meta.uid)

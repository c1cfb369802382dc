"""Which names one box has, and their addresses: those of Services, of the hosts behind them, and of VMs. Pure.

Made by the networking service whenever Services, slices or Pods have changed; asked by the name server.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from ipaddress import ip_address
from typing import Final

from msgspec import Struct, field

from kvedge.resources.names import VMI_ID
from kvedge.resources.types.core import Pod
from kvedge.resources.types.services import IPV4, IPV6, SERVICE_NAME, EndpointSlice, Service

ZONE: Final = "cluster.local"
_ZONE_LABELS: Final = tuple(ZONE.split("."))
_SERVICES: Final = ("svc", *_ZONE_LABELS)

# Namespace and name.
_Name = tuple[str, str]


class NameTable(Struct, frozen=True):
    """Addresses by names. `hosts` are those of a Service without an address: its namespace, its name, the host's."""

    services: Mapping[_Name, tuple[str, ...]] = field(default_factory=dict)
    hosts: Mapping[tuple[str, str, str], tuple[str, ...]] = field(default_factory=dict)
    vms: Mapping[_Name, tuple[str, ...]] = field(default_factory=dict)

    def in_zone(self, labels: tuple[str, ...]) -> tuple[str, ...] | None:
        """The addresses of a name of our zone; None when there is no such name.

        A VM has the name that a Service of its own name would have, unless there is that Service.
        """
        if labels[-len(_SERVICES) :] != _SERVICES:
            return () if labels == _ZONE_LABELS else None
        match labels[: -len(_SERVICES)]:
            case (name, namespace):
                return self.services.get((namespace, name), self.vms.get((namespace, name)))
            case (host, name, namespace):
                return self.hosts.get((namespace, name, host))
            case (namespace,):
                return () if any(known == namespace for known, _ in (*self.services, *self.vms)) else None
            case ():
                return ()
        return None

    def of_vm(self, labels: tuple[str, ...]) -> tuple[str, ...] | None:
        """The addresses of `vm.namespace`, or `service.namespace`; None when there is no such name."""
        if len(labels) != 2:
            return None
        name, namespace = labels
        return self.services.get((namespace, name), self.vms.get((namespace, name)))


def is_in_zone(labels: tuple[str, ...]) -> bool:
    """Whether a name is ours to know, and nobody else's."""
    return labels[-len(_ZONE_LABELS) :] == _ZONE_LABELS


def search_domains(namespace: str) -> list[str]:
    """Where a short name of a Pod is looked for."""
    return [f"{namespace}.svc.{ZONE}", f"svc.{ZONE}", ZONE]


def name_table(services: Iterable[Service], slices: Iterable[EndpointSlice], pods: Iterable[Pod]) -> NameTable:
    """All names, of what there is now. A Service that stands for a name elsewhere has none."""
    addressed: dict[_Name, tuple[str, ...]] = {}
    headless: dict[_Name, list[str]] = {}
    hosts: dict[tuple[str, str, str], list[str]] = {}
    for service in services:
        key = service.metadata.namespace, service.metadata.name
        if service.spec.cluster_ip == "None":
            headless[key] = []
        elif service.spec.cluster_ip and service.spec.type != "ExternalName":
            addressed[key] = _choose_usable(*service.spec.addresses.values())
    for item in slices:
        key = item.metadata.namespace, item.metadata.labels.get(SERVICE_NAME, "")
        if key not in headless or item.address_type not in (IPV4, IPV6):
            continue
        for endpoint in item.endpoints:
            if endpoint.conditions.ready is False:
                continue
            found = _choose_usable(*endpoint.addresses[:1])
            headless[key] += found
            if endpoint.hostname:
                hosts.setdefault((*key, endpoint.hostname), []).extend(found)
    vms: dict[_Name, tuple[str, ...]] = {}
    for pod in pods:
        name = pod.metadata.labels.get(VMI_ID, "")
        if name and pod.status.pod_ip and pod.status.phase == "Running":
            addresses = [each.ip for each in pod.status.pod_ips] or [pod.status.pod_ip]
            vms[pod.metadata.namespace, name] = _choose_usable(*addresses)
    addressed.update({key: _sort_addresses(those) for key, those in headless.items()})
    return NameTable(addressed, {key: _sort_addresses(those) for key, those in hosts.items()}, vms)


def _choose_usable(*addresses: str) -> tuple[str, ...]:
    """Those that an answer can have: what is stored may be of an earlier version."""
    return tuple(each for each in addresses if _is_address(each))


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    # One of a link alone is nowhere else.
    return "%" not in text


def _sort_addresses(addresses: list[str]) -> tuple[str, ...]:
    return tuple(sorted(set(addresses)))

"""What Services may say, what of them may change, and what an update keeps that it leaves out.

Called by the row of the kind. Pure; the objects have the types of their kind (`builtin_shape`). All causes at once, in
Kubernetes' words. What one box does not do is refused here and named.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kvedge.resources.codec import JsonObject
from kvedge.standalone.apiserver.kinds.rules.service_families import (
    NONE,
    check_addresses,
    check_changed_addresses,
    family_of,
    keep_addresses,
)
from kvedge.standalone.apiserver.schema.selectors import check_labels
from kvedge.standalone.apiserver.wire import name_rules
from kvedge.standalone.apiserver.wire.api_errors import FieldError
from kvedge.standalone.apiserver.wire.causes import (
    duplicate,
    forbidden,
    invalid,
    invalids,
    one_of,
    required_error,
    too_many,
)

SERVICE_TYPES: Final = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
PROTOCOLS: Final = ("SCTP", "TCP", "UDP")
# Each has its places in the kernel, for each address of the Service and for its endpoints.
_MOST_PORTS: Final = 100
# A day, as Kubernetes has it.
_LONGEST_AFFINITY: Final = 86400
_MAY_NOT: Final = "may not be used when `type` is '{}'"


def has_address(spec: JsonObject) -> bool:
    """Whether a Service of this kind has a cluster IP, or None for one."""
    return spec.get("type") != "ExternalName"


def has_node_ports(spec: JsonObject) -> bool:
    """Whether a Service of this kind may have ports at the node."""
    return spec.get("type") in ("NodePort", "LoadBalancer")


def check_service(service: JsonObject) -> Iterator[FieldError]:
    """Everything wrong with a Service."""
    spec = service.get("spec") or {}
    kind, ports = spec.get("type") or "ClusterIP", spec.get("ports") or []
    yield from one_of("spec.type", kind, SERVICE_TYPES)
    if not ports and kind != "ExternalName" and spec.get("clusterIP") != NONE:
        yield required_error("spec.ports")
    if kind == "ExternalName":
        name = (spec.get("externalName") or "").removesuffix(".")
        if name:
            yield from invalids("spec.externalName", name, name_rules.dns_subdomain(name))
        else:
            yield required_error("spec.externalName")
    yield from _check_ports(spec, kind, ports)
    yield from check_addresses(spec, kind)
    yield from check_labels(spec.get("selector"), "spec.selector")
    yield from _check_affinity(spec)
    yield from _check_traffic(spec, kind)
    yield from _check_left_out(spec)


def check_service_update(new: JsonObject, old: JsonObject) -> Iterator[FieldError]:
    """A Service keeps its addresses, unless it becomes or was a name only."""
    after, before = new.get("spec") or {}, old.get("spec") or {}
    if "ExternalName" in {after.get("type"), before.get("type")} or not before.get("clusterIP"):
        return
    yield from check_changed_addresses(after, before)


def keep_allocated(new: JsonObject, old: JsonObject) -> None:
    """What an update leaves out of what was allocated stays; what goes with the type of before goes (`new` is altered).

    As in Kubernetes, a port is known again by its name.
    """
    after, before = new.get("spec") or {}, old.get("spec") or {}
    if has_address(after) and has_address(before):
        keep_addresses(after, before)
    elif has_address(before):
        for field in ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"):
            if after.get(field) == before.get(field):
                after.pop(field, None)
    ports, earlier = after.get("ports") or [], before.get("ports") or []
    if has_node_ports(before) and has_node_ports(after):
        _keep_node_ports(ports, earlier)
    elif has_node_ports(before) and _node_ports(ports) == _node_ports(earlier):
        for port in ports:
            port.pop("nodePort", None)
    if before.get("externalTrafficPolicy") == after.get("externalTrafficPolicy") and not has_node_ports(after):
        after.pop("externalTrafficPolicy", None)
    if before.get("type") == "LoadBalancer" != after.get("type"):
        for field in ("allocateLoadBalancerNodePorts", "loadBalancerClass"):
            if after.get(field) == before.get(field):
                after.pop(field, None)


def _keep_node_ports(ports: list[JsonObject], earlier: list[JsonObject]) -> None:
    used = set(_node_ports(ports)) & set(_node_ports(earlier))
    by_name = {port.get("name") or "": port.get("nodePort") for port in earlier}
    for port in ports:
        before = by_name.get(port.get("name") or "")
        if not port.get("nodePort") and before and before not in used:
            port["nodePort"] = before
            used.add(before)


def _node_ports(ports: list[JsonObject]) -> list[int]:
    return [port.get("nodePort") or 0 for port in ports]


def _check_ports(spec: JsonObject, kind: str, ports: list[JsonObject]) -> Iterator[FieldError]:
    if len(ports) > _MOST_PORTS:
        yield too_many("spec.ports", len(ports), _MOST_PORTS)
        return
    names: set[str] = set()
    numbers: set[tuple[object, object]] = set()
    node_ports: set[tuple[object, object]] = set()
    for index, port in enumerate(ports):
        path = f"spec.ports[{index}]"
        yield from _check_port(port, path, len(ports) > 1)
        if port.get("name") and port["name"] in names:
            yield duplicate(f"{path}.name", port["name"])
        protocol = port.get("protocol") or "TCP"
        number = (protocol, port.get("port"))
        if number in numbers:
            yield duplicate(path, {"protocol": number[0], "port": number[1]})
        names.add(port.get("name") or "")
        numbers.add(number)
        wanted = port.get("nodePort")
        if not wanted:
            continue
        if not has_node_ports(spec):
            yield forbidden(f"{path}.nodePort", _MAY_NOT.format(kind))
        if (protocol, wanted) in node_ports:
            yield duplicate(f"{path}.nodePort", wanted)
        node_ports.add((protocol, wanted))


def _check_port(port: JsonObject, path: str, named: bool) -> Iterator[FieldError]:
    name = port.get("name")
    if name:
        yield from invalids(f"{path}.name", name, name_rules.dns_label(name))
    elif named:
        yield required_error(f"{path}.name")
    yield from invalids(f"{path}.port", port.get("port") or 0, name_rules.port_number(port.get("port") or 0))
    yield from one_of(f"{path}.protocol", port.get("protocol"), PROTOCOLS)
    target = port.get("targetPort")
    if isinstance(target, int):
        yield from invalids(f"{path}.targetPort", target, name_rules.port_number(target))
    elif target:
        yield from invalids(f"{path}.targetPort", target, name_rules.port_name(target))


def _check_affinity(spec: JsonObject) -> Iterator[FieldError]:
    affinity = spec.get("sessionAffinity")
    yield from one_of("spec.sessionAffinity", affinity, ("ClientIP", "None"))
    seconds = ((spec.get("sessionAffinityConfig") or {}).get("clientIP") or {}).get("timeoutSeconds")
    if affinity == "None" and spec.get("sessionAffinityConfig"):
        path = "spec.sessionAffinityConfig"
        yield forbidden(path, "must not be set when session affinity is None")
    elif seconds is not None and not (isinstance(seconds, int) and 0 < seconds <= _LONGEST_AFFINITY):
        path = "spec.sessionAffinityConfig.clientIP.timeoutSeconds"
        yield invalid(path, seconds, f"must be greater than 0 and less than {_LONGEST_AFFINITY}")


def _check_traffic(spec: JsonObject, kind: str) -> Iterator[FieldError]:
    policy = spec.get("externalTrafficPolicy")
    if policy and not has_node_ports(spec):
        yield invalid("spec.externalTrafficPolicy", policy, "may only be set for externally-accessible services")
    yield from one_of("spec.externalTrafficPolicy", policy, ("Cluster", "Local"))
    yield from one_of("spec.internalTrafficPolicy", spec.get("internalTrafficPolicy"), ("Cluster", "Local"))
    wish = spec.get("loadBalancerIP")
    if wish and family_of(wish) is None:
        yield invalid("spec.loadBalancerIP", wish, "must be an IPv4 or IPv6 address")
    for field in ("allocateLoadBalancerNodePorts", "loadBalancerClass"):
        if spec.get(field) is not None and kind != "LoadBalancer":
            yield forbidden(f"spec.{field}", "may only be used when `type` is 'LoadBalancer'")


def _check_left_out(spec: JsonObject) -> Iterator[FieldError]:
    if spec.get("externalIPs"):
        text = "one box takes no further addresses for Services: use type NodePort or LoadBalancer"
        yield forbidden("spec.externalIPs", text)
    if spec.get("loadBalancerSourceRanges"):
        text = "one box does not filter by source: filter on the host or in the guest"
        yield forbidden("spec.loadBalancerSourceRanges", text)

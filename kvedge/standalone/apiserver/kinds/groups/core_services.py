"""Services and their addresses. See `builtin_kind`."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from kvedge.resources.codec import JsonObject
from kvedge.standalone.apiserver.kinds.builtin_kind import CORE, BuiltinKind
from kvedge.standalone.apiserver.kinds.defaulting import set_missing, spec_of
from kvedge.standalone.apiserver.kinds.rules import core_rules, service_rules
from kvedge.standalone.apiserver.kinds.rules.service_rules import has_node_ports
from kvedge.standalone.apiserver.kinds.table_columns import AGE, NAME, NONE, Column, at, text
from kvedge.standalone.apiserver.wire import name_rules
from kvedge.standalone.apiserver.wire.protobuf_body import IN_KUBERNETES

_ENDPOINTS_SHOWN: Final = 3
# Three hours, as Kubernetes has it.
_AFFINITY_SECONDS: Final = 10800


def _set_service_defaults(obj: JsonObject) -> None:
    spec = spec_of(obj)
    set_missing(spec, type="ClusterIP", sessionAffinity="None")
    if spec["type"] != "ExternalName":
        set_missing(spec, internalTrafficPolicy="Cluster")
    if has_node_ports(spec):
        set_missing(spec, externalTrafficPolicy="Cluster")
    if spec["type"] == "LoadBalancer":
        set_missing(spec, allocateLoadBalancerNodePorts=True)
    if spec["sessionAffinity"] == "ClientIP":
        set_missing(spec, sessionAffinityConfig={})
        set_missing(spec["sessionAffinityConfig"], clientIP={})
        set_missing(spec["sessionAffinityConfig"]["clientIP"], timeoutSeconds=_AFFINITY_SECONDS)
    for port in spec.get("ports") or []:
        if isinstance(port, dict):
            set_missing(port, protocol="TCP")
            if port.get("targetPort") in ("", 0):
                # Go's clients write this for a port that was not given.
                del port["targetPort"]
            set_missing(port, targetPort=port.get("port"))


def _set_endpoints_defaults(obj: JsonObject) -> None:
    for subset in obj.get("subsets") or []:
        for port in (subset or {}).get("ports") or []:
            set_missing(port, protocol="TCP")


def _initial_status(service: JsonObject) -> JsonObject:
    return {"loadBalancer": {}}


def _external(service: JsonObject, now: datetime) -> str:
    spec = service.get("spec") or {}
    if spec.get("type") == "ExternalName":
        return str(spec.get("externalName") or NONE)
    addresses = list(spec.get("externalIPs") or [])
    if spec.get("type") == "LoadBalancer":
        ingress = at(service, "status.loadBalancer.ingress", [])
        addresses = [item.get("ip") or item.get("hostname") or "" for item in ingress] + addresses
        return ",".join(addresses) or "<pending>"
    return ",".join(addresses) or NONE


def _ports(service: JsonObject, now: datetime) -> str:
    shown = []
    for port in at(service, "spec.ports", []):
        node_port = f":{port['nodePort']}" if port.get("nodePort") else ""
        shown.append(f"{port.get('port')}{node_port}/{port.get('protocol') or 'TCP'}")
    return ",".join(shown) or NONE


def _selector(service: JsonObject, now: datetime) -> str:
    return ",".join(f"{key}={value}" for key, value in sorted(at(service, "spec.selector", {}).items())) or NONE


def _addresses(endpoints: JsonObject, now: datetime) -> str:
    shown = []
    for subset in endpoints.get("subsets") or []:
        ports = subset.get("ports") or [None]
        for port in ports:
            for address in subset.get("addresses") or []:
                shown.append(f"{address.get('ip')}:{port.get('port')}" if port else str(address.get("ip")))
    if len(shown) > _ENDPOINTS_SHOWN:
        return ",".join(shown[:_ENDPOINTS_SHOWN]) + f" + {len(shown) - _ENDPOINTS_SHOWN} more..."
    return ",".join(shown) or NONE


KINDS: Final = (
    BuiltinKind(
        *CORE,
        kind="Endpoints",
        plural="endpoints",
        short_names=("ep",),
        singular="endpoints",
        columns=(NAME, Column("Endpoints", _addresses), AGE),
        set_defaults=_set_endpoints_defaults,
        check=core_rules.check_endpoints,
        protobuf=IN_KUBERNETES,
    ),
    BuiltinKind(
        *CORE,
        kind="Service",
        plural="services",
        short_names=("svc",),
        categories=("all",),
        subresources=("status",),
        columns=(
            NAME,
            text("Type", "spec.type", "ClusterIP"),
            text("Cluster-IP", "spec.clusterIP", NONE),
            Column("External-IP", _external),
            Column("Port(s)", _ports),
            AGE,
            Column("Selector", _selector, priority=1),
        ),
        field_labels={"spec.clusterIP": "", "spec.type": ""},
        name_rule=name_rules.dns1035_label,
        set_defaults=_set_service_defaults,
        initial_status=_initial_status,
        metadata_with_status=True,
        check=service_rules.check_service,
        check_update=service_rules.check_service_update,
        keeps=service_rules.keep_allocated,
        checks_changed_specs_only=True,
        returned_when_deleted=True,
        protobuf=IN_KUBERNETES,
    ),
)

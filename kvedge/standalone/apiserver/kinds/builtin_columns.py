"""The columns that kubectl shows for each built-in kind.

Called by table_manifest. Pure; one small function for each cell that is more than a field.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from kvedge.resources.codec import JsonObject
from kvedge.standalone.apiserver.kinds.pod_columns import POD_COLUMNS
from kvedge.standalone.apiserver.kinds.table_columns import AGE, CREATED_AT, NAME, NONE, Column, at, text
from kvedge.standalone.apiserver.wire.human_ages import UNKNOWN, age, human_duration

_ROLE_PREFIX: Final = "node-role.kubernetes.io/"
_ENDPOINTS_SHOWN: Final = 3
_ACCESS_MODES: Final = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}


def _node_status(node: JsonObject, now: datetime) -> str:
    ready = next((item for item in at(node, "status.conditions", []) if item.get("type") == "Ready"), None)
    if ready is None:
        word = "Unknown"
    else:
        word = {"True": "Ready", "False": "NotReady"}.get(ready.get("status", ""), "NotReady")
    return word + (",SchedulingDisabled" if at(node, "spec.unschedulable") else "")


def _node_roles(node: JsonObject, now: datetime) -> str:
    labels = at(node, "metadata.labels", {})
    roles = {key.removeprefix(_ROLE_PREFIX) for key in labels if key.startswith(_ROLE_PREFIX)} - {""}
    if labels.get("kubernetes.io/role"):
        roles.add(labels["kubernetes.io/role"])
    return ",".join(sorted(roles)) or NONE


def _node_address(kind: str) -> Column:
    def cell(node: JsonObject, now: datetime) -> str:
        addresses = at(node, "status.addresses", [])
        return next((item.get("address", "") for item in addresses if item.get("type") == kind), NONE)

    return Column(f"{kind[:8]}-IP", cell, description=f"The node's {kind} address.", priority=1)


def _requested_duration(request: JsonObject, now: datetime) -> str:
    seconds = at(request, "spec.expirationSeconds")
    return human_duration(seconds) if seconds else NONE


def _request_condition(request: JsonObject, now: datetime) -> str:
    words = [str(item.get("type")) for item in at(request, "status.conditions", [])]
    words += ["Issued"] if at(request, "status.certificate") else []
    return ",".join(words) or "Pending"


def _first_seen(event: JsonObject, now: datetime) -> str:
    return age(event.get("firstTimestamp") or event.get("eventTime") or event.get("deprecatedFirstTimestamp"), now)


def _last_seen(event: JsonObject, now: datetime) -> str:
    moment = at(event, "series.lastObservedTime") or event.get("lastTimestamp") or event.get("deprecatedLastTimestamp")
    return age(moment, now) if moment else _first_seen(event, now)


def _event_object(event: JsonObject, now: datetime) -> str:
    involved = event.get("involvedObject") or event.get("regarding") or {}
    kind, name = str(involved.get("kind", "")).lower(), involved.get("name")
    return f"{kind}/{name}" if name else kind


def _event_source(event: JsonObject, now: datetime) -> str:
    source = event.get("source") or event.get("deprecatedSource") or {}
    component = source.get("component") or event.get("reportingComponent") or event.get("reportingController") or ""
    instance = source.get("host") or event.get("reportingInstance")
    return f"{component}, {instance}" if instance else str(component)


def _event_count(event: JsonObject, now: datetime) -> int:
    return int(at(event, "series.count") or event.get("count") or event.get("deprecatedCount") or 1)


def _service_external(service: JsonObject, now: datetime) -> str:
    spec = service.get("spec") or {}
    if spec.get("type") == "ExternalName":
        return str(spec.get("externalName") or NONE)
    addresses = list(spec.get("externalIPs") or [])
    if spec.get("type") == "LoadBalancer":
        ingress = at(service, "status.loadBalancer.ingress", [])
        addresses = [item.get("ip") or item.get("hostname") or "" for item in ingress] + addresses
        return ",".join(addresses) or "<pending>"
    return ",".join(addresses) or NONE


def _service_ports(service: JsonObject, now: datetime) -> str:
    shown = []
    for port in at(service, "spec.ports", []):
        node_port = f":{port['nodePort']}" if port.get("nodePort") else ""
        shown.append(f"{port.get('port')}{node_port}/{port.get('protocol') or 'TCP'}")
    return ",".join(shown) or NONE


def _service_selector(service: JsonObject, now: datetime) -> str:
    return ",".join(f"{key}={value}" for key, value in sorted(at(service, "spec.selector", {}).items())) or NONE


def _endpoints(endpoints: JsonObject, now: datetime) -> str:
    shown = []
    for subset in endpoints.get("subsets") or []:
        ports = subset.get("ports") or [None]
        for port in ports:
            for address in subset.get("addresses") or []:
                shown.append(f"{address.get('ip')}:{port.get('port')}" if port else str(address.get("ip")))
    if len(shown) > _ENDPOINTS_SHOWN:
        return ",".join(shown[:_ENDPOINTS_SHOWN]) + f" + {len(shown) - _ENDPOINTS_SHOWN} more..."
    return ",".join(shown) or NONE


def _service_of(api_service: JsonObject, now: datetime) -> str:
    service = at(api_service, "spec.service")
    return f"{service.get('namespace')}/{service.get('name')}" if service else "Local"


def _available(api_service: JsonObject, now: datetime) -> str:
    conditions = at(api_service, "status.conditions", [])
    found: Any = next((item for item in conditions if item.get("type") == "Available"), None)
    if found is None:
        return "Unknown"
    return "True" if found.get("status") == "True" else f"{found.get('status')} ({found.get('reason', '')})"


def _parent(address: JsonObject, now: datetime) -> str:
    parent = at(address, "spec.parentRef", {})
    resource = ".".join(part for part in (parent.get("resource"), parent.get("group")) if part)
    return "/".join(part for part in (resource, parent.get("namespace"), parent.get("name")) if part)


def _modes(path: str) -> Column:
    def cell(obj: JsonObject, now: datetime) -> str:
        return ",".join(_ACCESS_MODES.get(mode, mode) for mode in at(obj, path, []))

    return Column("Access Modes", cell, description="How the volume can be mounted.")


def _claim(volume: JsonObject, now: datetime) -> str:
    claim = at(volume, "spec.claimRef")
    return f"{claim.get('namespace')}/{claim.get('name')}" if claim else ""


def _claim_status(claim: JsonObject, now: datetime) -> str:
    return "Terminating" if at(claim, "metadata.deletionTimestamp") else str(at(claim, "status.phase", ""))


def _quota(name: str, *, limits: bool) -> Column:
    def cell(quota: JsonObject, now: datetime) -> str:
        hard, used = at(quota, "status.hard", {}), at(quota, "status.used", {})
        shown = (key for key in sorted(hard) if key.startswith("limits.") == limits)
        return ", ".join(f"{key}: {used.get(key, '0')}/{hard[key]}" for key in shown)

    return Column(name, cell, description="What is used of what there may be.")


def _count(*paths: str) -> Column:
    def cell(obj: JsonObject, now: datetime) -> int:
        return sum(len(at(obj, path, {})) for path in paths)

    return Column(paths[0].capitalize(), cell, type="integer", description="How many there are.")


def _role(binding: JsonObject, now: datetime) -> str:
    return f"{at(binding, 'roleRef.kind', '')}/{at(binding, 'roleRef.name', '')}"


_BINDING: Final = (NAME, Column("Role", _role, description="What is granted."), AGE)
_WEBHOOKS: Final = (NAME, _count("webhooks"), AGE)
_EVENT: Final = (
    Column("Last Seen", _last_seen, description="When it was last observed."),
    text("Type", "type", description="Normal or Warning."),
    text("Reason", "reason", description="Why, in one word for machines."),
    Column("Object", _event_object, description="What the event is about."),
    text("Subobject", "involvedObject.fieldPath", priority=1, description="Which part of the object."),
    Column("Source", _event_source, priority=1, description="Who reported it."),
    Column("Message", lambda event, now: str(event.get("message") or event.get("note") or "").strip()),
    Column("First Seen", _first_seen, priority=1, description="When it was first observed."),
    Column("Count", _event_count, type="integer", priority=1, description="How often it was observed."),
    Column("Name", NAME.cell, format="name", priority=1, description=NAME.description),
)

# By resource and group. A kind that is not here shows its name and when it was created.
BUILT_IN_COLUMNS: Final[Mapping[tuple[str, str], tuple[Column, ...]]] = {
    ("pods", ""): POD_COLUMNS,
    ("nodes", ""): (
        NAME,
        Column("Status", _node_status, description="Whether the node takes Pods."),
        Column("Roles", _node_roles, description="The node's roles."),
        AGE,
        text("Version", "status.nodeInfo.kubeletVersion", description="Version of the node's agent."),
        _node_address("InternalIP"),
        _node_address("ExternalIP"),
        text("OS-Image", "status.nodeInfo.osImage", UNKNOWN, 1),
        text("Kernel-Version", "status.nodeInfo.kernelVersion", UNKNOWN, 1),
        text("Container-Runtime", "status.nodeInfo.containerRuntimeVersion", UNKNOWN, 1),
    ),
    ("events", ""): _EVENT,
    ("events", "events.k8s.io"): _EVENT,
    ("namespaces", ""): (NAME, text("Status", "status.phase"), AGE),
    ("resourcequotas", ""): (NAME, _quota("Request", limits=False), _quota("Limit", limits=True), AGE),
    ("secrets", ""): (NAME, text("Type", "type"), _count("data"), AGE),
    ("configmaps", ""): (NAME, _count("data", "binaryData"), AGE),
    ("serviceaccounts", ""): (NAME, _count("secrets"), AGE),
    ("services", ""): (
        NAME,
        text("Type", "spec.type", "ClusterIP"),
        text("Cluster-IP", "spec.clusterIP", NONE),
        Column("External-IP", _service_external),
        Column("Port(s)", _service_ports),
        AGE,
        Column("Selector", _service_selector, priority=1),
    ),
    ("endpoints", ""): (NAME, Column("Endpoints", _endpoints), AGE),
    ("leases", "coordination.k8s.io"): (NAME, text("Holder", "spec.holderIdentity"), AGE),
    ("customresourcedefinitions", "apiextensions.k8s.io"): (NAME, CREATED_AT),
    ("apiservices", "apiregistration.k8s.io"): (
        NAME,
        Column("Service", _service_of),
        Column("Available", _available),
        AGE,
    ),
    ("ipaddresses", "networking.k8s.io"): (NAME, Column("ParentRef", _parent), AGE),
    ("persistentvolumeclaims", ""): (
        NAME,
        Column("Status", _claim_status),
        text("Volume", "spec.volumeName"),
        text("Capacity", "status.capacity.storage"),
        _modes("status.accessModes"),
        text("StorageClass", "spec.storageClassName"),
        AGE,
        text("VolumeMode", "spec.volumeMode", "Filesystem", 1),
    ),
    ("persistentvolumes", ""): (
        NAME,
        text("Capacity", "spec.capacity.storage"),
        _modes("spec.accessModes"),
        text("Reclaim Policy", "spec.persistentVolumeReclaimPolicy"),
        Column("Status", _claim_status),
        Column("Claim", _claim),
        text("StorageClass", "spec.storageClassName"),
        text("Reason", "status.reason"),
        AGE,
        text("VolumeMode", "spec.volumeMode", "Filesystem", 1),
    ),
    ("mutatingwebhookconfigurations", "admissionregistration.k8s.io"): _WEBHOOKS,
    ("validatingwebhookconfigurations", "admissionregistration.k8s.io"): _WEBHOOKS,
    ("certificatesigningrequests", "certificates.k8s.io"): (
        NAME,
        AGE,
        text("SignerName", "spec.signerName"),
        text("Requestor", "spec.username"),
        Column("RequestedDuration", _requested_duration),
        Column("Condition", _request_condition),
    ),
    ("rolebindings", "rbac.authorization.k8s.io"): _BINDING,
    ("clusterrolebindings", "rbac.authorization.k8s.io"): _BINDING,
    ("storageclasses", "storage.k8s.io"): (
        NAME,
        text("Provisioner", "provisioner"),
        text("ReclaimPolicy", "reclaimPolicy", "Delete"),
        text("VolumeBindingMode", "volumeBindingMode", "Immediate"),
        AGE,
    ),
    ("priorityclasses", "scheduling.k8s.io"): (
        NAME,
        Column("Value", lambda obj, now: obj.get("value") or 0, type="integer"),
        Column("Global-Default", lambda obj, now: bool(obj.get("globalDefault")), type="boolean"),
        AGE,
    ),
    ("controllerrevisions", "apps"): (
        NAME,
        Column("Revision", lambda obj, now: obj.get("revision") or 0, type="integer"),
        AGE,
    ),
}

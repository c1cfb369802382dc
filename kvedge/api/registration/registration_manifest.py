"""The documents by which an API server learns of the api role: Service, endpoints, webhooks, APIServices.

Called by registration_loop.py. Touches nothing. Everything that the server would fill in is spelled out, so that what
is there can be compared with what should be.
"""

from __future__ import annotations

import base64
import hashlib
import ipaddress
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from kvedge import __version__
from kvedge.api.served_paths import (
    MUTATE_PATH,
    SERVICE,
    SUBRESOURCE_GROUP,
    SUBRESOURCE_VERSIONS,
    VALIDATE_EVICTION_PATH,
    VALIDATE_KUBEVIRT_PATH,
    VALIDATE_MIGRATION_PATH,
    VALIDATE_PATH,
)
from kvedge.resources.codec import JsonObject
from kvedge.resources.data_volume_names import CDI_GROUP
from kvedge.resources.manifests.role_rights import CA_BUNDLE_KEY, CA_BUNDLE_NAME
from kvedge.resources.names import SYSTEM_NAMESPACE, VERSION
from kvedge.resources.types.attachments import NetworkAttachmentDefinition
from kvedge.resources.types.kubevirt import BLOCK_UNINSTALL
from kvedge.resources.types.migrations import MigrationPolicy
from kvedge.resources.types.scaling.pools import POOL_GROUP

_SERVICE_PORT: Final = 443
_PORT_NAME: Final = "https"
_OURS: Final = {"app.kubernetes.io/managed-by": "kvedge"}
# On all that may differ from release to release, and on the slice, by which other roles see which release serves.
_RELEASE: Final = {VERSION: __version__}
_SERVICE_LABEL: Final = "kubernetes.io/service-name"
# By which Kubernetes knows that a slice is nobody's but ours.
SLICES_KEEPER: Final = {"endpointslice.kubernetes.io/managed-by": "kvedge"}
# Where the slices of all instances are.
SLICES: Final = f"/apis/discovery.k8s.io/v1/namespaces/{SYSTEM_NAMESPACE}/endpointslices"
_FAMILIES: Final = (4, 6)
_LONGEST_INSTANCE: Final = 40
# An API server waits so long for an answer; ours come within milliseconds or not at all.
_TIMEOUT_SECONDS: Final = 10
# And for one that it can do without: a role that hangs must not hold reports up.
_SHORT_TIMEOUT_SECONDS: Final = 2

# A handler may speak as its node: see role_users.
_BY_NODES: Final = "('system:nodes' in request.userInfo.groups && request.userInfo.username.startsWith('system:node:'))"
_BY_ROLES: Final = (
    "request.userInfo.username.startsWith('system:serviceaccount:kvedge-system:kvedge-')"
    " || ['kvedge:controllers', 'kvedge:apis', 'kvedge:handlers'].exists(g, g in request.userInfo.groups)"
    f" || {_BY_NODES}"
)
_NOT_BY_ROLES: Final[JsonObject] = {"name": "not-by-kvedge-itself", "expression": f"!({_BY_ROLES})"}
# A role's write to a spec may follow a VM that a user has edited since, so the guest must be able to take it.
_NOT_A_REPORT_OF_ROLES: Final[JsonObject] = {
    "name": "not-a-report-of-kvedge-itself",
    "expression": f"!({_BY_ROLES}) || object.spec != oldObject.spec",
}
_SPEC_CHANGES: Final[JsonObject] = {
    "name": "spec-changes",
    "expression": "oldObject == null || has(object.spec) != has(oldObject.spec)"
    " || (has(object.spec) && object.spec != oldObject.spec)",
}
_BY_HANDLERS: Final[JsonObject] = {
    "name": "by-handlers",
    "expression": "request.userInfo.username == 'system:serviceaccount:kvedge-system:kvedge-handler'"
    f" || 'kvedge:handlers' in request.userInfo.groups || {_BY_NODES}",
}
_BLOCKED_BY_WORKLOADS: Final[JsonObject] = {
    "name": "blocked-by-workloads",
    "expression": f"has(oldObject.spec.uninstallStrategy) && oldObject.spec.uninstallStrategy == '{BLOCK_UNINSTALL}'",
}
_LABELS_CHANGE: Final = (
    "has(object.metadata.labels) != has(oldObject.metadata.labels)"
    " || (has(object.metadata.labels) && object.metadata.labels != oldObject.metadata.labels)"
)
_STATUS_CHANGES: Final = (
    "has(object.status) != has(oldObject.status) || (has(object.status) && object.status != oldObject.status)"
)
# A VMI on its way out only loses finalizers: that must not wait for anybody. But roles still act on its status: a
# user who could say that its guest has ended, while it runs, could have a second one started.
_MORE_THAN_LETTING_GO: Final[JsonObject] = {
    "name": "more-than-letting-go",
    "expression": "!has(object.metadata.deletionTimestamp) || object.spec != oldObject.spec"
    f" || {_STATUS_CHANGES} || {_LABELS_CHANGE}",
}
# An object on its way out only loses finalizers: that must not wait for anybody.
_NOT_BEING_DELETED: Final[JsonObject] = {
    "name": "not-being-deleted",
    "expression": "!has(object.metadata.deletionTimestamp)",
}


# KubeVirt's names of the webhooks of evictions and of their conditions, and how the names of their Pods begin.
_EVICTIONS: Final = (
    ("virt-launcher-eviction-interceptor.kubevirt.io", "only-vms", "virt-launcher-"),
    ("hotplug-pod-eviction-interceptor.kubevirt.io", "only-hotplug-pods", "hp-volume-"),
)
# All other networks of a cluster are its CNI plugins' to judge.
_IN_OUR_WORDS: Final[JsonObject] = {
    "name": "in-words-of-kvedge",
    "expression": "has(object.spec) && has(object.spec.config) && object.spec.config.contains('\"kvedge\"')",
}


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where one api role is reached by the API server; `instance` tells several apart."""

    address: str
    port: int
    instance: str


@dataclass(frozen=True, slots=True)
class Document:
    """One object and the collection it belongs to."""

    collection: str
    body: JsonObject

    @property
    def name(self) -> str:
        """The object's name."""
        return str(self.body["metadata"]["name"])

    @property
    def path(self) -> str:
        """The object's path."""
        return f"{self.collection}/{self.name}"


def instance_name(name: str) -> str:
    """A node's or a host's name as it may stand in an object's name: two of them never become one."""
    text = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
    if text == name.lower() and len(text) <= _LONGEST_INSTANCE:
        return text
    digest = hashlib.sha256(name.lower().encode()).hexdigest()[:8]
    return f"{text[: _LONGEST_INSTANCE - len(digest) - 1].strip('-') or 'kvedge'}-{digest}"


def server_names() -> list[str]:
    """The names under which an API server connects to the Service."""
    short = f"{SERVICE}.{SYSTEM_NAMESPACE}"
    return [f"{short}.svc", f"{short}.svc.cluster.local", short]


def documents(
    endpoint: Endpoint,
    ca_bundle: bytes,
    secret: str,
    *,
    judges_data_volumes: bool = True,
    joins_all_networks: bool = False,
) -> list[Document]:
    """All documents but the Endpoints, in the order in which they are written.

    `secret` is the part of secret_paths.py. `judges_data_volumes` says that kvedge serves CDI's kinds: those of CDI
    itself are CDI's to judge.
    `joins_all_networks`: it is one box, where nobody else joins Pods to networks.
    """
    return [
        namespace(),
        service(),
        endpoint_slice(endpoint),
        bundle(ca_bundle),
        *(api_service(version, ca_bundle) for version in SUBRESOURCE_VERSIONS),
        # Last: from here on, writes depend on us.
        mutating_webhooks(ca_bundle),
        validating_webhooks(
            ca_bundle, secret, judges_data_volumes=judges_data_volumes, joins_all_networks=joins_all_networks
        ),
    ]


def namespace() -> Document:
    """Where the Service is."""
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SYSTEM_NAMESPACE}}
    return Document("/api/v1/namespaces", body)


def bundle(ca_bundle: bytes) -> Document:
    """The authority that handlers trust; they read it, and only the api role writes it."""
    body = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": CA_BUNDLE_NAME, "namespace": SYSTEM_NAMESPACE, "labels": dict(_OURS)},
        "data": {CA_BUNDLE_KEY: ca_bundle.decode()},
    }
    return Document(f"/api/v1/namespaces/{SYSTEM_NAMESPACE}/configmaps", body)


def service() -> Document:
    """A Service without a selector: no Pod stands behind it, we write its endpoints ourselves, each with its port."""
    port = {"name": _PORT_NAME, "port": _SERVICE_PORT, "protocol": "TCP"}
    body = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": SERVICE, "namespace": SYSTEM_NAMESPACE, "labels": dict(_OURS)},
        "spec": {"type": "ClusterIP", "ports": [port]},
    }
    return Document(f"/api/v1/namespaces/{SYSTEM_NAMESPACE}/services", body)


def endpoint_slice(endpoint: Endpoint) -> Document:
    """Our own address; each instance has a slice of its own, so that none overwrites another's."""
    version = ipaddress.ip_address(endpoint.address).version
    body = {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": _slice_name(endpoint.instance, version),
            "namespace": SYSTEM_NAMESPACE,
            "labels": {**_OURS, _SERVICE_LABEL: SERVICE, **SLICES_KEEPER},
            "annotations": dict(_RELEASE),
        },
        "addressType": f"IPv{version}",
        "endpoints": [{"addresses": [endpoint.address], "conditions": {"ready": True}}],
        "ports": [{"name": _PORT_NAME, "port": endpoint.port, "protocol": "TCP"}],
    }
    return Document(SLICES, body)


def slices_selector() -> str:
    """The label selector of all instances' slices."""
    return f"{_SERVICE_LABEL}={SERVICE}"


def slice_names(instance: str) -> frozenset[str]:
    """What an instance's slice may be called, as its address is of the one family or of the other."""
    return frozenset(_slice_name(instance, version) for version in _FAMILIES)


def instance_of(slice_name: str) -> str:
    """The instance whose EndpointSlice has this name."""
    head, tails = f"{SERVICE}-", tuple(f"-ipv{version}" for version in _FAMILIES)
    name = slice_name.removeprefix(head)
    return next((name.removesuffix(tail) for tail in tails if name.endswith(tail)), name)


def _slice_name(instance: str, version: int) -> str:
    return f"{SERVICE}-{instance}-ipv{version}"


def endpoints(slices: Sequence[JsonObject]) -> Document:
    """The same addresses as core/v1 Endpoints, which older API servers resolve a Service by."""
    subsets = []
    for item in sorted(slices, key=lambda item: str(item["metadata"]["name"])):
        addresses = [{"ip": ip} for entry in item.get("endpoints") or () for ip in entry["addresses"]]
        if addresses:
            subsets.append({"addresses": addresses, "ports": [dict(port) for port in item["ports"]]})
    # Kubernetes would otherwise make slices of it, beside ours.
    labels = {**_OURS, "endpointslice.kubernetes.io/skip-mirror": "true"}
    body = {
        "apiVersion": "v1",
        "kind": "Endpoints",
        "metadata": {"name": SERVICE, "namespace": SYSTEM_NAMESPACE, "labels": labels},
        "subsets": subsets,
    }
    return Document(f"/api/v1/namespaces/{SYSTEM_NAMESPACE}/endpoints", body)


def api_service(version: str, ca_bundle: bytes) -> Document:
    """The aggregated API of subresources in one version."""
    return api_service_document(SUBRESOURCE_GROUP, version, ca_bundle)


def api_service_document(group: str, version: str, ca_bundle: bytes) -> Document:
    """An aggregated API that the role serves."""
    body = {
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {
            "name": f"{version}.{group}",
            "labels": dict(_OURS),
            "annotations": dict(_RELEASE),
        },
        "spec": {
            "group": group,
            "version": version,
            "groupPriorityMinimum": 1000,
            "versionPriority": 15,
            "service": {"namespace": SYSTEM_NAMESPACE, "name": SERVICE, "port": _SERVICE_PORT},
            "caBundle": _text(ca_bundle),
        },
    }
    return Document("/apis/apiregistration.k8s.io/v1/apiservices", body)


def mutating_webhooks(ca_bundle: bytes) -> Document:
    """Defaults, and a VMI's status kept from users."""
    webhooks = [
        # Fail: a VM without its platform written down could become another machine with the next release.
        webhook("virtualmachines-mutator.kubevirt.io", MUTATE_PATH, ca_bundle, "virtualmachines",
                 operations=("CREATE", "UPDATE"), conditions=(_NOT_BEING_DELETED,)),
        # Fail: a VMI without defaults has no finalizer, no phase and perhaps no network.
        webhook("virtualmachineinstances-mutator.kubevirt.io", MUTATE_PATH, ca_bundle, "virtualmachineinstances",
                 operations=("CREATE",)),
        # Fail, as status is what roles act on; roles themselves and the end of a deletion do not pass here.
        webhook("virtualmachineinstances-status-mutator.kvedge.io", MUTATE_PATH, ca_bundle, "virtualmachineinstances",
                 operations=("UPDATE",), conditions=(_NOT_BY_ROLES, _MORE_THAN_LETTING_GO)),
        # Fail: a migration without its label could be one of two that move the same guest.
        webhook("migrations-mutator.kubevirt.io", MUTATE_PATH, ca_bundle, "virtualmachineinstancemigrations",
                 operations=("CREATE",)),
    ]  # fmt: skip
    for each in webhooks:
        each["reinvocationPolicy"] = "Never"
    return webhook_configuration("Mutating", webhooks)


def validating_webhooks(
    ca_bundle: bytes, secret: str, *, judges_data_volumes: bool = True, joins_all_networks: bool = False
) -> Document:
    """All rules. Deletes never depend on us, though we may refuse one kind; nor does a role's write of a status."""
    kubevirts, moves = f"{VALIDATE_KUBEVIRT_PATH}/{secret}", f"{VALIDATE_MIGRATION_PATH}/{secret}"
    webhooks = [
        # Fail: what is not supported must be refused when it is applied, not found out when it runs.
        webhook("virtualmachine-validator.kubevirt.io", VALIDATE_PATH, ca_bundle, "virtualmachines",
                 operations=("CREATE", "UPDATE"), conditions=(_NOT_BEING_DELETED,)),
        # Fail: this is the last gate before something runs, also for VMs that were stored by an older release.
        webhook("virtualmachineinstances-create-validator.kubevirt.io", VALIDATE_PATH, ca_bundle,
                 "virtualmachineinstances", operations=("CREATE",)),
        # Fail: a user must not change what runs under the roles' feet, and roles change no more than volumes that come
        # and go. Status reports of the roles and finished deletions do not pass here.
        webhook("virtualmachineinstances-update-validator.kubevirt.io", VALIDATE_PATH, ca_bundle,
                 "virtualmachineinstances", operations=("UPDATE",),
                 conditions=(_NOT_A_REPORT_OF_ROLES, _MORE_THAN_LETTING_GO)),
        # Ignore: a handler reports what its VMs do, and must be able to while we are away. That it writes its own
        # node's VMIs only is then still seen to: by the policy of node_restriction_manifest.py in a cluster, by the
        # embedded API's authorizer on one box.
        webhook("virtualmachineinstances-node-restriction.kvedge.io", VALIDATE_PATH, ca_bundle,
                 "virtualmachineinstances", operations=("UPDATE",), conditions=(_BY_HANDLERS,), policy="Ignore"),
        # Fail: a guest that cannot move must not be tried to move, and not twice at a time.
        webhook("migration-create-validator.kubevirt.io", moves, ca_bundle,
                 "virtualmachineinstancemigrations", operations=("CREATE",)),
        # Fail: the roles act on what a migration was made for, also while it is cancelled. Letting go of it passes by.
        webhook("migration-update-validator.kubevirt.io", VALIDATE_PATH, ca_bundle,
                 "virtualmachineinstancemigrations", operations=("UPDATE",),
                 conditions=(_NOT_A_REPORT_OF_ROLES, _MORE_THAN_LETTING_GO)),
        # Fail: a policy that means nothing would be found out when a guest moves.
        webhook("migration-policy-validator.kubevirt.io", VALIDATE_PATH, ca_bundle, MigrationPolicy.KIND.plural,
                 operations=("CREATE", "UPDATE"), conditions=(_NOT_BEING_DELETED, _SPEC_CHANGES),
                 served=(MigrationPolicy.KIND.group, (MigrationPolicy.KIND.version,))),
        # Fail: a preset that contradicts itself would keep VMIs out later.
        webhook("virtualmachinepreset-validator.kubevirt.io", VALIDATE_PATH, ca_bundle,
                 "virtualmachineinstancepresets", operations=("CREATE", "UPDATE"),
                 conditions=(_NOT_BEING_DELETED, _SPEC_CHANGES)),
        # Fail: a template that no VMI can be made of must be refused when it is applied. Scaling passes by `scale`.
        webhook("virtualmachineinstancereplicaset-validator.kubevirt.io", VALIDATE_PATH, ca_bundle,
                 "virtualmachineinstancereplicasets", operations=("CREATE", "UPDATE"),
                 conditions=(_NOT_BEING_DELETED, _SPEC_CHANGES)),
        # Fail, for the same reason.
        webhook("virtualmachinepool-validator.kubevirt.io", VALIDATE_PATH, ca_bundle, "virtualmachinepools",
                 operations=("CREATE", "UPDATE"), conditions=(_NOT_BEING_DELETED, _SPEC_CHANGES),
                 served=(POOL_GROUP, ("v1beta1", "v1alpha1"))),
        # Fail: a configuration that cannot be used must be refused when it is written, and there is one object only.
        webhook("kubevirt-create-validator.kubevirt.io", kubevirts, ca_bundle, "kubevirts",
                 operations=("CREATE",)),
        # Fail, for the same reason; the controller writes the status subresource, which does not pass here.
        webhook("kubevirt-update-validator.kubevirt.io", kubevirts, ca_bundle, "kubevirts",
                 operations=("UPDATE",), conditions=(_NOT_BEING_DELETED,)),
        # Ignore: a delete never depends on us, and this one takes no VM away. Only objects that ask for it are judged.
        webhook("kubevirt-validator.kubevirt.io", kubevirts, ca_bundle, "kubevirts",
                 operations=("DELETE",), conditions=(_BLOCKED_BY_WORKLOADS,), policy="Ignore"),
    ]  # fmt: skip
    webhooks.append(_network_webhook(ca_bundle, all_of_them=joins_all_networks))
    webhooks += [_eviction_webhook(ca_bundle, secret, *each) for each in _EVICTIONS]
    if judges_data_volumes:
        webhooks += _data_volume_webhooks(ca_bundle)
    return webhook_configuration("Validating", webhooks)


def _network_webhook(ca_bundle: bytes, *, all_of_them: bool) -> JsonObject:
    """Ignore: whoever joins a Pod to a network judges it once more, and says so on the VM."""
    kind = NetworkAttachmentDefinition.KIND
    conditions = (_NOT_BEING_DELETED, *(() if all_of_them else (_IN_OUR_WORDS,)))
    return webhook(
        "network-attachment-definition-validator.kvedge.io",
        VALIDATE_PATH,
        ca_bundle,
        kind.plural,
        operations=("CREATE", "UPDATE"),
        conditions=conditions,
        policy="Ignore",
        served=(kind.group, (kind.version,)),
    )


def _eviction_webhook(ca_bundle: bytes, secret: str, name: str, condition: str, beginning: str) -> JsonObject:
    """Fail: unasked, a guest that can move would be shut down. A Pod of another name is evicted while we are away."""
    expression = f"request.name.startsWith('{beginning}')"
    made = webhook(name, f"{VALIDATE_EVICTION_PATH}/{secret}", ca_bundle, "pods/eviction", operations=("CREATE",),
                   conditions=({"name": condition, "expression": expression},), served=("", ("v1",)))  # fmt: skip
    return {**made, "sideEffects": "NoneOnDryRun"}


def _data_volume_webhooks(ca_bundle: bytes) -> list[JsonObject]:
    """Fail: what can never be filled must be refused when it is applied. The controller's reports do not pass here."""
    return [
        webhook(f"{resource.removesuffix('s')}-validator.cdi.kvedge.io", VALIDATE_PATH, ca_bundle, resource,
                operations=("CREATE", "UPDATE"), conditions=(_NOT_BEING_DELETED, _SPEC_CHANGES),
                served=(CDI_GROUP, ("v1beta1",)))
        for resource in ("datavolumes", "datasources")
    ]  # fmt: skip


def webhook(
    name: str,
    path: str,
    ca_bundle: bytes,
    resource: str,
    *,
    operations: Sequence[str],
    conditions: Sequence[JsonObject] = (),
    policy: str = "Fail",
    served: tuple[str, Sequence[str]] = ("kubevirt.io", ("v1", "v1alpha3")),
) -> JsonObject:
    """One webhook; `served` is the group of the resource and its versions."""
    rule = {
        "apiGroups": [served[0]],
        "apiVersions": list(served[1]),
        "operations": list(operations),
        "resources": [resource],
        "scope": "*",
    }
    target = {"namespace": SYSTEM_NAMESPACE, "name": SERVICE, "path": path, "port": _SERVICE_PORT}
    made: JsonObject = {
        "name": name,
        "clientConfig": {"service": target, "caBundle": _text(ca_bundle)},
        "rules": [rule],
        "failurePolicy": policy,
        "matchPolicy": "Equivalent",
        "namespaceSelector": {},
        "objectSelector": {},
        "sideEffects": "None",
        "timeoutSeconds": _TIMEOUT_SECONDS if policy == "Fail" else _SHORT_TIMEOUT_SECONDS,
        "admissionReviewVersions": ["v1"],
    }
    if conditions:
        made["matchConditions"] = [dict(condition) for condition in conditions]
    return made


def webhook_configuration(kind: str, webhooks: list[JsonObject], name: str = "kvedge") -> Document:
    """The configuration of these webhooks; `kind` is Mutating or Validating."""
    body = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": f"{kind}WebhookConfiguration",
        # A release that takes something out of a webhook writes it anew: see registration_plan.covers.
        "metadata": {"name": name, "labels": dict(_OURS), "annotations": dict(_RELEASE)},
        "webhooks": webhooks,
    }
    plural = f"{kind.lower()}webhookconfigurations"
    return Document(f"/apis/admissionregistration.k8s.io/v1/{plural}", body)


def _text(ca_bundle: bytes) -> str:
    return base64.b64encode(ca_bundle).decode("ascii")

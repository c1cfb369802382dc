"""The defaults of built-in kinds, as far as somebody on one box reads them.

Applied by the write path before validation, on create and on every later write. Pure; each function alters the object
it gets.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Final

from kvedge.resources.codec import JsonObject
from kvedge.resources.manifests.policy_rules import RBAC_GROUP
from kvedge.resources.vmi_facts import default_pull_policy
from kvedge.standalone.apiserver.kinds.rules.limit_rules import set_limit_defaults
from kvedge.standalone.apiserver.kinds.rules.pod_amounts import qos_class


def apply_built_in_defaults(resource: str, obj: JsonObject) -> None:
    """Fill in what an object of this stored resource leaves out."""
    defaults = _DEFAULTS.get(resource)
    if defaults is not None:
        defaults(obj)


def initial_status(resource: str, obj: JsonObject) -> JsonObject | None:
    """The status that a new object of a built-in kind, its defaults set, starts with."""
    status = _INITIAL_STATUS.get(resource)
    if status is None:
        return None
    return {**status, "qosClass": qos_class(obj)} if resource == "pods" else dict(status)


_INITIAL_STATUS: Final[dict[str, JsonObject]] = {
    "namespaces": {"phase": "Active"},
    "pods": {"phase": "Pending"},
    "persistentvolumeclaims": {"phase": "Pending"},
    "persistentvolumes": {"phase": "Pending"},
    "services": {"loadBalancer": {}},
}


def _spec(obj: JsonObject) -> JsonObject:
    spec = obj.get("spec")
    if not isinstance(spec, dict):
        spec = obj["spec"] = {}
    return spec


def _set(target: JsonObject, **defaults: object) -> None:
    for key, value in defaults.items():
        if target.get(key) is None:
            target[key] = value


def _namespace(obj: JsonObject) -> None:
    if not obj["metadata"].get("deletionTimestamp"):
        _set(_spec(obj), finalizers=["kubernetes"])
    labels = obj["metadata"].get("labels") or {}
    # Selectors of webhooks and network policies name namespaces by this label.
    obj["metadata"]["labels"] = {**labels, "kubernetes.io/metadata.name": obj["metadata"].get("name", "")}


def _pod(obj: JsonObject) -> None:
    spec = _spec(obj)
    _set(
        spec,
        restartPolicy="Always",
        terminationGracePeriodSeconds=30,
        dnsPolicy="ClusterFirst",
        securityContext={},
        schedulerName="default-scheduler",
        enableServiceLinks=True,
        priority=0,
        preemptionPolicy="PreemptLowerPriority",
    )
    for container in [*(spec.get("initContainers") or []), *(spec.get("containers") or [])]:
        if isinstance(container, dict):
            _container(container)
    for volume in spec.get("volumes") or []:
        if isinstance(volume, dict):
            _volume(volume)


def _container(container: JsonObject) -> None:
    _set(
        container,
        imagePullPolicy=default_pull_policy(str(container.get("image") or "")),
        resources={},
        terminationMessagePath="/dev/termination-log",
        terminationMessagePolicy="File",
    )
    limits = (container["resources"] or {}).get("limits") if isinstance(container["resources"], dict) else None
    if isinstance(limits, dict) and limits:
        # What is limited and not requested is requested as it is limited.
        container["resources"]["requests"] = {**limits, **(container["resources"].get("requests") or {})}
    for port in container.get("ports") or []:
        _set(port, protocol="TCP")


def _volume(volume: JsonObject) -> None:
    for source, mode in (("secret", 420), ("configMap", 420), ("projected", 420), ("downwardAPI", 420)):
        if isinstance(volume.get(source), dict):
            _set(volume[source], defaultMode=mode)
    if isinstance(volume.get("hostPath"), dict):
        _set(volume["hostPath"], type="")
    if not any(key != "name" for key in volume):
        volume["emptyDir"] = {}


def _secret(obj: JsonObject) -> None:
    _set(obj, type="Opaque")
    plain = obj.pop("stringData", None)
    if isinstance(plain, dict):
        data = {key: base64.b64encode(str(value).encode()).decode() for key, value in plain.items()}
        obj["data"] = {**(obj.get("data") or {}), **data}


def _service(obj: JsonObject) -> None:
    spec = _spec(obj)
    _set(spec, type="ClusterIP", sessionAffinity="None", internalTrafficPolicy="Cluster")
    if spec["type"] != "ExternalName":
        # Nothing on one box would answer a virtual address, so every Service is headless.
        _set(spec, clusterIP="None", clusterIPs=["None"], ipFamilies=["IPv4"], ipFamilyPolicy="SingleStack")
    for port in spec.get("ports") or []:
        if isinstance(port, dict):
            _set(port, protocol="TCP")
            if port.get("targetPort") in ("", 0):
                # What Go's clients write for a port that nobody gave.
                del port["targetPort"]
            _set(port, targetPort=port.get("port"))


def _endpoints(obj: JsonObject) -> None:
    for subset in obj.get("subsets") or []:
        for port in (subset or {}).get("ports") or []:
            _set(port, protocol="TCP")


def _crd(obj: JsonObject) -> None:
    spec = _spec(obj)
    names = spec.get("names")
    if isinstance(names, dict) and names.get("kind"):
        _set(names, singular=str(names["kind"]).lower(), listKind=f"{names['kind']}List")
    _set(spec, conversion={"strategy": "None"})


def _webhooks(obj: JsonObject) -> None:
    for webhook in obj.get("webhooks") or []:
        if not isinstance(webhook, dict):
            continue
        _set(
            webhook,
            failurePolicy="Fail",
            matchPolicy="Equivalent",
            namespaceSelector={},
            objectSelector={},
            timeoutSeconds=10,
        )
        for rule in webhook.get("rules") or []:
            _set(rule, scope="*")
        _service_port(webhook.get("clientConfig"))


def _mutating_webhooks(obj: JsonObject) -> None:
    _webhooks(obj)
    for webhook in obj.get("webhooks") or []:
        if isinstance(webhook, dict):
            _set(webhook, reinvocationPolicy="Never")


def _api_service(obj: JsonObject) -> None:
    _service_port(_spec(obj))


def _service_port(config: object) -> None:
    if isinstance(config, dict) and isinstance(config.get("service"), dict):
        _set(config["service"], port=443)


def _claim(obj: JsonObject) -> None:
    _set(_spec(obj), volumeMode="Filesystem")


def _storage_class(obj: JsonObject) -> None:
    _set(obj, reclaimPolicy="Delete", volumeBindingMode="Immediate")


def _priority_class(obj: JsonObject) -> None:
    _set(obj, preemptionPolicy="PreemptLowerPriority")


def _binding(obj: JsonObject) -> None:
    if isinstance(obj.get("roleRef"), dict):
        _set(obj["roleRef"], apiGroup=RBAC_GROUP)
    for subject in obj.get("subjects") or []:
        if isinstance(subject, dict) and subject.get("kind") in ("User", "Group"):
            _set(subject, apiGroup=RBAC_GROUP)


_DEFAULTS: Final[dict[str, Callable[[JsonObject], None]]] = {
    "namespaces": _namespace,
    "pods": _pod,
    "secrets": _secret,
    "services": _service,
    "endpoints": _endpoints,
    "limitranges": set_limit_defaults,
    "persistentvolumeclaims": _claim,
    "persistentvolumes": _claim,
    "customresourcedefinitions.apiextensions.k8s.io": _crd,
    "apiservices.apiregistration.k8s.io": _api_service,
    "validatingwebhookconfigurations.admissionregistration.k8s.io": _webhooks,
    "mutatingwebhookconfigurations.admissionregistration.k8s.io": _mutating_webhooks,
    f"rolebindings.{RBAC_GROUP}": _binding,
    f"clusterrolebindings.{RBAC_GROUP}": _binding,
    "storageclasses.storage.k8s.io": _storage_class,
    "priorityclasses.scheduling.k8s.io": _priority_class,
}

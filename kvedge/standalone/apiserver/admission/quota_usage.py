"""What one object takes of a quota, and which quotas count it.

Called by `quota_ledger`. Pure. Names are Kubernetes': `count/<plural>.<group>` for every kind, short ones for some core
kinds, and what Pods and claims ask for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Any, Final

from kvedge.resources.codec import JsonObject
from kvedge.resources.phases import FINAL_POD_PHASES
from kvedge.standalone.apiserver.kinds.rules.pod_amounts import (
    container_amounts,
    containers_that_start,
    pod_amounts,
    qos_class,
)
from kvedge.standalone.apiserver.wire.amounts import NOTHING, ONE, Amount, Amounts, amounts_of

# Kinds that have a name in quotas beside `count/...`.
_SHORT: Final = frozenset(("configmaps", "persistentvolumeclaims", "pods", "resourcequotas", "secrets", "services"))
# Never counted.
_UNCOUNTED: Final = frozenset(("events",))
_BY_CLASS: Final = ".storageclass.storage.k8s.io/"
_COMPUTE: Final = frozenset(("cpu", "memory", "ephemeral-storage"))
# Containers must name these when a quota limits them.
_MUST_BE_SAID: Final = frozenset(("cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"))
# A Pod may have thousands of containers; a refusal names so many.
_MOST_NAMED: Final = 20
_POD_SCOPES: Final = frozenset(
    ("Terminating", "NotTerminating", "BestEffort", "NotBestEffort", "PriorityClass", "CrossNamespacePodAffinity")
)


def usage_of(resource: str, obj: JsonObject) -> dict[str, Amount]:
    """What an object of a stored resource takes."""
    if resource in _UNCOUNTED:
        return {}
    found = {f"count/{resource}": ONE}
    if resource == "pods":
        # A Pod that has ended takes nothing but its place in the store.
        return found | (_pod_usage(obj) if not _has_ended(obj) else {})
    if resource in _SHORT:
        found[resource] = ONE
    if resource == "services":
        found |= _service_usage(obj)
    elif resource == "persistentvolumeclaims":
        found |= _claim_usage(obj)
    return found


def choose_names(resource: str, names: Iterable[str]) -> set[str]:
    """Those of a quota's names that objects of a resource can take of."""
    return {name for name in names if _takes(resource, name)}


def missing_words(pod: JsonObject, names: Iterable[str]) -> str:
    """What the containers of a Pod do not say that a quota of these names wants said; empty when nothing is missing."""
    if (pod.get("spec") or {}).get("resources"):
        return ""
    missing: dict[str, set[str]] = {}
    for container in containers_that_start(pod):
        said = _compute(container_amounts(container, "requests"), container_amounts(container, "limits"))
        for name in _MUST_BE_SAID.intersection(names) - said.keys():
            missing.setdefault(name, set()).add(str(container.get("name")))
    return "; ".join(f"{name} for: {_name_some(missing[name])}" for name in sorted(missing))


def _name_some(names: set[str]) -> str:
    shown, rest = sorted(names)[:_MOST_NAMED], len(names) - _MOST_NAMED
    return ",".join(shown) + (f" and {rest} more" if rest > 0 else "")


def in_scopes(spec: JsonObject, resource: str, obj: JsonObject) -> bool:
    """Whether a quota's scopes, all of them, take an object in."""
    selectors = [{"scopeName": name, "operator": "Exists"} for name in spec.get("scopes") or []]
    selectors += (spec.get("scopeSelector") or {}).get("matchExpressions") or []
    return all(_in_scope(selector, resource, obj) for selector in selectors)


def _in_scope(selector: Mapping[str, Any], resource: str, obj: JsonObject) -> bool:
    name = selector.get("scopeName")
    if resource != "pods" or name not in _POD_SCOPES:
        return False
    spec = obj.get("spec") or {}
    match name:
        case "Terminating" | "NotTerminating":
            return bool((spec.get("activeDeadlineSeconds") is not None) == (name == "Terminating"))
        case "BestEffort" | "NotBestEffort":
            return bool((qos_class(obj) == "BestEffort") == (name == "BestEffort"))
        case "CrossNamespacePodAffinity":
            return any(term.get("namespaces") or term.get("namespaceSelector") is not None for term in _terms(spec))
    return _has_class(selector, str(spec.get("priorityClassName") or ""))


def _has_class(selector: Mapping[str, Any], name: str) -> bool:
    values = selector.get("values") or []
    match selector.get("operator"):
        case "In":
            return name in values
        case "NotIn":
            return name not in values
        case "DoesNotExist":
            return not name
    return bool(name)


def _terms(spec: JsonObject) -> Iterable[JsonObject]:
    for kind in ("podAffinity", "podAntiAffinity"):
        affinity = (spec.get("affinity") or {}).get(kind) or {}
        yield from affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or []
        for weighted in affinity.get("preferredDuringSchedulingIgnoredDuringExecution") or []:
            yield weighted.get("podAffinityTerm") or {}


def _takes(resource: str, name: str) -> bool:
    if name.startswith("count/"):
        return name == f"count/{resource}" and resource not in _UNCOUNTED
    if resource == "pods":
        return name == "pods" or _is_compute(name)
    if resource == "services":
        return name == "services" or name.startswith("services.")
    if resource == "persistentvolumeclaims":
        plain = name.partition(_BY_CLASS)[2] or name
        return plain in ("persistentvolumeclaims", "requests.storage")
    return name == resource and resource in _SHORT


def _is_compute(name: str) -> bool:
    plain = name.removeprefix("requests.").removeprefix("limits.")
    if plain in _COMPUTE or plain.startswith("hugepages-"):
        return True
    # A device, or whatever else has a domain as its name.
    return name.startswith("requests.") and "/" in plain and _BY_CLASS not in name


def _has_ended(pod: JsonObject) -> bool:
    return (pod.get("status") or {}).get("phase") in FINAL_POD_PHASES


def _pod_usage(pod: JsonObject) -> dict[str, Amount]:
    return {"pods": ONE, **_compute(pod_amounts(pod, "requests"), pod_amounts(pod, "limits"))}


def _compute(requests: Amounts, limits: Amounts) -> dict[str, Amount]:
    found: dict[str, Amount] = {}
    for name, amount in requests.items():
        if name in _COMPUTE or name.startswith("hugepages-"):
            found[name] = amount
        found[f"requests.{name}"] = amount
    found |= {f"limits.{name}": amount for name, amount in limits.items() if name in _COMPUTE}
    return found


def _service_usage(service: JsonObject) -> dict[str, Amount]:
    spec = service.get("spec") or {}
    kind, ports = spec.get("type"), spec.get("ports") or []
    if kind == "LoadBalancer" and spec.get("allocateLoadBalancerNodePorts") is False:
        ports = [port for port in ports if port.get("nodePort")]
    elif kind not in ("LoadBalancer", "NodePort"):
        ports = []
    balancers = ONE if kind == "LoadBalancer" else NOTHING
    return {"services.loadbalancers": balancers, "services.nodeports": Amount(Fraction(len(ports)))}


def _claim_usage(claim: JsonObject) -> dict[str, Amount]:
    spec = claim.get("spec") or {}
    annotations = claim["metadata"].get("annotations") or {}
    storage_class = annotations.get("volume.beta.kubernetes.io/storage-class") or spec.get("storageClassName")
    taken = {"persistentvolumeclaims": ONE}
    wanted = amounts_of((spec.get("resources") or {}).get("requests")).get("storage")
    if wanted is not None:
        # While a claim grows or shrinks, what it had counts as long as it is more.
        allocated = amounts_of((claim.get("status") or {}).get("allocatedResources")).get("storage", wanted)
        taken["requests.storage"] = max(wanted, allocated, key=lambda amount: amount.value).round_up()
    if storage_class:
        taken |= {f"{storage_class}{_BY_CLASS}{name}": amount for name, amount in taken.items()}
    return taken

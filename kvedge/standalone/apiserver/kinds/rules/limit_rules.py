"""What a LimitRange may say, its defaults, and what it makes of Pods and claims.

Called by the kind's row and by `limit_ranger`. Pure; all causes at once, in Kubernetes' words.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from kvedge.resources.codec import JsonObject
from kvedge.standalone.apiserver.kinds.rules.pod_amounts import container_amounts, containers_that_start, pod_amounts
from kvedge.standalone.apiserver.kinds.rules.quota_rules import check_amount
from kvedge.standalone.apiserver.wire.amounts import Amounts, amounts_of
from kvedge.standalone.apiserver.wire.api_errors import FieldError
from kvedge.standalone.apiserver.wire.causes import duplicate, forbidden, invalid, required_error

_ANNOTATION: Final = "kubernetes.io/limit-ranger"
_CONTAINER, _POD, _CLAIM = "Container", "Pod", "PersistentVolumeClaim"
_FIELDS: Final = ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio")
# Of each pair the first may not be more than the second.
_ORDERED: Final = (
    ("min", "max", "min", "min value {} is greater than max value {}"),
    ("min", "defaultRequest", "defaultRequest", "min value {} is greater than default request value {}"),
    ("defaultRequest", "max", "defaultRequest", "default request value {} is greater than max value {}"),
    ("defaultRequest", "default", "defaultRequest", "default request value {} is greater than default limit value {}"),
    ("min", "default", "default", "min value {} is greater than default value {}"),
    ("default", "max", "default", "default value {} is greater than max value {}"),
)


def set_limit_defaults(limit_range: JsonObject) -> None:
    """Give the defaults of containers those that follow from the others: the most limits, the limit is requested."""
    for item in (limit_range.get("spec") or {}).get("limits") or []:
        if isinstance(item, dict) and item.get("type") == _CONTAINER:
            limits = {**(item.get("max") or {}), **(item.get("default") or {})}
            requests = {**(item.get("min") or {}), **limits, **(item.get("defaultRequest") or {})}
            for field, values in (("default", limits), ("defaultRequest", requests)):
                if values:
                    item[field] = values


def check_limit_range(limit_range: JsonObject) -> Iterator[FieldError]:
    """Everything wrong with a LimitRange."""
    seen: set[str] = set()
    for index, item in enumerate((limit_range.get("spec") or {}).get("limits") or []):
        path, kind = f"spec.limits[{index}]", str(item.get("type") or "")
        if kind not in (_CONTAINER, _POD, _CLAIM) and "/" not in kind:
            yield invalid(f"{path}.type", kind, "must be a standard limit type or fully qualified")
        if kind in seen:
            yield duplicate(f"{path}.type", kind)
        seen.add(kind)
        yield from _check_item(item, kind, path)


def add_defaults(limit_ranges: Iterable[JsonObject], pod: JsonObject) -> None:
    """Give a new Pod's containers the requests and limits that they leave out, as the namespace's limit ranges say."""
    for limit_range in limit_ranges:
        told = []
        items = [item for item in _items(limit_range) if item.get("type") == _CONTAINER]
        limits = {name: value for item in items for name, value in (item.get("default") or {}).items()}
        requests = {name: value for item in items for name, value in (item.get("defaultRequest") or {}).items()}
        spec = pod.get("spec") or {}
        for field, what in (("containers", "container"), ("initContainers", "init container")):
            for container in spec.get(field) or []:
                told += _merge(container, requests, limits, what)
        if told:
            annotations = pod["metadata"].get("annotations") or {}
            annotations[_ANNOTATION] = f"LimitRanger plugin set: {'; '.join(told)}"
            pod["metadata"]["annotations"] = annotations


def pod_faults(limit_range: JsonObject, pod: JsonObject) -> list[str]:
    """Why a limit range does not let a Pod in; empty when it does."""
    found: list[str] = []
    for item in _items(limit_range):
        if item.get("type") == _CONTAINER:
            for container in containers_that_start(pod):
                asked = container_amounts(container, "requests"), container_amounts(container, "limits")
                found += _faults(item, _CONTAINER, *asked)
        elif item.get("type") == _POD:
            found += _faults(item, _POD, pod_amounts(pod, "requests"), pod_amounts(pod, "limits"))
    return found


def claim_faults(limit_range: JsonObject, claim: JsonObject) -> list[str]:
    """Why a limit range does not let a claim in; empty when it does."""
    requests = amounts_of(((claim.get("spec") or {}).get("resources") or {}).get("requests"))
    found: list[str] = []
    for item in _items(limit_range):
        if item.get("type") == _CLAIM:
            found += _minimum(item, _CLAIM, requests, {})
            found += _maximum(item, _CLAIM, "request", requests, {})
    return found


def _items(limit_range: JsonObject) -> list[JsonObject]:
    items: list[JsonObject] = (limit_range.get("spec") or {}).get("limits") or []
    return items


def _merge(container: JsonObject, requests: Mapping[str, Any], limits: Mapping[str, Any], what: str) -> list[str]:
    resources = container.get("resources") or {}
    container["resources"] = resources
    told = []
    for field, word, defaults in (("limits", "limit", limits), ("requests", "request", requests)):
        known = resources.get(field) or {}
        added = sorted(defaults.keys() - known.keys())
        if added:
            resources[field] = {**known, **{name: defaults[name] for name in added}}
            told.append(f"{', '.join(added)} {word} for {what} {container.get('name')}")
    return told[::-1]


def _faults(item: JsonObject, kind: str, requests: Amounts, limits: Amounts) -> Iterator[str]:
    yield from _minimum(item, kind, requests, limits)
    yield from _maximum(item, kind, "limit", limits, requests)
    yield from _ratio(item, kind, requests, limits)


def _minimum(item: JsonObject, kind: str, requests: Amounts, limits: Amounts) -> Iterator[str]:
    for name, least in sorted(amounts_of(item.get("min")).items()):
        words = f"minimum {name} usage per {kind} is {least.text}"
        if name not in requests:
            yield f"{words}.  No request is specified"
        elif requests[name].value < least.value:
            yield f"{words}, but request is {requests[name].text}"
        elif name in limits and limits[name].value < least.value:
            yield f"{words}, but limit is {limits[name].text}"


def _maximum(item: JsonObject, kind: str, word: str, needed: Amounts, other: Amounts) -> Iterator[str]:
    for name, most in sorted(amounts_of(item.get("max")).items()):
        words = f"maximum {name} usage per {kind} is {most.text}"
        if name not in needed:
            yield f"{words}.  No {word} is specified"
        elif needed[name].value > most.value:
            yield f"{words}, but {word} is {needed[name].text}"
        elif name in other and other[name].value > most.value:
            yield f"{words}, but request is {other[name].text}"


def _ratio(item: JsonObject, kind: str, requests: Amounts, limits: Amounts) -> Iterator[str]:
    for name, most in sorted(amounts_of(item.get("maxLimitRequestRatio")).items()):
        words = f"{name} max limit to request ratio per {kind} is {most.text}, but"
        request, limit = requests.get(name), limits.get(name)
        if request is None or not request.value:
            yield f"{words} no request is specified or request is 0"
        elif limit is None or not limit.value:
            yield f"{words} no limit is specified or limit is 0"
        elif limit.value / request.value > most.value:
            yield f"{words} provided ratio is {float(limit.value / request.value):f}"


def _check_item(item: JsonObject, kind: str, path: str) -> Iterator[FieldError]:
    for field in _FIELDS:
        for name, value in (item.get(field) or {}).items():
            yield from check_amount(value, f"{path}.{field}[{name}]")
    if kind == _POD:
        for field in ("default", "defaultRequest"):
            if item.get(field):
                yield forbidden(f"{path}.{field}", "may not be specified when `type` is 'Pod'")
    if kind == _CLAIM and not any("storage" in (item.get(field) or {}) for field in ("min", "max")):
        text = "either minimum or maximum storage value is required, but neither was provided"
        yield required_error(f"{path}.limits", text)
    amounts = {field: amounts_of(item.get(field)) for field in _FIELDS}
    for low, high, named, words in _ORDERED:
        for name in sorted(amounts[low].keys() & amounts[high].keys()):
            less, more = amounts[low][name], amounts[high][name]
            if less.value > more.value:
                blamed = more.text if (low, high) == ("default", "max") else less.text
                yield invalid(f"{path}.{named}[{name}]", blamed, words.format(less.text, more.text))
    for name, ratio in sorted(amounts["maxLimitRequestRatio"].items()):
        if ratio.value < 1:
            yield invalid(f"{path}.maxLimitRequestRatio[{name}]", ratio.text, f"ratio {ratio.text} is less than 1")

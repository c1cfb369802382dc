"""What a ResourceQuota may say, and what of it may change.

Called by the rows of its kinds. Pure; the object has the types of its kind (`builtin_shape`). All causes at once, in
Kubernetes' words.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from kvedge.resources.codec import JsonObject
from kvedge.resources.values.quantities import QuantityError
from kvedge.standalone.apiserver.schema.metadata_rules import check_immutable
from kvedge.standalone.apiserver.wire import name_rules
from kvedge.standalone.apiserver.wire.amounts import amount_of
from kvedge.standalone.apiserver.wire.api_errors import FieldError
from kvedge.standalone.apiserver.wire.causes import invalid, invalids, not_supported_error, required_error

_COUNTS: Final = (
    *("configmaps", "persistentvolumeclaims", "pods", "replicationcontrollers", "resourcequotas", "secrets"),
    *("services", "services.loadbalancers", "services.nodeports"),
)
_AMOUNTS: Final = (
    *("cpu", "memory", "ephemeral-storage", "requests.storage"),
    *(f"{way}.{name}" for way in ("requests", "limits") for name in ("cpu", "memory", "ephemeral-storage")),
)
_STANDARD: Final = frozenset((*_COUNTS, *_AMOUNTS))
_NOT_A_QUANTITY: Final = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
_SCOPES: Final = (
    *("BestEffort", "CrossNamespacePodAffinity", "NotBestEffort", "NotTerminating", "PriorityClass", "Terminating"),
)
# No object is both.
_CONTRARY: Final = (("Terminating", "NotTerminating"), ("BestEffort", "NotBestEffort"))
_OPERATORS: Final = ("DoesNotExist", "Exists", "In", "NotIn")


def check_quota(quota: JsonObject) -> Iterator[FieldError]:
    """Everything wrong with a ResourceQuota."""
    spec = quota.get("spec") or {}
    for name, value in (spec.get("hard") or {}).items():
        path = f"spec.hard[{name}]"
        yield from _check_name(name, path)
        yield from check_amount(value, path, whole=name in _COUNTS or name.startswith("count/"))
    yield from _check_scopes(spec)


def check_quota_update(new: JsonObject, old: JsonObject) -> Iterator[FieldError]:
    """A quota keeps its scopes."""
    after, before = ((quota.get("spec") or {}).get("scopes") or [] for quota in (new, old))
    yield from check_immutable(sorted(after), sorted(before), "spec.scopes")


def check_amount(value: Any, path: str, *, whole: bool = False) -> Iterator[FieldError]:
    """The complaint about a quantity that is none, is negative, or is no whole number where one is wanted."""
    try:
        amount = amount_of(value)
    except QuantityError:
        yield invalid(path, value, _NOT_A_QUANTITY)
        return
    if amount.value < 0:
        yield invalid(path, amount.text, "must be greater than or equal to 0")
    elif whole and amount.value.denominator != 1:
        yield invalid(path, amount.text, "must be an integer")


def _check_name(name: str, path: str) -> Iterator[FieldError]:
    found = invalids(path, name, name_rules.label_key(name))
    yield from found
    if not found and "/" not in name and name not in _STANDARD and not _is_huge_pages(name):
        yield invalid(path, name, "must be a standard resource for quota")


def _is_huge_pages(name: str) -> bool:
    return name.removeprefix("requests.").startswith("hugepages-")


def _check_scopes(spec: JsonObject) -> Iterator[FieldError]:
    scopes = spec.get("scopes") or []
    for scope in scopes:
        if scope not in _SCOPES:
            yield invalid("spec.scopes", scopes, "unsupported scope")
    if any(set(pair) <= set(scopes) for pair in _CONTRARY):
        yield invalid("spec.scopes", scopes, "conflicting scopes")
    # Without the condition's number, as the API server has it.
    path = "spec.scopeSelector.matchExpressions"
    for condition in (spec.get("scopeSelector") or {}).get("matchExpressions") or []:
        name, operator, values = condition.get("scopeName"), condition.get("operator"), condition.get("values") or []
        if name not in _SCOPES:
            yield invalid(f"{path}.scopeName", name, "unsupported scope")
        if operator not in _OPERATORS:
            yield not_supported_error(f"{path}.operator", operator, _OPERATORS)
        elif name != "PriorityClass" and operator != "Exists":
            text = (
                "must be 'Exist' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating,"
                " ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or"
                " ResourceQuotaScopeCrossNamespacePodAffinity"
            )
            yield invalid(f"{path}.operator", operator, text)
        elif operator in ("In", "NotIn") and not values:
            yield required_error(
                f"{path}.values", "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"
            )
        elif operator in ("Exists", "DoesNotExist") and values:
            yield invalid(
                f"{path}.values",
                values,
                "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector",
            )

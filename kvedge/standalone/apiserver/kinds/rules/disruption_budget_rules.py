"""What a PodDisruptionBudget may say.

Called by the kind's row. Pure; the object has the types of its kind (`builtin_shape`). All causes at once, in
Kubernetes' words.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from kvedge.resources.codec import JsonObject
from kvedge.standalone.apiserver.kinds.rules.condition_rules import check_conditions
from kvedge.standalone.apiserver.schema.selectors import check_label_selector
from kvedge.standalone.apiserver.wire.api_errors import FieldError
from kvedge.standalone.apiserver.wire.causes import invalid, not_supported_error

_EVICTION_POLICIES: Final = ("AlwaysAllow", "IfHealthyBudget")
_COUNTS: Final = ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")
# As Go's struct has them.
_SPEC_FIELDS: Final = ("minAvailable", "selector", "maxUnavailable", "unhealthyPodEvictionPolicy")
_PERCENT: Final = re.compile("[0-9]+%", re.ASCII)
_NO_PERCENT: Final = (
    "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for"
    " validation is '[0-9]+%')"
)
_NEGATIVE: Final = "must be greater than or equal to 0"


def check_disruption_budget(budget: JsonObject) -> Iterator[FieldError]:
    """Everything wrong with a PodDisruptionBudget."""
    spec, status = budget.get("spec") or {}, budget.get("status") or {}
    limits = {name: spec[name] for name in ("minAvailable", "maxUnavailable") if spec.get(name) is not None}
    if len(limits) > 1:
        shown = {name[0].upper() + name[1:]: spec.get(name) for name in _SPEC_FIELDS}
        yield invalid("spec", shown, "minAvailable and maxUnavailable cannot be both set")
    for name, limit in limits.items():
        yield from _check_limit(limit, f"spec.{name}")
    yield from check_label_selector(spec.get("selector"), "spec.selector")
    policy = spec.get("unhealthyPodEvictionPolicy")
    if policy not in (None, *_EVICTION_POLICIES):
        yield not_supported_error("spec.unhealthyPodEvictionPolicy", policy, _EVICTION_POLICIES)
    yield from check_conditions(status.get("conditions") or [], "status.conditions")
    for name in _COUNTS:
        if (status.get(name) or 0) < 0:
            yield invalid(f"status.{name}", status[name], _NEGATIVE)


def _check_limit(limit: int | str, path: str) -> Iterator[FieldError]:
    if isinstance(limit, int):
        if limit < 0:
            yield invalid(path, limit, _NEGATIVE)
    elif not _PERCENT.fullmatch(limit):
        yield invalid(path, limit, _NO_PERCENT)
    # More digits than two are no share of anything, however long the text is.
    elif len(limit[:-1].lstrip("0")) > 2 and limit[:-1].lstrip("0") != "100":
        yield invalid(path, limit, "must not be greater than 100%")

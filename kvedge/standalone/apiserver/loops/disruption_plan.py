"""What a PodDisruptionBudget allows: its status, from the Pods it is about, and whether one of them may be evicted.

Called by the disruption loop and by the eviction of Pods. Pure: the time comes in. The rules are those of Kubernetes'
disruption controller, but for one: it asks the Pods' controllers how many there are to be, and a box has none that
count. So as many Pods are expected as there are that have not ended.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from msgspec import Struct

from kvedge.resources.codec import JsonObject
from kvedge.resources.phases import FINAL_POD_PHASES
from kvedge.standalone.apiserver.requests.write_rules import parse_timestamp, timestamp
from kvedge.standalone.apiserver.schema.selectors import label_selector_of
from kvedge.standalone.apiserver.wire.api_errors import ApiError, Forbidden, Target, TooManyRequests

BUDGETS: Final = "poddisruptionbudgets.policy"
_ALLOWED: Final = "DisruptionAllowed"
_CAUSE: Final = "DisruptionBudget"
_VIOLATED: Final = "Cannot evict pod as it would violate the pod's disruption budget."
# A Pod whose eviction was granted and that is still there after this time counts again.
_DELETION_TIME: Final = timedelta(minutes=2)
_MOST_DISRUPTED: Final = 2000
_RETRY_SECONDS: Final = 10


class PodFacts(Struct, frozen=True):
    """What a budget looks at in a Pod."""

    name: str
    phase: str
    is_ready: bool
    is_ending: bool

    @property
    def is_over(self) -> bool:
        """Whether all that ran in it has ended."""
        return self.phase in FINAL_POD_PHASES


def pod_facts(pod: JsonObject) -> PodFacts:
    """What a budget looks at in this Pod."""
    metadata, status = pod["metadata"], pod.get("status") or {}
    conditions = status.get("conditions") or []
    is_ready = any(item.get("type") == "Ready" and item.get("status") == "True" for item in conditions)
    return PodFacts(metadata["name"], status.get("phase") or "", is_ready, bool(metadata.get("deletionTimestamp")))


def chooses(budget: JsonObject, labels: Mapping[str, str] | None) -> bool:
    """Whether a budget is about a Pod with these labels: one without a selector is about none."""
    selector = (budget.get("spec") or {}).get("selector")
    return selector is not None and label_selector_of(selector).matches(labels)


def plan_status(budget: JsonObject, pods: Iterable[PodFacts], now: datetime) -> tuple[JsonObject, datetime | None]:
    """The status that a budget should have, and when it changes again by itself."""
    before = budget.get("status") or {}
    present = [pod for pod in pods if not pod.is_over]
    granted = _find_granted(before.get("disruptedPods") or {}, present, now)
    healthy = sum(pod.is_ready and not pod.is_ending and pod.name not in granted for pod in present)
    expected, desired = _count_healthy(budget.get("spec") or {}, len(present))
    status: JsonObject = {
        "observedGeneration": budget["metadata"].get("generation") or 0,
        "disruptionsAllowed": max(0, healthy - desired) if expected else 0,
        "currentHealthy": healthy,
        "desiredHealthy": desired,
        "expectedPods": expected,
    }
    if granted:
        status["disruptedPods"] = {name: timestamp(moment) for name, moment in granted.items()}
    # A client may have written a moment of the far future.
    again = min(*granted.values(), now) + _DELETION_TIME if granted else None
    return _with_condition(status, before.get("conditions") or [], now), again


def is_free(pod: PodFacts) -> bool:
    """Whether a Pod may be evicted whatever its budgets say: it does not run, or ends already."""
    return pod.is_over or pod.phase == "Pending" or pod.is_ending


def is_spared(budget: JsonObject, pod: PodFacts) -> bool:
    """Whether a Pod may be evicted without counting, as it is not ready and does not count as healthy."""
    status = budget.get("status") or {}
    if pod.is_ready:
        return False
    if (budget.get("spec") or {}).get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    desired = status.get("desiredHealthy") or 0
    return 0 < desired <= (status.get("currentHealthy") or 0)


def grant_eviction(budget: JsonObject, pod: str, now: datetime) -> JsonObject:
    """The budget with one disruption fewer, which this Pod takes; the budget is altered and returned.

    Raises:
        TooManyRequests: the budget allows none, or its status is older than its spec.
        Forbidden: more evictions were granted than the status holds.
    """
    name, status = budget["metadata"]["name"], budget.setdefault("status", {})
    if (status.get("observedGeneration") or 0) < (budget["metadata"].get("generation") or 0):
        raise refuse_unprocessed(name)
    disrupted = status.setdefault("disruptedPods", {})
    if len(disrupted) > _MOST_DISRUPTED:
        why = "DisruptedPods map too big - too many evictions not confirmed by PDB controller"
        raise Forbidden(Target("poddisruptionbudget", name, "policy"), why)
    if (status.get("disruptionsAllowed") or 0) <= 0:
        raise _refusal(_why_none(name, status))
    status["disruptionsAllowed"] -= 1
    disrupted[pod] = timestamp(now)
    _with_condition(status, status.get("conditions") or [], now)
    return budget


def refuse_unprocessed(name: str) -> ApiError:
    """The refusal of an eviction that cannot be judged yet."""
    return _refusal(f"The disruption budget {name} is still being processed by the server.", _RETRY_SECONDS)


def _why_none(name: str, status: JsonObject) -> str:
    healthy, desired = status.get("currentHealthy") or 0, status.get("desiredHealthy") or 0
    if healthy > desired:
        return f"The disruption budget {name} does not allow evicting pods currently"
    return f"The disruption budget {name} needs {desired} healthy pods and has {healthy} currently"


def _refusal(why: str, retry_seconds: int = 0) -> ApiError:
    error = TooManyRequests(_VIOLATED, retry_seconds)
    error.causes = [{"reason": _CAUSE, "message": why}]
    return error


def _find_granted(disrupted: Mapping[str, Any], pods: list[PodFacts], now: datetime) -> dict[str, datetime]:
    """The Pods whose eviction was granted a moment ago and that do not end yet."""
    waiting = {pod.name for pod in pods if not pod.is_ending}
    moments = {name: _moment(text) for name, text in disrupted.items() if name in waiting}
    return {name: moment for name, moment in moments.items() if moment is not None and moment > now - _DELETION_TIME}


def _moment(text: str) -> datetime | None:
    """The moment that a client may have written; None for a text that is none."""
    try:
        return parse_timestamp(text)
    except ValueError:
        return None


def _count_healthy(spec: JsonObject, present: int) -> tuple[int, int]:
    """The expected number of Pods, and the number of them that must stay healthy."""
    if spec.get("maxUnavailable") is not None:
        return present, max(0, present - _scale(spec["maxUnavailable"], present))
    if spec.get("minAvailable") is not None:
        return present, _scale(spec["minAvailable"], present)
    return 0, 0


def _scale(limit: int | str, whole: int) -> int:
    """A number, or that share of the whole, rounded up."""
    return limit if isinstance(limit, int) else -(-int(limit.removesuffix("%").lstrip("0") or "0") * whole // 100)


def _with_condition(status: JsonObject, before: list[JsonObject], now: datetime) -> JsonObject:
    """The status with the condition that says whether evictions are allowed; those of others stay."""
    allowed = status["disruptionsAllowed"] > 0
    old: JsonObject = next((item for item in before if item.get("type") == _ALLOWED), {})
    value = "True" if allowed else "False"
    condition = {
        "type": _ALLOWED,
        "status": value,
        "observedGeneration": status["observedGeneration"],
        "lastTransitionTime": old["lastTransitionTime"] if old.get("status") == value else timestamp(now),
        "reason": "SufficientPods" if allowed else "InsufficientPods",
        "message": "",
    }
    status["conditions"] = [*(item for item in before if item.get("type") != _ALLOWED), condition]
    return status

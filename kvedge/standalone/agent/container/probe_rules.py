"""Readiness and liveness probes: what a row of answers means. Pure.

Called by `pod_probes`, which has them asked.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct, field

from kvedge.resources.codec import JsonObject
from kvedge.resources.values.durations import bound_grace

READINESS: Final = "Readiness"
LIVENESS: Final = "Liveness"
# So many different reasons of one probe are told one by one; a guest can make up any number of them.
_MOST_TEXTS: Final = 10
_COMBINED: Final = "(combined from similar events)"


class Answer(Struct, frozen=True):
    """What asking once has brought, and for a no the reason in words."""

    passed: bool
    words: str = ""


class ProbeHistory(Struct):
    """One probe's past: `due` on the monotonic clock; `passed` is None until it has said something."""

    due: float
    successes: int = 0
    failures: int = 0
    passed: bool | None = None
    told: set[str] = field(default_factory=set)


class ProbeSettings(Struct, frozen=True):
    """A probe's numbers with Kubernetes' defaults, in seconds; `grace` is None for the Pod's own."""

    initial_delay: float
    period: float
    timeout: float
    successes: int
    failures: int
    grace: float | None


def probe_settings(probe: JsonObject) -> ProbeSettings:
    """The numbers of a probe."""
    grace = probe.get("terminationGracePeriodSeconds")
    return ProbeSettings(
        initial_delay=float(probe.get("initialDelaySeconds") or 0),
        period=float(probe.get("periodSeconds") or 10),
        timeout=float(probe.get("timeoutSeconds") or 1),
        successes=int(probe.get("successThreshold") or 1),
        failures=int(probe.get("failureThreshold") or 3),
        grace=None if grace is None else float(bound_grace(grace)),
    )


def take_answer(history: ProbeHistory, settings: ProbeSettings, passed: bool, now: float) -> bool:
    """Count an answer; the verdict changes after as many equal ones as the probe asks for, and this tells if it has."""
    before = history.passed
    history.due = now + settings.period
    history.successes = history.successes + 1 if passed else 0
    history.failures = 0 if passed else history.failures + 1
    if history.successes >= settings.successes:
        history.passed = True
    elif history.failures >= settings.failures:
        history.passed = False
    return history.passed is not before


def failure_text(history: ProbeHistory, kind: str, words: str) -> str:
    """The text of the event that tells of a no."""
    if words not in history.told and len(history.told) >= _MOST_TEXTS:
        words = _COMBINED
    history.told.add(words)
    return f"{kind} probe failed: {words}"

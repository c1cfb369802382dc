"""Which problems somebody has to be told of now, and which are over.

Called by the service of alerts. Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final, Literal, NamedTuple

from kvedge.resources.disks.protection_problems import Problem

# Of one look: what is more comes with the next ones.
MOST_AT_ONCE: Final = 20


class Subject(NamedTuple):
    """What a problem is about. Another message of the same reason is no news."""

    kind: str
    namespace: str
    name: str
    reason: str


class Alert(NamedTuple):
    """One thing to tell."""

    state: Literal["firing", "resolved"]
    problem: Problem


def subject_of(problem: Problem) -> Subject:
    """By which a problem is known again."""
    return Subject(problem.kind, problem.namespace, problem.name, problem.reason)


def plan_alerts(told: Mapping[Subject, Problem], now: Collection[Problem]) -> list[Alert]:
    """New problems, and then those that are over; `told` are those that somebody was told of."""
    there = {subject_of(each): each for each in now}
    new = [Alert("firing", each) for subject, each in sorted(there.items()) if subject not in told]
    over = [Alert("resolved", each) for subject, each in sorted(told.items()) if subject not in there]
    return [*new, *over][:MOST_AT_ONCE]

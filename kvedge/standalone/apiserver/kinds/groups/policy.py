"""The kinds of policy. See `builtin_kind`."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from kvedge.resources.codec import JsonObject
from kvedge.standalone.apiserver.kinds.builtin_kind import BuiltinKind
from kvedge.standalone.apiserver.kinds.rules import disruption_budget_rules
from kvedge.standalone.apiserver.kinds.table_columns import AGE, NAME, Column, at
from kvedge.standalone.apiserver.wire.protobuf_body import IN_KUBERNETES


def _initial_status(budget: JsonObject) -> JsonObject:
    return {"disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0}


def _limit(name: str, path: str, description: str) -> Column:
    def cell(budget: JsonObject, now: datetime) -> str:
        return str(at(budget, path, "N/A"))

    return Column(name, cell, description=description)


def _count_allowed_disruptions(budget: JsonObject, now: datetime) -> int:
    return int(at(budget, "status.disruptionsAllowed", 0))


KINDS: Final = (
    BuiltinKind(
        "policy",
        "v1",
        kind="PodDisruptionBudget",
        plural="poddisruptionbudgets",
        short_names=("pdb",),
        subresources=("status",),
        counts_generation=True,
        columns=(
            NAME,
            _limit("Min Available", "spec.minAvailable", "How many Pods must stay available."),
            _limit("Max Unavailable", "spec.maxUnavailable", "How many Pods may be unavailable."),
            Column(
                "Allowed Disruptions",
                _count_allowed_disruptions,
                type="integer",
                description="How many Pods may be evicted now.",
            ),
            AGE,
        ),
        initial_status=_initial_status,
        metadata_with_status=True,
        check=disruption_budget_rules.check_disruption_budget,
        protobuf=IN_KUBERNETES,
    ),
)

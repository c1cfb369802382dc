"""The metrics that there are, by all tables, and the names in an expression of PromQL."""

from __future__ import annotations

import re
from typing import Final

from kvedge.api.metrics import guest_series, object_series, role_series, stream_series
from kvedge.resources.monitoring.recording_rules import DEPRECATED, RULES

HISTOGRAMS: Final = {name for name, row in role_series.TABLE.items() if row.kind == "histogram"}
KNOWN: Final = frozenset(
    {row.name for row in guest_series.ROWS}
    | object_series.TABLE.keys()
    | role_series.TABLE.keys() - HISTOGRAMS
    | stream_series.TABLE.keys()
    | {f"{name}_{part}" for name in HISTOGRAMS for part in ("bucket", "sum", "count")}
    | {"kvedge_vmi_stats_up", "kvedge_node_stats_up"}
    | RULES.keys()
    | DEPRECATED.keys()
)
# Those of kube-state-metrics, the kubelet and node_exporter.
_FOREIGN: Final = re.compile(r"(kube|kubelet|node)_\w+")
_TEXT: Final = re.compile(r'"[^"]*"')
# What stands before a bracket is a function, and what stands within the brackets of these words are labels.
_LABELS: Final = re.compile(r"\b(by|on|ignoring|group_left|group_right)\s*\([^)]*\)")
_WORDS: Final = re.compile(r"[a-zA-Z_][\w:]*")
_SELECTED: Final = re.compile(r"\{[^}]*\}")
_RANGE: Final = re.compile(r"\[[^\]]*\]")
_OPERATORS: Final = frozenset({"and", "or", "unless", "bool"})


def names_in(expression: str) -> set[str]:
    """The metrics that an expression asks for, without those of other programs."""
    bare = expression
    for noise in (_TEXT, _SELECTED, _RANGE, _LABELS):
        bare = noise.sub(" ", bare)
    found = {
        match[0]
        for match in _WORDS.finditer(bare)
        if not bare[match.end() :].lstrip().startswith("(") and match[0] not in _OPERATORS
    }
    return {name for name in found if not _FOREIGN.fullmatch(name) and name not in ("sum", "count")}

"""The kinds of metrics.k8s.io: what nodes and Pods use now. They are measured when somebody asks, and never stored."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Final

from kvedge.resources.codec import JsonObject, JsonValue
from kvedge.standalone.apiserver.kinds.builtin_kind import BuiltinKind
from kvedge.standalone.apiserver.kinds.served_kinds import MEASURED
from kvedge.standalone.apiserver.kinds.table_columns import NAME, Column, at, text

GROUP: Final = "metrics.k8s.io"
VERSION: Final = "v1beta1"


def _of_first(path: str) -> Callable[[JsonObject, datetime], JsonValue]:
    # A Pod's figures stand in one entry.
    return lambda obj, now: str(at((obj.get("containers") or [{}])[0], path, ""))


KINDS: Final = (
    BuiltinKind(
        GROUP,
        VERSION,
        kind="NodeMetrics",
        plural="nodes",
        namespaced=False,
        verbs=MEASURED,
        columns=(NAME, text("CPU", "usage.cpu"), text("Memory", "usage.memory"), text("Window", "window")),
    ),
    BuiltinKind(
        GROUP,
        VERSION,
        kind="PodMetrics",
        plural="pods",
        verbs=MEASURED,
        columns=(
            NAME,
            Column("CPU", _of_first("usage.cpu")),
            Column("Memory", _of_first("usage.memory")),
            text("Window", "window"),
        ),
    ),
)

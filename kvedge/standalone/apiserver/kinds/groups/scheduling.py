"""The kinds of scheduling.k8s.io. See `builtin_kind`."""

from __future__ import annotations

from typing import Final

from kvedge.resources.codec import JsonObject
from kvedge.standalone.apiserver.kinds.builtin_kind import BuiltinKind
from kvedge.standalone.apiserver.kinds.defaulting import set_missing
from kvedge.standalone.apiserver.kinds.table_columns import AGE, NAME, Column
from kvedge.standalone.apiserver.wire.protobuf_body import IN_KUBERNETES


def _set_defaults(obj: JsonObject) -> None:
    set_missing(obj, preemptionPolicy="PreemptLowerPriority")


KINDS: Final = (
    BuiltinKind(
        "scheduling.k8s.io",
        "v1",
        kind="PriorityClass",
        plural="priorityclasses",
        namespaced=False,
        short_names=("pc",),
        singular="priorityclass",
        counts_generation=True,
        columns=(
            NAME,
            Column("Value", lambda obj, now: obj.get("value") or 0, type="integer"),
            Column("Global-Default", lambda obj, now: bool(obj.get("globalDefault")), type="boolean"),
            AGE,
        ),
        set_defaults=_set_defaults,
        protobuf=IN_KUBERNETES,
    ),
)

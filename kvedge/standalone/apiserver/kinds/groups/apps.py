"""The kinds of apps. See `builtin_kind`."""

from __future__ import annotations

from typing import Final

from kvedge.standalone.apiserver.kinds.builtin_kind import BuiltinKind
from kvedge.standalone.apiserver.kinds.table_columns import AGE, NAME, Column
from kvedge.standalone.apiserver.wire.protobuf_body import IN_KUBERNETES

KINDS: Final = (
    BuiltinKind(
        "apps",
        "v1",
        kind="ControllerRevision",
        plural="controllerrevisions",
        columns=(NAME, Column("Revision", lambda obj, now: obj.get("revision") or 0, type="integer"), AGE),
        protobuf=IN_KUBERNETES,
    ),
)

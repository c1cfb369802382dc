"""The kinds of coordination.k8s.io. See `builtin_kind`."""

from __future__ import annotations

from typing import Final

from kvedge.standalone.apiserver.kinds.builtin_kind import BuiltinKind
from kvedge.standalone.apiserver.kinds.rules import core_rules
from kvedge.standalone.apiserver.kinds.table_columns import AGE, NAME, text
from kvedge.standalone.apiserver.wire.protobuf_body import IN_KUBERNETES

KINDS: Final = (
    BuiltinKind(
        "coordination.k8s.io",
        "v1",
        kind="Lease",
        plural="leases",
        columns=(NAME, text("Holder", "spec.holderIdentity"), AGE),
        check=core_rules.check_lease,
        protobuf=IN_KUBERNETES,
    ),
)

"""The kinds of discovery.k8s.io. See `builtin_kind`."""

from __future__ import annotations

from typing import Final

from kvedge.standalone.apiserver.kinds.builtin_kind import BuiltinKind
from kvedge.standalone.apiserver.kinds.rules import core_rules
from kvedge.standalone.apiserver.wire.protobuf_body import IN_KUBERNETES

KINDS: Final = (
    BuiltinKind(
        "discovery.k8s.io",
        "v1",
        kind="EndpointSlice",
        plural="endpointslices",
        counts_generation=True,
        check=core_rules.check_endpoint_slice,
        protobuf=IN_KUBERNETES,
    ),
)

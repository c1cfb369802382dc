"""The kinds of discovery.k8s.io. See `builtin_kind`."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from kvedge.resources.codec import JsonObject
from kvedge.standalone.apiserver.kinds.builtin_kind import BuiltinKind
from kvedge.standalone.apiserver.kinds.rules import core_rules
from kvedge.standalone.apiserver.kinds.table_columns import AGE, NAME, Column, text
from kvedge.standalone.apiserver.wire.protobuf_body import IN_KUBERNETES

_SHOWN: Final = 3


def _ports(item: JsonObject, now: datetime) -> str:
    """Their numbers; of one for all ports its name."""
    return _join_words([str(port.get("port") or port.get("name") or "*") for port in item.get("ports") or []])


def _endpoints(item: JsonObject, now: datetime) -> str:
    endpoints = item.get("endpoints") or []
    return _join_words([address for endpoint in endpoints for address in endpoint.get("addresses") or []])


def _join_words(words: list[str]) -> str:
    if len(words) > _SHOWN:
        return f"{','.join(words[:_SHOWN])} + {len(words) - _SHOWN} more..."
    return ",".join(words) or "<unset>"


KINDS: Final = (
    BuiltinKind(
        "discovery.k8s.io",
        "v1",
        kind="EndpointSlice",
        plural="endpointslices",
        counts_generation=True,
        columns=(
            NAME,
            text("AddressType", "addressType"),
            Column("Ports", _ports),
            Column("Endpoints", _endpoints),
            AGE,
        ),
        check=core_rules.check_endpoint_slice,
        protobuf=IN_KUBERNETES,
    ),
)

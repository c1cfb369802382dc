"""The kinds of networking.k8s.io. See `builtin_kind`."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from kvedge.resources.codec import JsonObject
from kvedge.standalone.apiserver.kinds.builtin_kind import BuiltinKind
from kvedge.standalone.apiserver.kinds.rules import core_rules
from kvedge.standalone.apiserver.kinds.table_columns import AGE, NAME, Column, at
from kvedge.standalone.apiserver.wire.protobuf_body import IN_KUBERNETES


def _parent(address: JsonObject, now: datetime) -> str:
    parent = at(address, "spec.parentRef", {})
    resource = ".".join(part for part in (parent.get("resource"), parent.get("group")) if part)
    return "/".join(part for part in (resource, parent.get("namespace"), parent.get("name")) if part)


KINDS: Final = (
    BuiltinKind(
        "networking.k8s.io",
        "v1",
        kind="IPAddress",
        plural="ipaddresses",
        namespaced=False,
        short_names=("ip",),
        singular="ipaddress",
        columns=(NAME, Column("ParentRef", _parent), AGE),
        check=core_rules.check_ip_address,
        check_update=core_rules.check_ip_address_update,
        protobuf=IN_KUBERNETES,
    ),
)

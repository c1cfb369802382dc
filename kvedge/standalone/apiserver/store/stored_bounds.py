"""Quotas and limit ranges as they lie in the store, where older versions have let in whatever was sent.

Called by `quota_ledger` and `limit_ranger`. Pure but for a line in the log.
"""

from __future__ import annotations

import logging
from typing import Final

from kvedge.resources.codec import JsonObject
from kvedge.standalone.apiserver.kinds import builtin_shape
from kvedge.standalone.apiserver.kinds.built_in import BUILT_IN
from kvedge.standalone.apiserver.kinds.served_kinds import ServedKind
from kvedge.standalone.apiserver.store.stored import Stored
from kvedge.standalone.apiserver.wire.api_errors import BadRequest

log = logging.getLogger(__name__)

QUOTAS: Final = "resourcequotas"
LIMIT_RANGES: Final = "limitranges"
_KINDS: Final[dict[str, ServedKind]] = {
    kind.storage: kind for kind in BUILT_IN if kind.storage in (QUOTAS, LIMIT_RANGES)
}


def spec_of(stored: Stored) -> JsonObject:
    """The spec of a quota or limit range; an empty one, which bounds nothing, when it has not the types of its kind."""
    try:
        obj, _ = builtin_shape.decode(_KINDS[stored.key.resource], stored.load())
    except BadRequest as error:
        facts = {"object": "/".join(stored.key), "problem": str(error), "remedy": "apply it anew"}
        log.warning("a stored bound of a namespace makes no sense and has no effect", extra={"facts": facts})
        return {}
    spec: JsonObject = obj.get("spec") or {}
    return spec

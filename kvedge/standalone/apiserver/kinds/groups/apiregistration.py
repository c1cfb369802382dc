"""The kinds of apiregistration.k8s.io. See `builtin_kind`."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from kvedge.resources.codec import JsonObject
from kvedge.standalone.apiserver.kinds.builtin_kind import BuiltinKind
from kvedge.standalone.apiserver.kinds.defaulting import set_service_port, spec_of
from kvedge.standalone.apiserver.kinds.rules import api_service_rules
from kvedge.standalone.apiserver.kinds.table_columns import AGE, NAME, Column, at
from kvedge.standalone.apiserver.wire import name_rules


def _set_api_service_defaults(obj: JsonObject) -> None:
    set_service_port(spec_of(obj))


def _service_of(api_service: JsonObject, now: datetime) -> str:
    service = at(api_service, "spec.service")
    return f"{service.get('namespace')}/{service.get('name')}" if service else "Local"


def _show_availability(api_service: JsonObject, now: datetime) -> str:
    conditions = at(api_service, "status.conditions", [])
    found: Any = next((item for item in conditions if item.get("type") == "Available"), None)
    if found is None:
        return "Unknown"
    return "True" if found.get("status") == "True" else f"{found.get('status')} ({found.get('reason', '')})"


KINDS: Final = (
    BuiltinKind(
        "apiregistration.k8s.io",
        "v1",
        kind="APIService",
        plural="apiservices",
        namespaced=False,
        categories=("api-extensions",),
        subresources=("status",),
        columns=(NAME, Column("Service", _service_of), Column("Available", _show_availability), AGE),
        name_rule=name_rules.path_segment,
        set_defaults=_set_api_service_defaults,
        check=api_service_rules.check_api_service,
    ),
)

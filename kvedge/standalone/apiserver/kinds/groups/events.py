"""Events, which two API groups serve as objects of one resource. See `builtin_kind`."""

from __future__ import annotations

from dataclasses import replace  # noqa: TID251 - of a BuiltinKind, some fields of which are not compared
from datetime import datetime
from typing import Final

from kvedge.resources.codec import JsonObject
from kvedge.standalone.apiserver.kinds.builtin_kind import CORE, BuiltinKind
from kvedge.standalone.apiserver.kinds.rules import core_rules
from kvedge.standalone.apiserver.kinds.table_columns import NAME, Column, at, text
from kvedge.standalone.apiserver.wire.human_ages import age
from kvedge.standalone.apiserver.wire.protobuf_body import IN_KUBERNETES, MessageType

_INVOLVED: Final = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")


def _show_first_seen(event: JsonObject, now: datetime) -> str:
    return age(event.get("firstTimestamp") or event.get("eventTime") or event.get("deprecatedFirstTimestamp"), now)


def _show_last_seen(event: JsonObject, now: datetime) -> str:
    moment = at(event, "series.lastObservedTime") or event.get("lastTimestamp") or event.get("deprecatedLastTimestamp")
    return age(moment, now) if moment else _show_first_seen(event, now)


def _event_object(event: JsonObject, now: datetime) -> str:
    involved = event.get("involvedObject") or event.get("regarding") or {}
    kind, name = str(involved.get("kind", "")).lower(), involved.get("name")
    return f"{kind}/{name}" if name else kind


def _event_source(event: JsonObject, now: datetime) -> str:
    source = event.get("source") or event.get("deprecatedSource") or {}
    component = source.get("component") or event.get("reportingComponent") or event.get("reportingController") or ""
    instance = source.get("host") or event.get("reportingInstance")
    return f"{component}, {instance}" if instance else str(component)


def _event_count(event: JsonObject, now: datetime) -> int:
    return int(at(event, "series.count") or event.get("count") or event.get("deprecatedCount") or 1)


_COLUMNS: Final = (
    Column("Last Seen", _show_last_seen, description="When it was last observed."),
    text("Type", "type", description="Normal or Warning."),
    text("Reason", "reason", description="Why, in one word for machines."),
    Column("Object", _event_object, description="What the event is about."),
    text("Subobject", "involvedObject.fieldPath", priority=1, description="Which part of the object."),
    Column("Source", _event_source, priority=1, description="Who reported it."),
    Column("Message", lambda event, now: str(event.get("message") or event.get("note") or "").strip()),
    Column("First Seen", _show_first_seen, priority=1, description="When it was first observed."),
    Column("Count", _event_count, type="integer", priority=1, description="How often it was observed."),
    Column("Name", NAME.cell, format="name", priority=1, description=NAME.description),
)
_CORE_EVENT: Final = BuiltinKind(
    *CORE,
    kind="Event",
    plural="events",
    short_names=("ev",),
    columns=_COLUMNS,
    field_labels={
        "reason": "",
        "reportingComponent": "",
        "source": "",
        "type": "",
        **{f"involvedObject.{key}": "" for key in _INVOLVED},
    },
    check=core_rules.check_event,
    protobuf=IN_KUBERNETES,
)

KINDS: Final = (_CORE_EVENT,)
KINDS_OF_EVENTS: Final = (
    replace(
        _CORE_EVENT,
        group="events.k8s.io",
        stored_as="events",
        stored_version="v1",
        # Two kinds of one name: the message of the second is called differently.
        protobuf=MessageType("kubernetes_pb2", "EventsEvent"),
    ),
)

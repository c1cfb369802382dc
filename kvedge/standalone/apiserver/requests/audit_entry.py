"""What the audit log says of one request: audit.k8s.io/v1 Events of the level Metadata, and which requests have one.

Made by the dispatcher, completed by routes, rendered by the thread of the audit log. Pure. It has no bodies, no headers
but the program's name, and of the URL the path alone, as a query may hold a token.
"""

from __future__ import annotations

import uuid
from datetime import UTC, datetime
from typing import Final

from aiohttp import web
from msgspec import Struct

from kvedge.resources.codec import JsonObject
from kvedge.runtime.clock import rfc3339_micro
from kvedge.standalone.apiserver.requests.request_context import Caller
from kvedge.standalone.apiserver.requests.request_target import RequestTarget

_READS: Final = frozenset({"get", "list", "watch", "head", "options"})
# Questions about rights and tokens are asked before each click, and change nothing.
_QUESTIONS: Final = frozenset({"authorization.k8s.io", "authentication.k8s.io"})
# Parts of objects that are read as the objects are.
_PLAIN_PARTS: Final = frozenset({"", "status", "scale"})
_LONGEST: Final = 512
_MOST_GROUPS: Final = 16


class AuditEntry(Struct):
    """One request under way. Routes set `name` where the path has none."""

    caller: Caller
    target: RequestTarget
    source: str
    agent: str
    received: datetime
    id: str
    name: str = ""

    @property
    def counts(self) -> bool:
        """Whether it is told of whatever comes of it: it changes something, reads a secret, or reaches into a guest."""
        target = self.target
        if target.group in _QUESTIONS:
            return False
        return target.verb not in _READS or target.resource == "secrets" or target.subresource not in _PLAIN_PARTS


AUDITED: Final = web.RequestKey("audited", AuditEntry)


def new_entry(request: web.BaseRequest, caller: Caller, target: RequestTarget) -> AuditEntry:
    """The entry of a request that has just come in."""
    agent = request.headers.get("User-Agent", "")
    return AuditEntry(caller, target, request.remote or "", agent, datetime.now(UTC), str(uuid.uuid4()))


def audit_event(entry: AuditEntry, stage: str, status: int | None, now: datetime) -> JsonObject:
    """The Event. `status` is None while the request is under way, and where the client left before the answer."""
    caller, target = entry.caller, entry.target
    event: JsonObject = {
        "kind": "Event",
        "apiVersion": "audit.k8s.io/v1",
        "level": "Metadata",
        "auditID": entry.id,
        "stage": stage,
        "requestURI": target.path[:_LONGEST],
        "verb": target.verb[:_LONGEST],
        "user": {"username": caller.user[:_LONGEST], "groups": list(caller.groups[:_MOST_GROUPS])},
        "sourceIPs": [entry.source] if entry.source else [],
        "userAgent": entry.agent[:_LONGEST],
        "requestReceivedTimestamp": rfc3339_micro(entry.received),
        "stageTimestamp": rfc3339_micro(now),
    }
    if target.is_resource:
        named = {
            "resource": target.resource,
            "namespace": target.namespace,
            "name": entry.name or target.name,
            "apiGroup": target.group,
            "apiVersion": target.version,
            "subresource": target.subresource,
        }
        event["objectRef"] = {key: value[:_LONGEST] for key, value in named.items() if value}
    if status is not None:
        event["responseStatus"] = {"metadata": {}, "code": status}
    return event

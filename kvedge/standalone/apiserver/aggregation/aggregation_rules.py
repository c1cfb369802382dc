"""Which requests another API server answers, and what it is told about the caller.

Used by the proxy and the availability loop. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final
from urllib.parse import quote

from msgspec import Struct

from kvedge.resources.codec import JsonObject
from kvedge.standalone.apiserver.requests.request_context import Caller

API_SERVICES: Final = "apiservices.apiregistration.k8s.io"

# They belong to one connection, not to the request (RFC 9110).
_HOP_BY_HOP: Final = frozenset(
    {
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "host",
    }
)
# A client's word on the length of its body is not passed on: the message to the other server is framed anew.
_FRAMING: Final = "content-length"
# Only the server says who is calling: a client's own headers about that are not passed on.
_IDENTITY: Final = ("x-remote-", "impersonate-", "authorization", "x-forwarded-")


class AggregatedApi(Struct, frozen=True):
    """One group and version that a Service answers."""

    name: str
    group: str
    version: str
    namespace: str
    service: str
    port: int
    ca_bundle: str
    insecure: bool
    group_priority: int
    version_priority: int


def read_api_service(api_service: JsonObject) -> AggregatedApi | None:
    """What an APIService says; None when it names no Service, because this server answers by itself."""
    spec = api_service.get("spec") or {}
    service = spec.get("service")
    if not isinstance(service, dict):
        return None
    return AggregatedApi(
        name=api_service["metadata"]["name"],
        group=spec.get("group") or "",
        version=spec.get("version") or "",
        namespace=service.get("namespace") or "",
        service=service.get("name") or "",
        port=int(service.get("port") or 443),
        ca_bundle=spec.get("caBundle") or "",
        insecure=bool(spec.get("insecureSkipTLSVerify")),
        group_priority=int(spec.get("groupPriorityMinimum") or 0),
        version_priority=int(spec.get("versionPriority") or 0),
    )


def choose_forwarded_headers(headers: Iterable[tuple[str, str]], caller: Caller) -> list[tuple[str, str]]:
    """The headers of the request to the other server: the client's, without what it may not say, and who it is.

    Raises:
        ValueError: the caller's name or a group cannot stand in a header; `identity` lets no such caller in.
    """
    kept = [
        (name, value)
        for name, value in headers
        if name.lower() not in (*_HOP_BY_HOP, _FRAMING) and not name.lower().startswith(_IDENTITY)
    ]
    identity = [("X-Remote-User", caller.user)]
    identity += [("X-Remote-Group", group) for group in caller.groups]
    # Keys may hold what a header's name may not, such as a slash.
    extra = [(quote(key, safe=""), value) for key, values in caller.extra.items() for value in values]
    identity += [(f"X-Remote-Extra-{key}", value) for key, value in extra]
    if any(not value.isprintable() for _, value in identity):
        raise ValueError("who is calling has a name that no header can carry")
    return kept + identity


def upload_headers(headers: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """The headers of an upload to the other server: as the client sent them, with its token, which says for whom it is.

    The body is handed on as it is, so that its length stays. The client was told already to go on with it.
    """
    left_out = {*_HOP_BY_HOP, "expect"}
    identity = tuple(name for name in _IDENTITY if name != "authorization")
    return [
        (name, value)
        for name, value in headers
        if name.lower() not in left_out and not name.lower().startswith(identity)
    ]


def choose_returned_headers(headers: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """The headers of the other server's answer that concern the client."""
    return [(name, value) for name, value in headers if name.lower() not in _HOP_BY_HOP]


def available_condition(holds: bool, reason: str, message: str, before: JsonObject | None, now: str) -> JsonObject:
    """The Available condition; its time changes only when its status does."""
    value = "True" if holds else "False"
    since = before["lastTransitionTime"] if before and before.get("status") == value else now
    return {"type": "Available", "status": value, "lastTransitionTime": since, "reason": reason, "message": message}


def condition_of(api_service: JsonObject) -> JsonObject | None:
    """The Available condition that an APIService has."""
    conditions = (api_service.get("status") or {}).get("conditions") or []
    return next((item for item in conditions if item.get("type") == "Available"), None)


def merge_groups(own: Mapping[str, list[str]], aggregated: Iterable[AggregatedApi]) -> dict[str, list[str]]:
    """The versions of each group, those of other servers included: groups and versions of higher priority first."""
    groups = {name: list(versions) for name, versions in own.items()}
    for api in sorted(aggregated, key=lambda item: (-item.group_priority, item.group, -item.version_priority)):
        versions = groups.setdefault(api.group, [])
        if api.version not in versions:
            versions.append(api.version)
    return groups

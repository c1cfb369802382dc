"""What a guest says of itself on its page: its agent's facts, and what its serial console has printed.

Called by `page_calls` in threads of their own, with the user's own rights. Raises what the client raises. The guest's
words are bounded here and shown as text; those of its console go to the terminal alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kvedge.client.session import Session
from kvedge.client.subresources import VMI, get, get_content
from kvedge.resources.codec import JsonObject
from kvedge.web.texts.shown_text import showable
from kvedge.web.vms.namespace_session import enter_namespace

_MOST: Final = 64
# The console waits for it.
_LOG_SECONDS: Final = 5.0
_LOG_BYTES: Final = 64 * 1024


def read_agent(session: Session, namespace: str, name: str) -> JsonObject:
    """The guest's system, who is logged in, and its file systems.

    Raises:
        RefusedError: when no agent answers.
        KubeError: with the server's words.
    """
    here = enter_namespace(session, namespace)
    told = get(here, VMI, name, "guestosinfo")
    users, systems = get(here, VMI, name, "userlist"), get(here, VMI, name, "filesystemlist")
    system = told.get("os") or {}
    facts = {
        "agent": told.get("guestAgentVersion"),
        "system": system.get("prettyName") or system.get("name"),
        "kernel": system.get("kernelRelease"),
        "host": told.get("hostname"),
        "timezone": told.get("timezone"),
    }
    return {
        "facts": {key: showable(str(value)) for key, value in facts.items() if value},
        "users": [_user(each) for each in _items(users)],
        "fileSystems": [_file_system(each) for each in _items(systems)],
    }


def read_log(session: Session, namespace: str, name: str) -> JsonObject:
    """The last 64 KiB of the serial console: `bytes` is a text with one character for each byte."""
    query = {"tailBytes": str(_LOG_BYTES)}
    content = get_content(enter_namespace(session, namespace), VMI, name, "console/log", query, _LOG_SECONDS)
    return {"bytes": content[-_LOG_BYTES:].decode("latin-1")}


def _items(listed: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [each for each in (listed.get("items") or [])[:_MOST] if isinstance(each, dict)]


def _user(told: Mapping[str, Any]) -> JsonObject:
    since = told.get("loginTime")
    return {
        "name": showable(str(told.get("userName") or "")),
        "domain": showable(str(told.get("domain") or "")),
        # In seconds since 1970.
        "since": since if isinstance(since, (int, float)) else None,
    }


def _file_system(told: Mapping[str, Any]) -> JsonObject:
    used, total = told.get("usedBytes"), told.get("totalBytes")
    return {
        "name": showable(str(told.get("diskName") or "")),
        "place": showable(str(told.get("mountPoint") or "")),
        "type": showable(str(told.get("fileSystemType") or "")),
        "used": used if isinstance(used, int) else None,
        "total": total if isinstance(total, int) else None,
    }

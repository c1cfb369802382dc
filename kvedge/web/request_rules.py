"""Which requests come from our own pages: the judgement by Host, Origin and what browsers say of their requests.

Called by `console_app` before anything else is read of a request. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

# No form and no page of another origin can send it without being asked first, and we answer no such question.
OWN_HEADER: Final = "X-Kvedge-Console"
_SAFE: Final = ("GET", "HEAD")
# An image's bytes are the one body that is not JSON; no form can send them as what they are either.
UPLOADS: Final = "/uploads/"
UPLOADED_DATA: Final = "/data"
_JSON: Final = "application/json"
_DATA: Final = "application/octet-stream"


class RequestRefused(Struct, frozen=True):
    """Not answered; the status and a text."""

    status: int
    text: str


def judge_request(
    method: str, path: str, headers: Mapping[str, str], own_origins: Mapping[str, str]
) -> RequestRefused | None:
    """Why a request is refused, or None.

    Args:
        method: GET, POST …
        path: without the query.
        headers: of the request; looked up without regard to case.
        own_origins: each Host that is ours, with the origin of its pages.
    """
    own_origin = own_origins.get(headers.get("Host", ""))
    if own_origin is None:
        # A name that somebody else has pointed at this address.
        return RequestRefused(
            421,
            "Host: not a name of this console: open it as `kvedge web` prints it, or by a name in its certificate",
        )
    is_upgrade = "upgrade" in headers.get("Connection", "").lower() or "Upgrade" in headers
    is_write = method not in _SAFE
    origin = headers.get("Origin")
    if origin is None and (is_upgrade or is_write):
        return RequestRefused(403, "Origin: missing; only the console's own pages may do this")
    if origin is not None and origin != own_origin:
        return RequestRefused(403, "Origin: another one than the console's")
    if not _is_own_fetch(path, headers):
        return RequestRefused(403, "Sec-Fetch-Site: only the console's own pages may ask for this")
    if is_write and headers.get(OWN_HEADER) != "1":
        return RequestRefused(403, f"{OWN_HEADER}: missing; only the console's own pages may do this")
    wanted = _DATA if path.startswith(UPLOADS) and path.endswith(UPLOADED_DATA) else _JSON
    if is_write and headers.get("Content-Type", "").partition(";")[0].strip() != wanted:
        return RequestRefused(415, f"Content-Type: must be {wanted}")
    return None


def _is_own_fetch(path: str, headers: Mapping[str, str]) -> bool:
    site = headers.get("Sec-Fetch-Site")
    if site in (None, "same-origin"):
        return True
    # The page itself may be opened from a terminal, or by a link anywhere: it holds nothing.
    return path == "/" and (site == "none" or headers.get("Sec-Fetch-Mode") == "navigate")

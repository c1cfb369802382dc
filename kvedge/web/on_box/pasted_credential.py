"""What a user pastes to sign in: a token, or a kubeconfig that has one.

Called by `box_users`. Pure. Of a kubeconfig nothing but the token and the namespace of the current context is taken:
its server, its files and its programs mean nothing here.
"""

from __future__ import annotations

import re
from typing import Any, Final

from msgspec import Struct

from kvedge.client.errors import FlagError
from kvedge.resources.codec import JsonObject
from kvedge.web.sign_in import SignInRefused
from kvedge.web.texts.yaml_text import read_yaml

# RFC 6750; a longer one fits into no header.
_TOKEN: Final = re.compile(r"[A-Za-z0-9._~+/=-]{8,8192}")
_NAMESPACE: Final = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_ADVICE: Final = "paste a token, such as `kubectl create token NAME` prints, or run `kvedge web` on your own computer"


class Credential(Struct, frozen=True):
    """A token, and the namespace that its user works in; empty when none is named."""

    token: str
    namespace: str = ""


def read_credential(text: str) -> Credential:
    """The credential in a text.

    Raises:
        SignInRefused: when there is no token in it.
    """
    stripped = text.strip()
    if _TOKEN.fullmatch(stripped):
        return Credential(stripped)
    try:
        document = read_yaml(text)
    except FlagError as error:
        raise SignInRefused(f"this is neither a token nor a kubeconfig: {_ADVICE}") from error
    context = _find_entry(document, "contexts", "context", document.get("current-context"))
    user = _find_entry(document, "users", "user", context.get("user"))
    token = user.get("token")
    if not isinstance(token, str) or not _TOKEN.fullmatch(token.strip()):
        other = "a client certificate, whose key does not belong into a page" if _has_key(user) else "no token"
        raise SignInRefused(f"the current context of this kubeconfig has {other}: {_ADVICE}")
    namespace = context.get("namespace")
    if not isinstance(namespace, str) or not _NAMESPACE.fullmatch(namespace):
        namespace = ""
    return Credential(token.strip(), namespace)


def _find_entry(document: JsonObject, section: str, key: str, name: Any) -> JsonObject:
    """The entry of this name; empty when there is none."""
    entries = document.get(section)
    for entry in entries if isinstance(entries, list) else []:
        if isinstance(entry, dict) and isinstance(name, str) and entry.get("name") == name:
            found = entry.get(key)
            return found if isinstance(found, dict) else {}
    return {}


def _has_key(user: JsonObject) -> bool:
    return any(
        key in user for key in ("client-key", "client-key-data", "client-certificate", "client-certificate-data")
    )

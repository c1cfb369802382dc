"""Logins for registries, as Kubernetes keeps them in Secrets.

Called by the node agent. Parses only; no error shows anything of the document.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping

from kvedge.storage.image_errors import ImageError


def docker_credentials(document: bytes) -> dict[str, tuple[str, str]]:
    """The logins of a `.dockerconfigjson`, by registry.

    Raises:
        ImageError: when it is no such document; the message holds nothing of it.
    """
    try:
        listed = json.loads(document).get("auths", {}).items()
        found = {_registry_of(key): _login(value) for key, value in listed}
    except (ValueError, AttributeError, TypeError, RecursionError) as error:
        raise ImageError("the imagePullSecret is no .dockerconfigjson document") from error
    return found


def _login(entry: Mapping[str, str]) -> tuple[str, str]:
    if "auth" in entry:
        user, _, password = base64.b64decode(entry["auth"], validate=True).decode().partition(":")
        return user, password
    return str(entry.get("username", "")), str(entry.get("password", ""))


def _registry_of(key: str) -> str:
    """Docker's own registry is written `https://index.docker.io/v1/` there."""
    host = key.removeprefix("https://").removeprefix("http://").partition("/")[0]
    return "docker.io" if host in ("index.docker.io", "registry-1.docker.io") else host

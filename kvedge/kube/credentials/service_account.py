"""A Pod's own credentials: the directory in which a kubelet keeps a token, which it replaces, and the cluster's CA.

Called by `connection_settings` for roles that run as Pods. Reads that directory, the token anew before it ends: a
kubelet replaces it when four fifths of its life are over, which is an hour by default.
"""

from __future__ import annotations

import ipaddress
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

# Where a kubelet puts it, in every Pod that has one.
ACCOUNT_DIRECTORY: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
TOKEN: Final = "token"
CA: Final = "ca.crt"
_HOST: Final = "KUBERNETES_SERVICE_HOST"
_PORT: Final = "KUBERNETES_SERVICE_PORT"
_AGAIN_SECONDS: Final = 60.0


class ServiceAccountError(Exception):
    """There is no service account that can be used; the text says what is missing."""


def in_pod(environment: Mapping[str, str], directory: Path = ACCOUNT_DIRECTORY) -> bool:
    """Whether this process is in a Pod of a cluster, with credentials of its own."""
    return bool(environment.get(_HOST)) and (directory / TOKEN).is_file()


class ServiceAccount(NamedTuple):
    """The API server's address; what gives the Authorization of each request."""

    host: str
    authorization: Callable[[], str]


def read_service_account(directory: Path, environment: Mapping[str, str]) -> ServiceAccount:
    """The account of this Pod.

    Raises:
        ServiceAccountError: when one of them is missing.
    """
    host, port = environment.get(_HOST, ""), environment.get(_PORT, "")
    if not host or not port:
        raise ServiceAccountError(f"{_HOST} and {_PORT} are not set: this is no Pod of a cluster")
    if not (directory / CA).is_file():
        raise ServiceAccountError(f"{directory / CA} does not exist")
    token = _Token(directory / TOKEN)
    # A token that cannot be read raises now, rather than at the first request.
    token.header()
    return ServiceAccount(f"https://{_in_url(host)}:{port}", token.header)


class _Token:
    """The token's file, read now and then."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._text = ""
        self._read_at = 0.0

    def header(self) -> str:
        """Called before each request; when the file cannot be read at this moment, the token before stays."""
        if not self._text or time.monotonic() - self._read_at >= _AGAIN_SECONDS:
            self._read()
        return f"Bearer {self._text}"

    def _read(self) -> None:
        try:
            found = self._path.read_text("utf-8").strip()
        except (OSError, ValueError) as error:
            if not self._text:
                why = error.strerror if isinstance(error, OSError) else error
                raise ServiceAccountError(f"{self._path} cannot be read: {why}") from error
            return
        if not found and not self._text:
            raise ServiceAccountError(f"{self._path} is empty")
        self._text = found or self._text
        self._read_at = time.monotonic()


def _in_url(host: str) -> str:
    try:
        return f"[{host}]" if ipaddress.ip_address(host).version == 6 else host
    except ValueError:
        return host

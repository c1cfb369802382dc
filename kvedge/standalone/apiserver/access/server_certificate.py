"""The authorities of one box and the certificate that its API server shows.

Used by the embedded API at its start and, for renewal, once a day. Touches `state/pki` only.
"""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import psutil

from kvedge.runtime.durable_files import write_durably
from kvedge.runtime.tls.bare_contexts import new_client_context
from kvedge.standalone.apiserver.access.bootstrap_manifest import FRONT_PROXY_USER
from kvedge.standalone.apiserver.access.pki import (
    Authority,
    BadKeyFile,
    Subject,
    is_fresh,
    load_pair,
    put_pair_aside,
    server_names,
)

_EVERYWHERE: Final = frozenset({"0.0.0.0", "::", ""})
_CLUSTER_NAMES: Final = (
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
)


class BoxPki:
    """The three authorities: of servers, of clients, and of the front proxy, which alone may say who a user is."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.servers = Authority(directory, "server-ca")
        self.clients = Authority(directory, "client-ca")
        self.front_proxy = Authority(directory, "front-proxy-ca", is_renewable=True)
        # Two threads that both made the front proxy's pair could leave one's key beside the other's certificate.
        self._making = threading.Lock()

    @property
    def certificate_file(self) -> Path:
        """The server's certificate."""
        return self.directory / "server.crt"

    @property
    def key_file(self) -> Path:
        """The server's private key."""
        return self.directory / "server.key"

    def renew_server(self, names: Sequence[str], now: datetime) -> bool:
        """Make a server certificate unless there is a good one for these names. Returns whether one was made."""
        if self._is_good(set(names), now):
            return False
        pair = self.servers.issue_server("kvedge-apiserver", names)
        # The certificate last: an interrupted renewal leaves a pair that does not fit, which the check finds.
        write_durably(self.key_file, pair.key)
        write_durably(self.certificate_file, pair.certificate, mode=0o644)
        return True

    def front_proxy_tls(self) -> ssl.SSLContext:
        """A TLS context that shows aggregated API servers the front proxy's certificate, and trusts nobody yet."""
        certificate_file, key_file = self.directory / "front-proxy.crt", self.directory / "front-proxy.key"
        context = new_client_context()
        with self._making:
            if not self._is_of(self.front_proxy, certificate_file, key_file, datetime.now(UTC)):
                pair = self.front_proxy.issue_client(Subject(FRONT_PROXY_USER))
                write_durably(key_file, pair.key)
                write_durably(certificate_file, pair.certificate, mode=0o644)
            context.load_cert_chain(certificate_file, key_file)
        return context

    def _is_good(self, names: set[str], now: datetime) -> bool:
        return self._is_of(self.servers, self.certificate_file, self.key_file, now) and names <= server_names(
            self.certificate_file.read_bytes()
        )

    @staticmethod
    def _is_of(authority: Authority, certificate_file: Path, key_file: Path, now: datetime) -> bool:
        """Whether a certificate of this authority is there with its key, for a good while; damaged files are put
        aside.
        """
        if not certificate_file.exists() or not key_file.exists():
            return False
        try:
            pem, _ = load_pair(certificate_file, key_file)
        except BadKeyFile as error:
            put_pair_aside(certificate_file, key_file, str(error))
            return False
        return authority.has_issued(pem) and is_fresh(pem, now)


def names_of_server(bind: str, further: Sequence[str]) -> list[str]:
    """The names and addresses by which the server may be reached."""
    names = [*_CLUSTER_NAMES, socket.gethostname(), "127.0.0.1", "::1", *further]
    if bind in _EVERYWHERE:
        names += _own_addresses()
    else:
        names.append(bind)
    return list(dict.fromkeys(name for name in names if name))


def _own_addresses() -> list[str]:
    addresses = []
    for entries in psutil.net_if_addrs().values():
        # A link-local IPv6 address has a zone, which a certificate cannot name.
        addresses += [
            entry.address
            for entry in entries
            if entry.family in (socket.AF_INET, socket.AF_INET6) and "%" not in entry.address
        ]
    return addresses

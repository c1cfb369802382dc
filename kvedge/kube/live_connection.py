"""The connection that is in use, exchanged for a new one when the files that it was made from change.

Used by :mod:`kvedge.kube.rest_edge` alone. Certificates and tokens in files are replaced while a node runs, by a
kubelet, k3s or `kvedge user renew`, and the certificate of a credential plugin ends. There is no thread for that: calls
themselves look at the files' states every few seconds, and at once when the server has refused. Files that cannot be
used, as they are half written, change nothing.
"""

from __future__ import annotations

import logging
import socket
import threading
import time
from collections.abc import Callable
from datetime import datetime
from typing import Any, Final

import urllib3
from msgspec import Struct
from urllib3.connection import HTTPConnection

from kvedge.kube.credentials.connection_settings import Connection
from kvedge.kube.credentials.proxy_rules import proxy_headers
from kvedge.kube.credentials.renewed_token import utc_now
from kvedge.kube.inner_sockets import InnerSockets
from kvedge.kube.kubeconfigs.kubeconfig_reader import KubeconfigError

log = logging.getLogger(__name__)

# How long a new certificate may wait until it is used; a look costs some microseconds.
LOOK_SECONDS: Final = 5.0
# The least time between two runs of a plugin: one may fail, or the server may refuse for another reason.
_PLUGIN_SECONDS: Final = 10.0
# Idle connections kept per server; more may be open at once.
# All watches and workers of a role at once, which give their connections back together when it stops: a connection that
# is not kept costs a warning, and a TLS handshake at the next call, on both sides. Unused places cost nothing.
_IDLE_CONNECTIONS: Final = 64
# A server that has vanished is noticed under a watch, too, in which nothing may happen for minutes; as client-go has
# it: after 30 seconds, nine tries.
_SOCKET_OPTIONS: Final = [
    *HTTPConnection.default_socket_options,
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 30),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 15),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 9),
]


class Pooled(Struct, frozen=True):
    """One connection with its sockets."""

    connection: Connection
    sockets: urllib3.PoolManager

    @classmethod
    def of(cls, connection: Connection) -> Pooled:
        """Nothing is opened yet."""
        if connection.door is not None:
            return cls(connection, InnerSockets(connection.door, _IDLE_CONNECTIONS))
        options: dict[str, Any] = {"maxsize": _IDLE_CONNECTIONS, "socket_options": _SOCKET_OPTIONS}
        if connection.tls is not None:
            options["ssl_context"] = connection.tls
        if connection.server_name:
            options["server_hostname"] = connection.server_name
        if connection.proxy:
            options["proxy_headers"] = proxy_headers(connection.proxy)
            return cls(connection, urllib3.ProxyManager(connection.proxy, **options))
        return cls(connection, urllib3.PoolManager(**options))

    @property
    def host(self) -> str:
        """The server's address."""
        return self.connection.host

    def close(self) -> None:
        """Drop idle connections now, and those that are in use as soon as they are not any more."""
        for key in list(self.sockets.pools.keys()):
            pool = self.sockets.pools.get(key)
            if pool is not None:
                pool.close()
        self.sockets.clear()


class LiveConnection:
    """Safe for any number of threads."""

    def __init__(
        self,
        connection: Connection,
        monotonic: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        self._pooled = Pooled.of(connection)
        self._monotonic = monotonic
        self._now = now
        self._looked_at = self._made_at = monotonic()
        # Held by the thread that looks at the files.
        self._looking = threading.Lock()
        # The last log lines about files that cannot be used, and about a certificate that has ended.
        self._problem = ""
        self._complaint = ""

    @property
    def newest(self) -> Pooled:
        """What is in use, without a look."""
        return self._pooled

    def current(self) -> Pooled:
        """What the next call should use."""
        if self._is_due() and self._looking.acquire(blocking=False):
            try:
                self._look()
            finally:
                self._looking.release()
        return self._pooled

    def newer_than(self, used: Pooled) -> Pooled | None:
        """What to try instead of what the server has just refused; None when there is nothing newer."""
        with self._looking:
            if self._pooled is used:
                self._look(refused=True)
            return None if self._pooled is used else self._pooled

    def find_complaint(self, used: Pooled) -> str:
        """That the certificate of a call that was refused has ended, and what to do; empty when it has not.

        It is logged once: calls fail until somebody acts.
        """
        shown = used.connection.certificate
        text = shown.complaint(self._now()) if shown is not None else ""
        if text and text != self._complaint:
            self._complaint = text
            log.error(text, extra={"facts": {"server": used.host}})
        return text

    def close(self) -> None:
        """Drop idle connections."""
        self._pooled.close()

    def _is_due(self) -> bool:
        return self._pooled.connection.source is not None and self._monotonic() - self._looked_at >= LOOK_SECONDS

    def _look(self, *, refused: bool = False) -> None:
        source = self._pooled.connection.source
        self._looked_at = self._monotonic()
        if source is None:
            return
        is_plugins = source.renewal is not None
        if is_plugins and self._looked_at - self._made_at < _PLUGIN_SECONDS:
            return
        # A file that could not be used is tried again even if it looks the same: it may have been read while it was
        # written. A plugin may have another certificate for one that the server took back.
        if not (self._problem or (refused and is_plugins) or source.is_changed(self._now())):
            return
        try:
            made = Pooled.of(source.again())
        except KubeconfigError as error:
            if str(error) != self._problem:
                self._problem = str(error)
                facts = {"reason": self._problem}
                log.warning("new credentials cannot be used, those before stay", extra={"facts": facts})
            return
        finally:
            self._made_at = self._monotonic()
        old, self._pooled = self._pooled, made
        self._problem = self._complaint = ""
        old.close()
        log.info("new credentials are in use", extra={"facts": {"server": made.host}})

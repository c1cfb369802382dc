"""The certificates of this node's handler: asked of the cluster, signed by the api role.

One is the relay's, and serves; the other one calls other nodes' relays, to send guests there.

Used by relay_service.py, and by outgoing_service.py of migrations. The key is made here and never leaves this process;
the request goes out under the handler's own credentials, by which the api role knows which node it is for. Whom to
trust is read from the ConfigMap that only the api role writes.
"""

from __future__ import annotations

import base64
import re
import threading
from typing import Final

from msgspec import Struct

from kvedge.kube.errors import NotFound
from kvedge.kube.kube_client import KubeClient
from kvedge.resources.manifests.role_rights import CA_BUNDLE_KEY, CA_BUNDLE_NAME, HANDLER_SIGNER
from kvedge.resources.meta import ObjectMeta
from kvedge.resources.names import SYSTEM_NAMESPACE
from kvedge.resources.types.certificate_requests import (
    DENIED,
    FAILED,
    CertificateRequestSpec,
    CertificateSigningRequest,
)
from kvedge.resources.types.core import ConfigMap
from kvedge.runtime.clock import Clock
from kvedge.runtime.tls.certificate_requests import check_issued, new_request
from kvedge.runtime.tls.certificates import (
    HANDLER_NAME,
    CertificateError,
    TlsMaterial,
    handler_server_name,
    renewal_due,
)

_POLL_SECONDS: Final = 0.1
_LONGEST_POLL_SECONDS: Final = 2.0
_PATIENCE_SECONDS: Final = 30.0
# A refused request will be refused again, and each attempt leaves an object behind.
_REFUSED_SECONDS: Final = 60.0
_LONGEST_NODE: Final = 100
# How often it is seen whether the authority has a successor: many times within the week that it is known before it
# signs.
_AUTHORITY_SECONDS: Final = 3600.0


class _Pending(Struct, frozen=True):
    """A request that nobody has decided yet, and the key that it is for."""

    name: str
    key: bytes


class RelayCertificate:
    """Asks for one certificate of one node's handler; used by one thread."""

    def __init__(
        self,
        client: KubeClient,
        node: str,
        clock: Clock,
        stop: threading.Event,
        common_name: str = HANDLER_NAME,
    ) -> None:
        """`common_name` is HANDLER_NAME for the relay's, or MIGRATION_NAME for one to call other relays with."""
        self._client = client
        self._node = node
        self._clock = clock
        self._stop = stop
        self._common_name = common_name
        # One request at a time: while nobody signs, no second one is made.
        self._pending: _Pending | None = None
        self._refused_until = 0.0
        self._authority_read = 0.0

    def read_trusted(self) -> bytes:
        """The authorities of the relay's clients, and of its own certificate, as PEM.

        Raises:
            KubeError: when the API server does not answer, or the api role has not written it yet.
            CertificateError: when the ConfigMap does not hold it.
        """
        bundle = self._client.get(ConfigMap, SYSTEM_NAMESPACE, CA_BUNDLE_NAME).data.get(CA_BUNDLE_KEY, "")
        if not bundle:
            raise CertificateError(f"ConfigMap {SYSTEM_NAMESPACE}/{CA_BUNDLE_NAME} has no {CA_BUNDLE_KEY}")
        return bundle.encode()

    def keep_fresh(self, current: TlsMaterial | None) -> TlsMaterial:
        """The certificate in use, unless there is none, its end is near or the authority changes: then a new one.

        Raises as :meth:`obtain`.
        """
        now, read = self._clock.now(), self._clock.monotonic()
        due = current is None or renewal_due(current.certificate, now)
        if current is not None and not due and read - self._authority_read < _AUTHORITY_SECONDS:
            return current
        trusted = self.read_trusted()
        self._authority_read = read
        if current is not None and not due and trusted == current.ca:
            return current
        return self.obtain()

    def obtain(self) -> TlsMaterial:
        """A new key and its certificate; waits until the api role has signed, for half a minute at most.

        Raises:
            KubeError: when the API server refuses or does not answer.
            CertificateError: when the request is denied, or is not signed yet: the next call goes on waiting.
        """
        if self._clock.monotonic() < self._refused_until:
            raise CertificateError("the last request came to nothing a moment ago")
        pending = self._pending or self._ask()
        self._pending = pending
        try:
            certificate = self._wait_for(pending.name)
            ca = self.read_trusted()
        except NotFound:
            # It was cleaned up before anybody signed it.
            self._pending = None
            raise
        self._pending = None
        try:
            check_issued(certificate, pending.key, ca)
        except CertificateError:
            self._pause()
            raise
        return TlsMaterial(ca, certificate, pending.key)

    def _pause(self) -> None:
        """Ask again, but not at once."""
        self._refused_until = self._clock.monotonic() + _REFUSED_SECONDS

    def _ask(self) -> _Pending:
        made = new_request(self._common_name, hosts=[handler_server_name(self._node)])
        # Names of nodes may be as long as names of objects may be.
        prefix = re.sub(r"[^a-z0-9]+", "-", self._node[:_LONGEST_NODE].lower()).strip("-")
        spec = CertificateRequestSpec(
            request=base64.b64encode(made.request).decode(),
            signer_name=HANDLER_SIGNER,
            usages=["digital signature", "server auth" if self._common_name == HANDLER_NAME else "client auth"],
        )
        meta = ObjectMeta(generate_name=f"{self._common_name}-{prefix}-")
        created = self._client.create(CertificateSigningRequest(metadata=meta, spec=spec))
        return _Pending(created.metadata.name, made.key)

    def _wait_for(self, name: str) -> bytes:
        deadline = self._clock.monotonic() + _PATIENCE_SECONDS
        pause = _POLL_SECONDS
        while not self._stop.wait(pause):
            status = self._client.get(CertificateSigningRequest, "", name).status
            refused = status.condition(DENIED) or status.condition(FAILED)
            if refused is not None:
                self._pending = None
                self._pause()
                raise CertificateError(f"CertificateSigningRequest {name} is refused: {refused.message}")
            if status.certificate:
                return base64.b64decode(status.certificate)
            if self._clock.monotonic() > deadline:
                raise CertificateError(f"CertificateSigningRequest {name} is not signed yet: does the api role run?")
            pause = min(_LONGEST_POLL_SECONDS, pause * 1.5)
        raise CertificateError("the handler is being stopped")

"""Signs the certificates of handlers' relays; run by the api role, which alone has the authority.

Started by api_service.py. Follows the CertificateSigningRequests for our signer, on any API server; the decisions are
`handler_signing_plan`'s. Several api roles may run: each writes against the version that it has read.
"""

from __future__ import annotations

import base64
import logging
from collections.abc import Callable
from typing import Final

from kvedge.api.registration.handler_signing_plan import Approve, Deny, Remove, Sign, plan_request
from kvedge.kube.errors import Conflict, NotFound
from kvedge.kube.informer import Informer
from kvedge.kube.kube_client import KubeClient, Preconditions
from kvedge.kube.patches import at_version
from kvedge.kube.reconcile_loop import Again, ReconcileLoop
from kvedge.kube.work_queue import Key
from kvedge.resources.codec import JsonObject
from kvedge.resources.manifests.role_rights import HANDLER_SIGNER
from kvedge.resources.types.certificate_requests import APPROVED, DENIED, CertificateSigningRequest
from kvedge.runtime.clock import Clock, rfc3339
from kvedge.runtime.tls.certificates import CertificateAuthority, CertificateError

log = logging.getLogger(__name__)

# Looks at each request again after this long, when it may have become old.
_ROUND_SECONDS: Final = 600.0
_RETRY_SECONDS: Final = 15.0


class HandlerSigner:
    """One api role's part in signing; `authority` gives the newest one."""

    def __init__(self, client: KubeClient, authority: Callable[[], CertificateAuthority], clock: Clock) -> None:
        self._client = client
        self._authority = authority
        self._clock = clock
        self._requests = Informer(client, CertificateSigningRequest, field_selector=f"spec.signerName={HANDLER_SIGNER}")
        self._loop = ReconcileLoop("handler-signer", self._step)

    def start(self) -> None:
        """Begin to follow."""
        self._requests.on_change(self._notice)
        self._loop.start()
        self._requests.start()

    def stop(self) -> None:
        """End."""
        self._requests.stop()
        self._loop.stop()

    def failure(self) -> str | None:
        """Why it no longer works."""
        return self._requests.failure() or self._loop.failure()

    def _notice(self, old: CertificateSigningRequest | None, new: CertificateSigningRequest | None) -> None:
        if new is not None:
            self._loop.queue.add(Key("", new.metadata.name))

    def _step(self, key: Key) -> Again | None:
        request = self._requests.get(*key)
        if request is None:
            return None
        try:
            match plan_request(request, self._clock.now()):
                case Approve(node):
                    self._decide(
                        request, APPROVED, "HandlerOfNode", f"the handler of node {node} asks for its own relay"
                    )
                case Deny(reason):
                    facts = {"request": request.metadata.name, "by": request.spec.username, "reason": reason}
                    log.warning("a handler's certificate is refused", extra={"facts": facts})
                    self._decide(request, DENIED, "NotThisHandler", reason)
                case Sign(public_key, leaf):
                    pem = self._authority().certify(public_key, leaf, self._clock.now())
                    certificate = base64.b64encode(pem).decode()
                    self._write(request, {"status": {"certificate": certificate}}, "status")
                    facts = {"request": request.metadata.name, "by": request.spec.username}
                    log.info("a handler's certificate is signed", extra={"facts": facts})
                case Remove():
                    self._client.delete(
                        CertificateSigningRequest, "", request.metadata.name, Preconditions(request.metadata.uid)
                    )
        except (Conflict, NotFound):
            # Somebody else was faster, another api role or the cluster's cleaner; the watch tells what it is now.
            return None
        except CertificateError as error:
            # The authority's Secret cannot be used; once it is repaired, this goes on without a restart.
            log.warning("a handler's certificate is not signed", extra={"facts": {"reason": str(error)}})
            return Again(_RETRY_SECONDS)
        return Again(_ROUND_SECONDS)

    def _decide(self, request: CertificateSigningRequest, kind: str, reason: str, message: str) -> None:
        condition = {
            "type": kind,
            "status": "True",
            "reason": reason,
            "message": message,
            "lastUpdateTime": rfc3339(self._clock.now()),
        }
        self._write(request, {"status": {"conditions": [condition]}}, "approval")

    def _write(self, request: CertificateSigningRequest, body: JsonObject, subresource: str) -> None:
        patch = at_version(body, request.metadata.resource_version)
        written = self._client.patch(CertificateSigningRequest, "", request.metadata.name, patch, subresource)
        self._requests.observe(written)

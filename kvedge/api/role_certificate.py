"""The certificate of one api role: issued by the cluster's authority, or in files that somebody else keeps fresh.

Used by the api role when it starts and in each of its rounds. Reads the Secret `kvedge-ca`, or the files.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

from kvedge.kube.kube_client import KubeClient
from kvedge.kube.shared_authority import ensure_shared_authority
from kvedge.runtime.clock import Clock
from kvedge.runtime.tls.authority_plan import Authorities
from kvedge.runtime.tls.certificates import (
    API_NAME,
    LeafRequest,
    TlsFiles,
    TlsMaterial,
    renewal_due,
)

log = logging.getLogger(__name__)

# How often it is seen whether the authority has a successor: many times within the week that it is known before it
# signs.
_AUTHORITY_SECONDS: Final = 3600.0


class RoleCertificate:
    """`material` is the newest; the threads of the server and of the rounds read it."""

    def __init__(self, client: KubeClient, files: TlsFiles | None, hosts: Sequence[str], clock: Clock) -> None:
        """Obtain the first one; `hosts` are the names and addresses by which the role is reached.

        Raises:
            KubeError: when the API server refuses or does not answer.
            CertificateError: when the authority's Secret or the files hold something else.
        """
        self._client = client
        self._files = files
        self._hosts = hosts
        self._clock = clock
        self._authority_read = 0.0
        self.material = self._issue(self.authority()) if files is None else files.read()

    def authority(self) -> Authorities:
        """The cluster's authority as it is now.

        Raises:
            KubeError: when the API server refuses or does not answer.
            CertificateError: when its Secret holds something else.
        """
        self._authority_read = self._clock.monotonic()
        return ensure_shared_authority(self._client, self._clock.now())

    def renew(self) -> None:
        """Have a fresh one when the time has come, or when the authority has a successor.

        Raises:
            KubeError: when the API server refuses or does not answer.
            CertificateError: when the authority's Secret or the files hold something else.
        """
        if self._files is not None:
            self.material = self._files.read()
            return
        due = renewal_due(self.material.certificate, self._clock.now())
        if not due and self._clock.monotonic() - self._authority_read < _AUTHORITY_SECONDS:
            return
        authority = self.authority()
        if due or authority.bundle != self.material.ca:
            self.material = self._issue(authority)
            log.info("certificate renewed", extra={"facts": {"service": "api"}})

    def _issue(self, authority: Authorities) -> TlsMaterial:
        return authority.issue(LeafRequest(API_NAME, hosts=self._hosts), self._clock.now())

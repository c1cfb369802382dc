"""What this api role knows of uploads' authority: its client certificate for workers, and keys made of its own.

Used by token_requests.py, upload_proxy.py and secret_paths.py, refreshed in the role's rounds. Reads, and when there is
none makes, the Secret `kvedge-upload-ca`, which all api roles and the controller share: it survives every restart.
"""

from __future__ import annotations

from typing import Final

from kvedge.api.uploads.upload_token import token_key
from kvedge.kube.kube_client import KubeClient
from kvedge.kube.shared_authority import ensure_shared_authority
from kvedge.resources.disks.clone_grants import grant_key
from kvedge.resources.disks.uploads import UPLOAD_AUTHORITY_SECRET, UPLOAD_CLIENT_NAME
from kvedge.resources.signed_tokens import derive_key
from kvedge.runtime.clock import Clock
from kvedge.runtime.tls.authority_plan import Authorities
from kvedge.runtime.tls.certificates import LeafRequest, TlsMaterial, renewal_due

# How often it is seen whether the authority has a successor, or was made anew.
_READ_SECONDS: Final = 300.0
_PATHS: Final = b"kvedge webhook paths"


class UploadAuthority:
    """`material`, `keys` (of tokens) and `path_keys` (of webhooks) are the newest.

    The threads of the server and of the rounds read them.
    """

    def __init__(self, client: KubeClient, clock: Clock) -> None:
        """Read it, or make it.

        Raises:
            KubeError: when the API server refuses or does not answer.
            CertificateError: when its Secret holds something else.
        """
        self._client = client
        self._clock = clock
        self.keys: tuple[bytes, ...] = ()
        self.path_keys: tuple[bytes, ...] = ()
        self._authorities = self._read()
        self.material = self._issue()

    def refresh(self) -> None:
        """Read it again from time to time, and have a fresh certificate when the time has come.

        Raises:
            KubeError: when the API server refuses or does not answer.
            CertificateError: when its Secret holds something else.
        """
        due = renewal_due(self.material.certificate, self._clock.now())
        if not due and self._clock.monotonic() - self._read_at < _READ_SECONDS:
            return
        before, self._authorities = self._authorities, self._read()
        if due or self._authorities.bundle != before.bundle:
            self.material = self._issue()

    @property
    def signing_key(self) -> bytes:
        """The key that new tokens are signed with."""
        return self.keys[0]

    @property
    def clone_key(self) -> bytes:
        """The key that new grants of clones are signed with."""
        return grant_key(self._authorities.signing.key_pem)

    def _read(self) -> Authorities:
        found = ensure_shared_authority(self._client, self._clock.now(), UPLOAD_AUTHORITY_SECRET)
        self._read_at = self._clock.monotonic()
        known = [found.signing, *([found.successor] if found.successor is not None else [])]
        keys = [token_key(each.key_pem) for each in known]
        self.path_keys = tuple(derive_key(each.key_pem, _PATHS) for each in known)
        # A token that was signed before a change is good until it ends: another role may not know of the change yet.
        self.keys = tuple(dict.fromkeys((*keys, *self.keys[:1])))
        return found

    def _issue(self) -> TlsMaterial:
        return self._authorities.issue(LeafRequest(UPLOAD_CLIENT_NAME, server=False), self._clock.now())

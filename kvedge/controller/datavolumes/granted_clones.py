"""Whether a DataVolume may copy claims of another namespace: the api role has signed that when it was made.

Called by clone_sources.py. Reads the authority that api roles and controller share, now and then.
"""

from __future__ import annotations

from datetime import UTC
from typing import Final

from kvedge.kube.errors import NotFound
from kvedge.kube.kube_client import KubeClient
from kvedge.kube.shared_authority import existing_authority
from kvedge.resources.disks.clone_grants import CLONE_TOKEN, grant_key, read_grant
from kvedge.resources.disks.uploads import UPLOAD_AUTHORITY_SECRET
from kvedge.resources.signed_tokens import BadToken
from kvedge.resources.types.data_volumes import DataVolume
from kvedge.runtime.clock import Clock, parse_rfc3339

# How often it is seen whether the authority has a successor, or was made anew.
_READ_SECONDS: Final = 60.0


class GrantedClones:
    """Judges grants; every method may be called from any thread."""

    def __init__(self, client: KubeClient, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._keys: tuple[float, tuple[bytes, ...]] = (float("-inf"), ())

    def problem(self, dv: DataVolume, namespace: str) -> str:
        """Why claims of this namespace must not be copied into this DataVolume; empty when they may.

        Raises:
            KubeError: when the API server refuses or does not answer.
            CertificateError: when the authority's Secret holds something else.
        """
        token, made_at = dv.metadata.annotations.get(CLONE_TOKEN, ""), dv.metadata.creation_timestamp
        try:
            if not token or not made_at:
                raise BadToken("it has none")
            moment = parse_rfc3339(made_at)
            moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
            grant = read_grant(self._read_keys(), token, moment)
            if (grant.namespace, grant.name) != (dv.metadata.namespace, dv.metadata.name):
                raise BadToken("it is another DataVolume's")
            if namespace not in grant.sources:
                raise BadToken(f"it is for {', '.join(grant.sources)}")
        except BadToken as error:
            return (
                f"claims of namespace {namespace} may not be copied by this DataVolume, which has no grant for it"
                f" ({error}): make it anew, as somebody who may create datavolumes/source in {namespace}"
            )
        return ""

    def _read_keys(self) -> tuple[bytes, ...]:
        read_at, keys = self._keys
        if self._clock.monotonic() - read_at < _READ_SECONDS:
            return keys
        try:
            found = existing_authority(self._client, UPLOAD_AUTHORITY_SECRET)
        except NotFound:
            # No api role has made it yet, so that nothing is signed.
            return ()
        known = [found.signing, *([found.successor] if found.successor is not None else [])]
        keys = tuple(grant_key(each.key_pem) for each in known)
        self._keys = (self._clock.monotonic(), keys)
        return keys

"""The certificate of a console on a server of a cluster: of an authority that the server makes once, and keeps.

Read by `box_console` at its start and in each of its rounds; makes what is missing, and a fresh certificate when the
time has come. Touches its directory alone.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from ipaddress import ip_address
from pathlib import Path
from typing import Final

from kvedge.runtime.durable_files import write_durably
from kvedge.runtime.tls.certificates import (
    LEAF_LIFE,
    CertificateAuthority,
    CertificateError,
    LeafRequest,
    TlsFiles,
    TlsMaterial,
    ends_at,
    hosts_of,
    renewal_due,
)

log = logging.getLogger(__name__)

# Another name than that of its authority: who signs with its own name has signed itself.
_NAME: Final = "kvedge console"
_AUTHORITY: Final = "kvedge console authority"
_PUBLIC: Final = 0o644
_NEVER_BEFORE: Final = datetime(2026, 1, 1, tzinfo=UTC)


class OwnCertificate:
    """Used by one thread at a time."""

    def __init__(
        self,
        directory: Path,
        find_names: Callable[[], Sequence[str]],
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """`find_names` are the names and addresses by which browsers reach the server, as they are at its start."""
        self._names = [_canonical(name) for name in find_names()]
        self._directory = directory
        self._now = now
        self._files = TlsFiles(directory / "ca.crt", directory / "server.crt", directory / "server.key")
        self._authority_key = directory / "ca.key"

    def read(self) -> TlsMaterial:
        """A certificate that is good for the names.

        Raises:
            CertificateError: when the authority's files hold something else, or cannot be read or written.
        """
        try:
            kept = self._read_kept()
            return kept if kept is not None else self._make()
        except OSError as error:
            raise CertificateError(f"{error.filename}: {error.strerror}") from error
        except ValueError as error:
            # A host's name may be one that no certificate can have.
            raise CertificateError(f"no certificate for {', '.join(self._names)}: {error}") from error

    def _moment(self) -> datetime:
        """Now; of a clock that was never set, a time at which there was a kvedge."""
        return max(self._now(), _NEVER_BEFORE)

    def _read_kept(self) -> TlsMaterial | None:
        """None where there is none that is still good."""
        with contextlib.suppress(CertificateError):
            kept = self._files.read()
            fits = set(self._names) <= hosts_of(kept.certificate) and not renewal_due(kept.certificate, self._moment())
            # A pair of which a power cut kept one half does not fit; the server would not start with it.
            if fits and kept.ca == self._authority().certificate_pem and _is_pair(kept):
                return kept
        return None

    def _make(self) -> TlsMaterial:
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        made = self._authority().issue(LeafRequest(_NAME, hosts=self._names, client=False), self._moment())
        write_durably(self._files.key, made.key)
        write_durably(self._files.cert, made.certificate, mode=_PUBLIC)
        log.info("the console has a new certificate", extra={"facts": {"authority": str(self._files.ca)}})
        return made

    def _authority(self) -> CertificateAuthority:
        """Made once: browsers that were told to trust it must find it again.

        Raises:
            CertificateError: when the files hold something else.
        """
        try:
            kept = CertificateAuthority(self._files.ca.read_bytes(), self._authority_key.read_bytes())
        except FileNotFoundError:
            kept = None
        # One that ends within a leaf's life would have each leaf renewed at once, again and again.
        if kept is not None and ends_at(kept.certificate_pem) - self._moment() > LEAF_LIFE:
            return kept
        made = CertificateAuthority.create(_AUTHORITY, self._moment())
        # The certificate last: a key without one is one that nobody was told of.
        self._files.ca.unlink(missing_ok=True)
        write_durably(self._authority_key, made.key_pem)
        write_durably(self._files.ca, made.certificate_pem, mode=_PUBLIC)
        return made


def _canonical(name: str) -> str:
    """A name as certificates give it back: an address may be written in several ways."""
    try:
        return str(ip_address(name))
    except ValueError:
        return name


def _is_pair(material: TlsMaterial) -> bool:
    """Whether the key belongs to the certificate."""
    from cryptography import x509
    from cryptography.hazmat.primitives import serialization

    try:
        key = serialization.load_pem_private_key(material.key, password=None)
        return x509.load_pem_x509_certificate(material.certificate).public_key() == key.public_key()
    except (ValueError, TypeError):
        return False

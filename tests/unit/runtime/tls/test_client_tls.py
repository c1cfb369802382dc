"""A client's context follows its certificate."""

from __future__ import annotations

from datetime import UTC, datetime

from kvedge.runtime.tls.certificates import CertificateAuthority, LeafRequest
from kvedge.runtime.tls.client_tls import ClientTls


def test_a_context_is_kept_until_the_certificate_is_another_one() -> None:
    now = datetime.now(UTC)
    authority = CertificateAuthority.create("an authority", now)
    newest = [authority.issue(LeafRequest(common_name="kvedge-api"), now)]
    tls = ClientTls(lambda: newest[0])
    first = tls.current()
    assert tls.current() is first
    newest[0] = authority.issue(LeafRequest(common_name="kvedge-api"), now)
    second = tls.current()
    assert second is not first
    assert tls.current() is second

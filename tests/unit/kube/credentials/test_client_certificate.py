"""What is said of a client's certificate that has ended."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from kvedge.kube.credentials.client_certificate import ShownCertificate, leaf_of
from kvedge.runtime.tls.certificates import LEAF_LIFE, CertificateAuthority, LeafRequest, TlsMaterial

NOW = datetime(2026, 5, 1, 12, 30, tzinfo=UTC)


def issued(user: str) -> TlsMaterial:
    return CertificateAuthority.create("cluster", NOW).issue(LeafRequest(user), NOW)


def test_one_that_is_good_is_not_complained_of() -> None:
    shown = ShownCertificate(issued("kvedge:api").certificate, "f")
    assert shown.complaint(NOW + LEAF_LIFE - timedelta(seconds=1)) == ""


@pytest.mark.parametrize(
    ("user", "remedy"),
    [
        ("kvedge:api", "run `kvedge user renew` or `kvedge install` on this server"),
        ("kvedge:handler:n7", "`kvedge user role handler --node n7`"),
        ("system:node:n7", "this node's Kubernetes renews it"),
        ("system:admin", "whoever made it"),
    ],
)
def test_of_one_that_has_ended_user_file_end_and_remedy_are_told(user: str, remedy: str) -> None:
    shown = ShownCertificate(issued(user).certificate, "/etc/kvedge/roles/api")
    said = shown.complaint(NOW + LEAF_LIFE)
    assert said.startswith(f"the certificate of {user} in /etc/kvedge/roles/api ended 2027-05-01 12:30:00 UTC; ")
    assert remedy in said


def test_what_is_no_certificate_has_no_end() -> None:
    assert ShownCertificate(b"", "f").complaint(NOW) == ""


def test_of_a_file_with_chain_and_key_only_the_clients_own_certificate_is_kept() -> None:
    made = issued("kvedge:api")
    assert leaf_of(made.key + made.certificate + made.ca) == made.certificate
    assert leaf_of(made.key) == b""

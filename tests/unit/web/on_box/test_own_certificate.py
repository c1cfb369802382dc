"""The certificate of a console in a cluster: kept, renewed, and made anew where it does not fit."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509 import verification

from kvedge.runtime.tls.certificates import CertificateAuthority, CertificateError, ends_at, hosts_of
from kvedge.web.on_box.own_certificate import OwnCertificate

_NOW = datetime(2026, 11, 1, tzinfo=UTC)


def own(directory: Path, *names: str, now: datetime = _NOW) -> OwnCertificate:
    return OwnCertificate(directory, lambda: names, lambda: now)


def test_it_is_made_once_and_its_key_is_for_its_owner_alone(tmp_path: Path) -> None:
    directory = tmp_path / "console"
    made = own(directory, "box", "192.0.2.1").read()
    assert hosts_of(made.certificate) == {"box", "192.0.2.1"}
    assert own(directory, "box", "192.0.2.1").read() == made
    assert {path.name: path.stat().st_mode & 0o077 for path in directory.glob("*.key")} == {
        "ca.key": 0,
        "server.key": 0,
    }
    assert directory.stat().st_mode & 0o077 == 0


def test_clients_that_trust_the_authority_trust_the_certificate(tmp_path: Path) -> None:
    made = own(tmp_path, "box").read()
    leaf, authority = (x509.load_pem_x509_certificate(pem) for pem in (made.certificate, made.ca))
    store = verification.Store([authority])
    verifier = verification.PolicyBuilder().store(store).time(_NOW).build_server_verifier(x509.DNSName("box"))
    assert verifier.verify(leaf, []) == [leaf, authority]


def test_a_certificate_near_its_end_has_a_successor_of_the_same_authority(tmp_path: Path) -> None:
    made = own(tmp_path, "box").read()
    later = own(tmp_path, "box", now=_NOW + timedelta(days=3650 // 2)).read()
    assert later.certificate != made.certificate
    assert later.ca == made.ca
    assert CertificateAuthority(later.ca, (tmp_path / "ca.key").read_bytes()).has_issued(later.certificate)


def test_a_server_with_a_new_address_gets_a_new_certificate(tmp_path: Path) -> None:
    made = own(tmp_path, "box").read()
    assert hosts_of(own(tmp_path, "box", "192.0.2.7").read().certificate) == {"box", "192.0.2.7"}
    assert made.ca == own(tmp_path, "box").read().ca


@pytest.mark.parametrize("file", ["server.key", "server.crt", "ca.crt"])
def test_what_a_power_cut_left_out_is_made_anew(tmp_path: Path, file: str) -> None:
    own(tmp_path, "box").read()
    (tmp_path / file).unlink()
    again = own(tmp_path, "box").read()
    assert own(tmp_path, "box").read() == again


def test_halves_of_two_pairs_are_not_shown(tmp_path: Path) -> None:
    first = own(tmp_path, "box").read()
    (tmp_path / "server.crt").unlink()
    second = own(tmp_path, "box").read()
    (tmp_path / "server.crt").write_bytes(first.certificate)
    third = own(tmp_path, "box").read()
    assert third.certificate not in (first.certificate, second.certificate)


def test_an_authority_that_is_none_is_told_and_not_written_over(tmp_path: Path) -> None:
    (tmp_path / "ca.crt").write_text("mine")
    (tmp_path / "ca.key").write_text("mine")
    with pytest.raises(CertificateError, match="is not PEM"):
        own(tmp_path, "box").read()
    assert (tmp_path / "ca.key").read_text() == "mine"


def test_an_address_that_is_written_otherwise_is_the_same(tmp_path: Path) -> None:
    made = own(tmp_path, "2001:DB8:0::1").read()
    assert own(tmp_path, "2001:DB8:0::1").read() == made


def test_a_clock_that_was_never_set_makes_no_authority_of_the_past(tmp_path: Path) -> None:
    made = own(tmp_path, "box", now=datetime(1970, 1, 1, tzinfo=UTC)).read()
    assert own(tmp_path, "box", now=datetime(2026, 2, 1, tzinfo=UTC)).read() == made


def test_an_authority_near_its_end_has_a_successor_and_certificates_last(tmp_path: Path) -> None:
    made = own(tmp_path, "box").read()
    late = ends_at(made.ca) - timedelta(days=100)
    renewed = own(tmp_path, "box", now=late).read()
    assert renewed.ca != made.ca
    assert own(tmp_path, "box", now=late).read() == renewed


def test_a_name_that_no_certificate_can_have_is_told(tmp_path: Path) -> None:
    with pytest.raises(CertificateError, match="no certificate for büro"):
        own(tmp_path, "büro").read()


def test_a_place_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CertificateError, match="file"):
        own(tmp_path / "file" / "console", "box").read()

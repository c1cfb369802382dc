"""One authority follows another: nobody is ever left with certificates that are not trusted."""

from __future__ import annotations

import ssl
import tempfile
from datetime import UTC, datetime, timedelta

import pytest

from kvedge.runtime.tls.authority_plan import (
    OVERLAP,
    SUCCEED_BEFORE,
    Authorities,
    plan_succession,
    split_certificates,
)
from kvedge.runtime.tls.certificates import CA_LIFE, CertificateAuthority, LeafRequest, TlsMaterial

BEGIN = datetime(2026, 5, 1, tzinfo=UTC)
DUE = BEGIN + CA_LIFE - SUCCEED_BEFORE + timedelta(hours=1)


@pytest.fixture(scope="module")
def first() -> Authorities:
    return Authorities(CertificateAuthority.create("kvedge-ca", BEGIN))


def at(present: Authorities, now: datetime) -> Authorities:
    return plan_succession(present, now) or present


def trusted(bundle: bytes, material: TlsMaterial) -> bool:
    """Whether a client that knows the bundle accepts the server: a handshake in memory, by OpenSSL."""
    client = ssl.create_default_context(cadata=bundle.decode())
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    load(server, material)
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    asking = client.wrap_bio(to_client, to_server, server_hostname="api.svc")
    answering = server.wrap_bio(to_server, to_client, server_side=True)
    for _ in range(4):
        for side in (asking, answering):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
            except ssl.SSLCertVerificationError:
                return False
            except ssl.SSLError:
                continue
    return asking.version() is not None


def load(context: ssl.SSLContext, material: TlsMaterial) -> None:
    # OpenSSL reads chains from files only.
    with tempfile.NamedTemporaryFile() as pair:
        pair.write(material.certificate + material.key)
        pair.flush()
        context.load_cert_chain(pair.name)


def leaf(present: Authorities, now: datetime) -> TlsMaterial:
    return present.issue(LeafRequest("kvedge-api", hosts=["api.svc"]), now)


def test_nothing_happens_for_eight_years(first: Authorities) -> None:
    assert plan_succession(first, DUE - timedelta(days=1)) is None


def test_a_successor_is_known_before_it_signs(first: Authorities) -> None:
    planned = at(first, DUE)
    assert planned.successor is not None
    assert planned.signing is first.signing
    assert planned.signs_from == DUE + OVERLAP
    assert split_certificates(planned.bundle) == (first.signing.certificate_pem, planned.successor.certificate_pem)
    assert plan_succession(planned, DUE + OVERLAP - timedelta(minutes=1)) is None


def test_then_it_signs_and_the_first_is_trusted_until_its_end(first: Authorities) -> None:
    published = at(first, DUE)
    signing = at(published, DUE + OVERLAP)
    assert signing.signing is published.successor
    assert (signing.successor, signing.signs_from) == (None, None)
    assert signing.previous == (first.signing.certificate_pem,)
    assert plan_succession(signing, BEGIN + CA_LIFE - timedelta(days=1)) is None
    assert at(signing, BEGIN + CA_LIFE + timedelta(days=1)).previous == ()


def test_in_the_overlap_who_knows_only_the_old_bundle_or_only_the_new_one_is_served(first: Authorities) -> None:
    published = at(first, DUE)
    signing = at(published, DUE + OVERLAP)
    # Published, not signing yet: a role has looked, or not.
    for present, served in ((first, DUE), (published, DUE)):
        assert trusted(first.bundle, leaf(present, served))
        assert trusted(published.bundle, leaf(present, served))
    # It signs: one role has looked, another not; all have seen the overlap's bundle by now.
    for present in (published, signing):
        assert trusted(published.bundle, leaf(present, DUE + OVERLAP))
        assert trusted(signing.bundle, leaf(present, DUE + OVERLAP))
    # And what will be left when the first has ended.
    assert trusted(signing.signing.certificate_pem, leaf(signing, DUE + OVERLAP))


def test_a_stranger_is_not_trusted(first: Authorities) -> None:
    stranger = Authorities(CertificateAuthority.create("kvedge-ca", BEGIN))
    assert not trusted(stranger.bundle, leaf(first, BEGIN))


def test_an_authority_that_has_ended_is_replaced_at_once(first: Authorities) -> None:
    planned = at(first, BEGIN + CA_LIFE + timedelta(days=30))
    assert planned.signing is not first.signing
    assert (planned.successor, planned.previous) == (None, ())


def test_one_that_ends_within_the_overlap_is_succeeded_before_that(first: Authorities) -> None:
    now = BEGIN + CA_LIFE - timedelta(days=3)
    planned = at(first, now)
    assert planned.signing is first.signing
    assert planned.signs_from == now + timedelta(days=2)


def test_a_time_that_a_wrong_clock_has_written_does_not_keep_the_successor_waiting(first: Authorities) -> None:
    published = at(first, DUE)
    wrong = Authorities(published.signing, published.successor, DUE + timedelta(days=3000))
    assert at(wrong, DUE).signing is published.successor


def test_no_leaf_that_is_signed_in_time_is_cut_short(first: Authorities) -> None:
    assert timedelta(days=366) < SUCCEED_BEFORE - OVERLAP

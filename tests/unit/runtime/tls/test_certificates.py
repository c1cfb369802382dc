"""The authority of the roles, its leaf certificates, and TLS that is exchanged while it serves."""

from __future__ import annotations

import asyncio
import socket
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509

from kvedge.runtime.serving.connection_acceptor import ConnectionAcceptor
from kvedge.runtime.tls.certificates import (
    CertificateAuthority,
    CertificateError,
    LeafRequest,
    TlsFiles,
    TlsMaterial,
    renewal_due,
)
from kvedge.runtime.tls.rotating_tls import RotatingTls
from kvedge.runtime.tls.tls_contexts import client_context, peer_common_name, server_context

NOW = datetime(2026, 5, 1, tzinfo=UTC)


@pytest.fixture(scope="module")
def authority() -> CertificateAuthority:
    return CertificateAuthority.create("kvedge-ca", NOW)


def test_a_leaf_is_for_its_hosts_and_of_its_authority(authority: CertificateAuthority) -> None:
    material = authority.issue(LeafRequest("kvedge-api", hosts=["api.svc", "192.0.2.1", "2001:db8::1"]), NOW)
    leaf = x509.load_pem_x509_certificate(material.certificate)
    leaf.verify_directly_issued_by(x509.load_pem_x509_certificate(material.ca))
    names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert [str(name.value) for name in names] == ["api.svc", "192.0.2.1", "2001:db8::1"]


@pytest.mark.parametrize("behind", [timedelta(hours=1), timedelta(days=365)])
def test_a_leaf_counts_on_a_node_whose_clock_is_behind(authority: CertificateAuthority, behind: timedelta) -> None:
    material = authority.issue(LeafRequest("kvedge-api", hosts=["api.svc"]), NOW)
    leaf, ca = (x509.load_pem_x509_certificate(each) for each in (material.certificate, material.ca))
    for each in (leaf, ca):
        assert each.not_valid_before_utc <= NOW - behind < each.not_valid_after_utc


def test_a_leaf_is_no_authority(authority: CertificateAuthority) -> None:
    leaf = x509.load_pem_x509_certificate(authority.issue(LeafRequest("x"), NOW).certificate)
    assert leaf.extensions.get_extension_for_class(x509.BasicConstraints).value.ca is False


def test_an_authority_is_taken_up_again(authority: CertificateAuthority) -> None:
    again = CertificateAuthority(authority.certificate_pem, authority.key_pem)
    leaf = x509.load_pem_x509_certificate(again.issue(LeafRequest("x"), NOW).certificate)
    leaf.verify_directly_issued_by(x509.load_pem_x509_certificate(authority.certificate_pem))


def test_a_key_of_another_authority_is_refused(authority: CertificateAuthority) -> None:
    other = CertificateAuthority.create("other", NOW)
    with pytest.raises(CertificateError, match="does not belong"):
        CertificateAuthority(authority.certificate_pem, other.key_pem)


def test_text_that_is_no_pem_is_refused(authority: CertificateAuthority) -> None:
    with pytest.raises(CertificateError, match="not PEM"):
        CertificateAuthority(b"x", authority.key_pem)


@pytest.mark.parametrize(("days", "due"), [(0, False), (243, False), (244, True), (365, True), (400, True)])
def test_a_leaf_is_renewed_in_the_last_third_of_its_life(authority: CertificateAuthority, days: int, due: bool) -> None:
    certificate = authority.issue(LeafRequest("x"), NOW).certificate
    assert renewal_due(certificate, NOW + timedelta(days=days)) is due


def test_a_leaf_does_not_outlive_its_authority(authority: CertificateAuthority) -> None:
    late = NOW + timedelta(days=3600)
    leaf = x509.load_pem_x509_certificate(authority.issue(LeafRequest("x"), late).certificate)
    root = x509.load_pem_x509_certificate(authority.certificate_pem)
    assert leaf.not_valid_after_utc == root.not_valid_after_utc


def test_what_a_box_makes_that_boots_in_the_past_is_valid() -> None:
    past = datetime(1970, 1, 2, tzinfo=UTC)
    leaf = x509.load_pem_x509_certificate(CertificateAuthority.create("x", past).certificate_pem)
    assert leaf.not_valid_before_utc < leaf.not_valid_after_utc


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    files = TlsFiles(tmp_path / "ca", tmp_path / "cert", tmp_path / "key")
    with pytest.raises(CertificateError, match=f"{tmp_path}/ca: cannot be read"):
        files.read()


def test_a_server_that_requires_clients_needs_their_authority(authority: CertificateAuthority) -> None:
    with pytest.raises(CertificateError, match="no authority"):
        server_context(authority.issue(LeafRequest("x"), NOW), require_client=True)


def test_a_peer_without_certificate_has_no_name() -> None:
    assert peer_common_name(None) == ""
    assert peer_common_name({"subject": ((("organizationName", "a"),), (("commonName", "b"),))}) == "b"


def test_certificate_and_trust_are_exchanged_while_serving() -> None:
    asyncio.run(_exchange())


async def _exchange() -> None:
    now = datetime.now(UTC)
    old, new = (CertificateAuthority.create(name, now) for name in ("old", "new"))
    before, after = (a.issue(LeafRequest("server", hosts=["127.0.0.1"]), now) for a in (old, new))
    mine, theirs = (a.issue(LeafRequest(name), now) for a, name in ((old, "mine"), (new, "theirs")))
    rotating = RotatingTls(before, old.certificate_pem)
    async with _Server(rotating) as server:
        assert await server.peer_of(old, mine) == "mine"
        assert await server.peer_of(old, None) == ""
        rotating.exchange(after, new.certificate_pem)
        assert await server.peer_of(new, theirs) == "theirs"
        assert await server.peer_of(new, mine) is None
        with pytest.raises(ssl.SSLCertVerificationError):
            await server.peer_of(old, mine)


def test_trust_in_clients_does_not_come_or_go_while_serving(authority: CertificateAuthority) -> None:
    material = authority.issue(LeafRequest("x"), NOW)
    with pytest.raises(CertificateError, match="cannot come or go"):
        RotatingTls(material).exchange(material, authority.certificate_pem)


class _Server:
    """Answers each client with the name in its certificate."""

    def __init__(self, rotating: RotatingTls) -> None:
        self._rotating = rotating

    async def __aenter__(self) -> _Server:
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._acceptor = ConnectionAcceptor(self._listening, self._rotating.current, self._protocol, lambda: False)
        self._acceptor.start()
        self._port = self._listening.getsockname()[1]
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._acceptor.stop()
        self._listening.close()

    def _protocol(self) -> asyncio.Protocol:
        return asyncio.StreamReaderProtocol(asyncio.StreamReader(), self._answer)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(f"peer={peer_common_name(writer.get_extra_info('peercert'))}".encode())
        await writer.drain()
        writer.close()

    async def peer_of(self, trusted: CertificateAuthority, own: TlsMaterial | None) -> str | None:
        """What the server saw of us; None when it turned us away."""
        if own is None:
            context = ssl.create_default_context(cadata=trusted.certificate_pem.decode())
        else:
            context = client_context(TlsMaterial(trusted.certificate_pem, own.certificate, own.key))
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port, ssl=context)
        try:
            answer = (await reader.read()).decode()
        except (ssl.SSLError, ConnectionError):
            return None
        finally:
            writer.transport.abort()
            await asyncio.sleep(0)
        return answer.removeprefix("peer=") if answer else None

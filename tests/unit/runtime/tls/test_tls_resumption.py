# Tests: kvedge/runtime/tls/tls_contexts.py, kvedge/runtime/tls/rotating_tls.py, kvedge/runtime/serving/https_server.py
"""A TLS session that was begun under an authority must not outlive the trust in that authority."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from aiohttp import web

from kvedge.runtime.serving.https_server import HttpsServer
from kvedge.runtime.tls.certificates import CertificateAuthority, LeafRequest, TlsMaterial
from kvedge.runtime.tls.rotating_tls import RotatingTls
from kvedge.runtime.tls.tls_contexts import client_context, peer_common_name

_NOW = datetime.now(UTC)
_SERVERS, _OLD, _NEW = (CertificateAuthority.create(name, _NOW) for name in ("servers", "old", "new"))
_SHOWN = _SERVERS.issue(LeafRequest("server", hosts=["127.0.0.1"]), _NOW)


def _client(authority: CertificateAuthority, version: ssl.TLSVersion) -> ssl.SSLContext:
    own = authority.issue(LeafRequest("someone"), _NOW)
    context = client_context(TlsMaterial(_SERVERS.certificate_pem, own.certificate, own.key))
    context.minimum_version = context.maximum_version = version
    return context


class _Served:
    def __init__(self, *, require_client: bool) -> None:
        self.tls = RotatingTls(_SHOWN, _OLD.certificate_pem, require_client=require_client)
        self.https = HttpsServer("127.0.0.1", 0, "test")
        self.https.start(self.tls, self._application)

    def _application(self) -> web.Application:
        async def who(request: web.Request) -> web.Response:
            assert request.transport is not None
            return web.Response(text=f"you are {peer_common_name(request.transport.get_extra_info('peercert'))!r}")

        application = web.Application()
        application.add_routes([web.get("/", who)])
        return application

    def ask(self, context: ssl.SSLContext, session: ssl.SSLSession | None) -> tuple[str, bool, ssl.SSLSession | None]:
        """What the server says, whether the session was resumed, and the session to come back with."""
        with (
            socket.create_connection(("127.0.0.1", self.https.port), timeout=10) as plain,
            context.wrap_socket(plain, server_hostname="127.0.0.1", session=session) as connection,
        ):
            connection.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            answer = b""
            while piece := connection.recv(4096):
                answer += piece
            return answer.decode(), bool(connection.session_reused), connection.session


@pytest.fixture(params=[True, False], ids=["a client must have a certificate", "a client may have a certificate"])
def served(request: pytest.FixtureRequest) -> Iterator[_Served]:
    made = _Served(require_client=request.param)
    yield made
    made.https.stop()


VERSIONS = [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3]


@pytest.mark.parametrize("version", VERSIONS, ids=lambda version: version.name)
@pytest.mark.parametrize("tickets", [True, False], ids=["by ticket", "by session id"])
def test_a_client_of_an_authority_that_was_rotated_away_does_not_come_in_by_its_session(
    served: _Served, version: ssl.TLSVersion, tickets: bool
) -> None:
    context = _client(_OLD, version)
    if not tickets:
        context.options |= ssl.OP_NO_TICKET
    answer, _, session = served.ask(context, None)
    assert "you are 'someone'" in answer
    served.tls.exchange(_SHOWN, _NEW.certificate_pem)
    try:
        answer, resumed, _ = served.ask(context, session)
    except (ssl.SSLError, ConnectionError):
        return
    # With TLS 1.3 the client's side of the handshake may be done when the refusal comes, as the end of the connection.
    assert answer == "", f"came in, resumed: {resumed}"


@pytest.mark.parametrize("version", VERSIONS, ids=lambda version: version.name)
def test_a_client_of_the_new_authority_comes_in_whatever_session_it_tries(
    served: _Served, version: ssl.TLSVersion
) -> None:
    context = _client(_OLD, version)
    _, _, session = served.ask(context, None)
    served.tls.exchange(_SHOWN, _OLD.certificate_pem + _NEW.certificate_pem)
    answer, _, _ = served.ask(context, session)
    assert "you are 'someone'" in answer
    answer, _, _ = served.ask(_client(_NEW, version), None)
    assert "you are 'someone'" in answer

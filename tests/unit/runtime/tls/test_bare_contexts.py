"""One maker of TLS contexts: the least version, and the one protocol that is spoken."""

from __future__ import annotations

import ast
import ssl
from datetime import UTC, datetime
from pathlib import Path

import pytest

import kvedge
from kvedge.runtime.tls.bare_contexts import new_client_context, new_server_context
from kvedge.runtime.tls.certificates import CertificateAuthority, LeafRequest

PACKAGE = Path(kvedge.__file__).parent


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with ca.crt, tls.crt and tls.key."""
    directory = tmp_path_factory.mktemp("tls")
    now = datetime.now(UTC)
    authority = CertificateAuthority.create("an authority", now)
    made = authority.issue(LeafRequest(common_name="server", hosts=("server",)), now)
    for name, content in (("ca.crt", made.ca), ("tls.crt", made.certificate), ("tls.key", made.key)):
        (directory / name).write_bytes(content)
    return directory


def shake_hands(client: ssl.SSLContext, server: ssl.SSLContext) -> tuple[ssl.SSLObject, ssl.SSLObject]:
    """Both ends of a connection without a socket."""
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = (
        client.wrap_bio(back, there, server_hostname="server"),
        server.wrap_bio(there, back, server_side=True),
    )
    # Each takes two turns.
    for end in (*ends, *ends):
        try:
            end.do_handshake()
        except ssl.SSLWantReadError:
            continue
    return ends


def serving(files: Path) -> ssl.SSLContext:
    context = new_server_context()
    context.load_cert_chain(files / "tls.crt", files / "tls.key")
    return context


def believing(files: Path) -> ssl.SSLContext:
    context = new_client_context()
    context.load_verify_locations(files / "ca.crt")
    return context


def test_a_client_that_would_speak_http_2_hears_at_once_that_it_is_not_spoken(files: Path) -> None:
    client = believing(files)
    client.set_alpn_protocols(["h2", "http/1.1"])
    ends = shake_hands(client, serving(files))
    assert [end.selected_alpn_protocol() for end in ends] == ["http/1.1", "http/1.1"]


def test_a_client_that_offers_nothing_is_served(files: Path) -> None:
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.load_verify_locations(files / "ca.crt")
    ends = shake_hands(client, serving(files))
    assert [end.version() for end in ends] == ["TLSv1.3", "TLSv1.3"]


def test_a_client_of_ours_believes_nobody_by_itself(files: Path) -> None:
    with pytest.raises(ssl.SSLCertVerificationError):
        shake_hands(new_client_context(), serving(files))


@pytest.mark.parametrize("context", [new_server_context(), new_client_context()], ids=["server", "client"])
def test_old_versions_are_not_spoken(context: ssl.SSLContext) -> None:
    assert context.minimum_version == ssl.TLSVersion.TLSv1_2


def test_contexts_are_made_in_one_place() -> None:
    makers = {
        str(path.relative_to(PACKAGE))
        for path in PACKAGE.rglob("*.py")
        # To parse all modules takes seconds.
        if "SSLContext" in (text := path.read_text())
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("SSLContext")
    }
    assert makers == {"runtime/tls/bare_contexts.py"}

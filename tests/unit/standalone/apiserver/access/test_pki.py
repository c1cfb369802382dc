"""The box's certificates and the kubeconfigs made of them."""

from __future__ import annotations

import base64
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import yaml
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID

from kvedge.runtime.durable_files import write_durably
from kvedge.standalone.apiserver.access.kubeconfig import write_kubeconfig
from kvedge.standalone.apiserver.access.pki import Authority, Subject, is_fresh, server_names, subject_of
from kvedge.standalone.apiserver.access.server_certificate import BoxPki, names_of_server

NOW = datetime.now(UTC)


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "pki", "client-ca")


def test_an_authority_is_made_once(authority: Authority, tmp_path: Path) -> None:
    again = Authority(tmp_path / "pki", "client-ca")
    assert again.certificate_pem == authority.certificate_pem
    assert again.has_issued(authority.issue_client(Subject("joe")).certificate)


def test_an_authority_whose_making_was_interrupted_is_made_again(authority: Authority, tmp_path: Path) -> None:
    (tmp_path / "pki" / "client-ca.crt").unlink()
    again = Authority(tmp_path / "pki", "client-ca")
    assert again.certificate_pem != authority.certificate_pem


def test_keys_are_readable_by_their_owner_alone(authority: Authority, tmp_path: Path) -> None:
    assert (tmp_path / "pki").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "pki" / "client-ca.key").stat().st_mode & 0o777 == 0o600


def test_a_client_is_a_user_with_groups(authority: Authority) -> None:
    pair = authority.issue_client(Subject("joe", ("one", "two")))
    assert subject_of(pair.certificate) == Subject("joe", ("one", "two"))
    usage = x509.load_pem_x509_certificate(pair.certificate).extensions.get_extension_for_class(x509.ExtendedKeyUsage)
    assert list(usage.value) == [ExtendedKeyUsageOID.CLIENT_AUTH]


def test_a_server_is_its_names_and_addresses(authority: Authority) -> None:
    pair = authority.issue_server("server", ["localhost", "127.0.0.1", "::1"])
    assert server_names(pair.certificate) == {"localhost", "127.0.0.1", "::1"}
    assert authority.fits(pair.certificate, pair.key)
    assert not authority.fits(pair.certificate, authority.issue_server("x", ["x"]).key)
    assert not authority.fits(pair.certificate, b"no key")


def test_another_authority_is_not_ours(authority: Authority, tmp_path: Path) -> None:
    other = Authority(tmp_path / "other", "client-ca")
    assert not authority.has_issued(other.issue_client(Subject("joe")).certificate)


def test_certificates_are_good_on_a_box_whose_clock_is_behind(authority: Authority) -> None:
    certificate = x509.load_pem_x509_certificate(authority.issue_client(Subject("joe")).certificate)
    assert certificate.not_valid_before_utc <= datetime(2020, 1, 1, tzinfo=UTC)


def test_a_certificate_is_due_when_two_thirds_of_its_life_are_over(authority: Authority) -> None:
    pem = authority.issue_client(Subject("joe")).certificate
    end = x509.load_pem_x509_certificate(pem).not_valid_after_utc
    assert is_fresh(pem, NOW)
    assert is_fresh(pem, end - timedelta(days=366))
    assert not is_fresh(pem, end - timedelta(days=364))


def test_a_server_certificate_is_renewed_when_it_must_be_and_not_before(tmp_path: Path) -> None:
    pki = BoxPki(tmp_path)
    assert pki.renew_server(["localhost"], NOW)
    assert not pki.renew_server(["localhost"], NOW)
    assert pki.renew_server(["localhost", "box"], NOW)
    assert not pki.renew_server(["localhost"], NOW)
    assert pki.renew_server(["localhost"], NOW + timedelta(days=800))
    pki.key_file.write_bytes(pki.servers.issue_server("x", ["x"]).key)
    assert pki.renew_server(["localhost"], NOW)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pki.certificate_file, pki.key_file)


def test_the_three_authorities_trust_each_other_in_nothing(tmp_path: Path) -> None:
    pki = BoxPki(tmp_path)
    client = pki.clients.issue_client(Subject("joe")).certificate
    assert not pki.servers.has_issued(client)
    assert not pki.front_proxy.has_issued(client)


def test_the_server_is_known_by_the_names_that_clients_use() -> None:
    names = names_of_server("192.0.2.7", ["box"])
    assert {"127.0.0.1", "::1", "localhost", "192.0.2.7", "box", "kubernetes.default.svc"} <= set(names)
    everywhere = names_of_server("0.0.0.0", [""])
    assert "127.0.0.1" in everywhere
    assert "0.0.0.0" not in everywhere
    assert "" not in everywhere


def test_a_secret_file_is_never_half_there(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    write_durably(path, b"one")
    path.chmod(0o644)
    write_durably(path, b"two")
    assert path.read_bytes() == b"two"
    assert path.stat().st_mode & 0o777 == 0o600
    assert [item.name for item in tmp_path.iterdir()] == ["secret"]


def test_a_kubeconfig_holds_everything_and_is_for_its_owner_alone(authority: Authority, tmp_path: Path) -> None:
    path = tmp_path / "deep" / "kubeconfig"
    write_kubeconfig(path, "https://127.0.0.1:6443", b"server-ca", authority, Subject("joe", ("g",)))
    assert path.stat().st_mode & 0o777 == 0o600
    document = yaml.safe_load(path.read_text())
    assert document["current-context"] == "kvedge"
    cluster = document["clusters"][0]["cluster"]
    assert cluster["server"] == "https://127.0.0.1:6443"
    assert base64.b64decode(cluster["certificate-authority-data"]) == b"server-ca"
    user = document["users"][0]["user"]
    assert subject_of(base64.b64decode(user["client-certificate-data"])) == Subject("joe", ("g",))


def test_a_kubeconfig_keeps_its_certificate_while_that_is_good(authority: Authority, tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"

    def written(server: str, subject: Subject, clients: Authority = authority) -> str:
        write_kubeconfig(path, server, b"ca", clients, subject)
        user = yaml.safe_load(path.read_text())["users"][0]["user"]
        return str(user["client-certificate-data"])

    first = written("https://a", Subject("joe"))
    assert written("https://b", Subject("joe")) == first
    assert written("https://b", Subject("joe", ("more",))) != first
    second = written("https://b", Subject("joe"))
    assert written("https://b", Subject("joe"), Authority(tmp_path / "other", "client-ca")) != second
    path.write_text("not: [a, kubeconfig")
    assert written("https://b", Subject("joe"))

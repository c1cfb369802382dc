"""A client's certificate ends under it, on both servers: it says so, and goes on by itself once the file is renewed."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import yaml
from cryptography import x509

from kvedge.kube import informer
from kvedge.kube.errors import KubeError, Unauthenticated
from kvedge.kube.kube_client import KubeClient
from kvedge.resources.meta import ObjectMeta
from kvedge.resources.types.core import ConfigMap
from kvedge.runtime.tls.certificate_requests import new_request
from tests.contract.kube.test_informers import watched
from tests.support.either_server import EitherServer
from tests.support.kube_apiserver import RealApiServer
from tests.support.waiting import wait_until

USER, GROUP = "kvedge:api", "system:masters"
SHORT, LONG = timedelta(seconds=10), timedelta(hours=1)
LIVE = "kvedge.kube.live_connection"


def a_map(namespace: str, name: str) -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta(name=name, namespace=namespace), data={"v": name})


def certified(server: EitherServer, life: timedelta) -> bytes:
    """A new certificate with its key, as a kubelet keeps them: in one file."""
    made = new_request(USER, [GROUP])
    if isinstance(server.server, RealApiServer):
        return server.server.authority.certify(made.request, life) + made.key
    return server.server.pki.clients.sign_client(x509.load_pem_x509_csr(made.request), life) + made.key


def cluster_of(server: EitherServer) -> dict[str, str]:
    return dict(yaml.safe_load(server.kubeconfig.read_text())["clusters"][0]["cluster"])


@dataclass
class Renewed:
    """A kubeconfig that names `kubelet-client-current.pem`, a link that is pointed at another file at each renewal."""

    server: EitherServer
    directory: Path
    number: int = 0

    @property
    def link(self) -> Path:
        return self.directory / "kubelet-client-current.pem"

    def renew(self, life: timedelta) -> None:
        self.number += 1
        path = self.directory / f"kubelet-client-{self.number}.pem"
        path.write_bytes(certified(self.server, life))
        staged = self.directory / "updated"
        staged.symlink_to(path.name)
        staged.replace(self.link)

    def kubeconfig(self) -> Path:
        user = {"client-certificate": self.link.name, "client-key": self.link.name}
        document = {
            "current-context": "c",
            "clusters": [{"name": "c", "cluster": cluster_of(self.server)}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "users": [{"name": "u", "user": user}],
        }
        path = self.directory / "kubelet.conf"
        path.write_text(yaml.safe_dump(document))
        return path


@pytest.fixture
def renewed(either_server: EitherServer, tmp_path: Path) -> Renewed:
    found = Renewed(either_server, tmp_path)
    found.renew(SHORT)
    return found


@pytest.fixture
def client(renewed: Renewed) -> Iterator[KubeClient]:
    found = KubeClient.from_kubeconfig(renewed.kubeconfig())
    yield found
    found.close()


def has_ended(client: KubeClient, namespace: str) -> str:
    """What the client says of its certificate, once that has ended."""
    try:
        client.list(ConfigMap, namespace)
    except Unauthenticated as error:
        return str(error)
    return ""


def test_a_certificate_that_has_ended_is_told_by_user_file_end_and_remedy_and_logged_once(
    renewed: Renewed, client: KubeClient, namespace: str, caplog: pytest.LogCaptureFixture
) -> None:
    said = wait_until(lambda: has_ended(client, namespace), "the certificate has ended")
    ended = f"the certificate of {USER} in {renewed.link} ended {datetime.now(UTC):%Y-%m-%d}"
    assert ended in said
    assert "kvedge user renew" in said
    for _ in range(3):
        with pytest.raises(Unauthenticated, match="kvedge user renew"):
            client.create(a_map(namespace, "refused"))
    assert len([record for record in caplog.records if record.name == LIVE]) == 1


def test_one_that_had_ended_before_the_client_began_is_told_too_and_followed(renewed: Renewed, namespace: str) -> None:
    renewed.renew(-LONG)
    client = KubeClient.from_kubeconfig(renewed.kubeconfig())
    with pytest.raises(Unauthenticated, match="kvedge user renew"):
        client.create(a_map(namespace, "one"))
    renewed.renew(LONG)
    client.create(a_map(namespace, "one"))
    client.close()


def test_once_the_link_points_at_a_new_certificate_the_very_next_call_works_and_writes_once(
    renewed: Renewed, client: KubeClient, namespace: str
) -> None:
    wait_until(lambda: has_ended(client, namespace), "the certificate has ended")
    renewed.renew(LONG)
    made = client.create(a_map(namespace, "one"))
    assert client.get(ConfigMap, namespace, "one").metadata.uid == made.metadata.uid


def test_a_new_certificate_is_taken_before_the_old_one_ends(
    renewed: Renewed, client: KubeClient, namespace: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, LIVE)
    renewed.renew(LONG)

    def taken() -> bool:
        client.list(ConfigMap, namespace)
        return any(record.name == LIVE for record in caplog.records)

    wait_until(taken, "the new one is in use")
    assert [record.message for record in caplog.records if record.name == LIVE] == ["new credentials are in use"]


def test_a_half_written_file_changes_nothing_and_is_told(
    renewed: Renewed, namespace: str, caplog: pytest.LogCaptureFixture
) -> None:
    renewed.renew(LONG)
    client = KubeClient.from_kubeconfig(renewed.kubeconfig())
    whole = renewed.link.resolve().read_bytes()
    renewed.link.resolve().write_bytes(whole[: len(whole) // 2])

    def told() -> list[str]:
        client.list(ConfigMap, namespace)
        return [record.facts["reason"] for record in caplog.records if record.name == LIVE]  # type: ignore[attr-defined]

    assert str(renewed.link) in wait_until(told, "the file cannot be used")[0]
    client.create(a_map(namespace, "meanwhile"))
    client.close()


@pytest.mark.timeout(120)
def test_an_informer_goes_on_where_it_was_and_loses_nothing(
    renewed: Renewed,
    client: KubeClient,
    namespace: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    # The server ends watches soon, so that new ones begin while there is no good certificate.
    monkeypatch.setattr(informer, "_WATCH_SECONDS", (2, 2))
    admin = renewed.server.admin
    admin.create(a_map(namespace, "before"))
    renewed.renew(SHORT)
    with watched(client, namespace) as (found, told):
        wait_until(lambda: has_ended(client, namespace), "the certificate has ended")
        wait_until(lambda: "kvedge user renew" in found.trouble, "the informer is refused")
        admin.create(a_map(namespace, "during"))
        warned = [record for record in caplog.records if record.name == informer.__name__]
        assert len(warned) == 1
        renewed.renew(LONG)
        wait_until(lambda: (None, "during") in told, "what happened meanwhile is told", 40)
        admin.create(a_map(namespace, "after"))
        wait_until(lambda: (None, "after") in told, "what happens now is told")
        assert found.trouble == ""
    assert [pair for pair in told if pair != (None, "")] == [(None, "before"), (None, "during"), (None, "after")]


def test_a_kubeconfig_that_is_replaced_as_a_whole_is_followed(either_server: EitherServer, tmp_path: Path) -> None:
    path = tmp_path / "api"
    path.write_bytes(either_server.kubeconfig_of("nobody").read_bytes())
    client = KubeClient.from_kubeconfig(path)
    with pytest.raises(KubeError):
        client.list(ConfigMap)
    (tmp_path / "new").write_bytes(either_server.kubeconfig.read_bytes())
    (tmp_path / "new").replace(path)

    def may() -> bool:
        try:
            return bool(client.list(ConfigMap))
        except KubeError:
            return False

    wait_until(may, "the administrator's is in use")
    client.close()

"""Credentials in files are exchanged under a running client, on a clock of the test's."""

from __future__ import annotations

import json
import logging
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from kvedge.kube.credentials.connection_settings import from_document, from_kubeconfig, from_service_account
from kvedge.kube.live_connection import LOOK_SECONDS, LiveConnection
from kvedge.runtime.clock import rfc3339
from kvedge.runtime.tls.certificates import CertificateAuthority, LeafRequest
from tests.support.clocks import FakeClock

NOW = datetime.now(UTC)
AUTHORITY = CertificateAuthority.create("cluster", NOW)


class Files:
    """A kubeconfig with certificate, key and authority in files, as k3s writes it for its kubelet."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.kubeconfig = directory / "kubelet.kubeconfig"
        self.renew()
        (directory / "ca.crt").write_bytes(AUTHORITY.certificate_pem)
        self.write()

    def renew(self, life: timedelta = timedelta(days=1)) -> None:
        leaf = AUTHORITY.issue(LeafRequest("system:node:n1", life=life), NOW)
        (self.directory / "client.crt").write_bytes(leaf.certificate)
        (self.directory / "client.key").write_bytes(leaf.key)

    def write(self, server: str = "https://127.0.0.1:6443", **user: Any) -> None:
        user = user or {"client-certificate": "client.crt", "client-key": "client.key"}
        cluster = {"server": server, "certificate-authority": "ca.crt"}
        document = {
            "current-context": "here",
            "clusters": [{"name": "c", "cluster": cluster}],
            "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
            "users": [{"name": "u", "user": user}],
        }
        self.kubeconfig.write_text(yaml.safe_dump(document))


class Live:
    """What is tested, and its clock."""

    def __init__(self, files: Files) -> None:
        self.clock = FakeClock()
        self.live = LiveConnection(from_kubeconfig(files.kubeconfig), self.clock.monotonic)

    def later(self) -> Any:
        self.clock.seconds += LOOK_SECONDS
        return self.live.current()


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


@pytest.fixture
def live(files: Files) -> Live:
    return Live(files)


def test_while_no_file_changes_the_same_sockets_stay(live: Live) -> None:
    first = live.live.current()
    assert live.later() is first
    assert live.live.newer_than(first) is None


def test_a_renewed_certificate_is_used_after_a_few_seconds(files: Files, live: Live) -> None:
    first = live.live.current()
    files.renew()
    assert live.live.current() is first
    second = live.later()
    assert second is not first
    assert second.connection.certificate.pem == (files.directory / "client.crt").read_bytes()
    assert second.sockets.connection_pool_kw["ssl_context"] is second.connection.tls


def test_after_a_refusal_it_is_used_at_once_and_by_all_threads(files: Files, live: Live) -> None:
    first = live.live.current()
    files.renew()
    newer = live.live.newer_than(first)
    assert newer is not None
    assert newer is not first
    # Whoever was refused with the same ones finds them exchanged already.
    assert live.live.newer_than(first) is newer
    assert live.live.newer_than(newer) is None


def test_idle_sockets_with_the_old_ones_are_closed(files: Files, live: Live) -> None:
    first = live.live.current()
    pool = first.sockets.connection_from_url(first.host)
    files.renew()
    live.later()
    assert pool.pool is None
    assert len(first.sockets.pools) == 0


@pytest.mark.parametrize("name", ["client.key", "client.crt", "ca.crt", "kubelet.kubeconfig"])
@pytest.mark.parametrize(
    "broken",
    [b"", b"half of", b"\xff\xfe\x00\xd8", b"a: 2001-99-99", None],
    ids=["empty", "cut off", "bytes", "date", "gone"],
)
def test_a_file_that_cannot_be_used_keeps_the_old_ones_is_told_once_and_taken_when_mended(
    files: Files, live: Live, caplog: pytest.LogCaptureFixture, name: str, broken: bytes | None
) -> None:
    caplog.set_level(logging.INFO, "kvedge.kube.live_connection")
    first, path = live.live.current(), files.directory / name
    good = path.read_bytes()
    if broken is None:
        path.unlink()
    else:
        path.write_bytes(broken)
    assert live.later() is first
    assert live.live.newer_than(first) is None
    assert live.later() is first
    (told,) = caplog.records
    assert told.message == "new credentials cannot be used, those before stay"
    assert str(path) in told.facts["reason"]  # type: ignore[attr-defined]
    path.write_bytes(good)
    assert live.later() is not first
    assert [record.message for record in caplog.records[1:]] == ["new credentials are in use"]


def test_a_file_that_is_not_needed_any_more_may_go_with_the_change(files: Files, live: Live) -> None:
    leaf = AUTHORITY.issue(LeafRequest("system:node:n1", life=timedelta(days=2)), NOW)
    (files.directory / "new.crt").write_bytes(leaf.certificate)
    (files.directory / "new.key").write_bytes(leaf.key)
    files.write(**{"client-certificate": "new.crt", "client-key": "new.key"})
    (files.directory / "client.crt").unlink()
    (files.directory / "client.key").unlink()
    assert live.later().connection.certificate.pem == leaf.certificate


def test_what_other_users_of_a_kubeconfig_show_may_be_gone(files: Files) -> None:
    document = yaml.safe_load(files.kubeconfig.read_text())
    document["users"].append({"name": "somebody", "user": {"client-certificate": "other.crt"}})
    files.kubeconfig.write_text(yaml.safe_dump(document))
    (files.directory / "other.crt").write_text("a certificate")
    live = Live(files)
    (files.directory / "other.crt").unlink()
    files.renew()
    assert live.later().connection.certificate.pem == (files.directory / "client.crt").read_bytes()


def test_between_a_new_certificate_and_its_key_the_old_pair_stays(files: Files, live: Live) -> None:
    first, key = live.live.current(), files.directory / "client.key"
    old = key.read_bytes()
    files.renew()
    new = key.read_bytes()
    key.write_bytes(old)
    assert live.later() is first
    key.write_bytes(new)
    assert live.later() is not first


def test_address_and_token_are_followed_too(files: Files) -> None:
    (files.directory / "token").write_text("first")
    files.write(tokenFile="token")
    live = Live(files)

    def shown(pooled: Any) -> tuple[str, str]:
        return pooled.host, pooled.connection.authorization()

    assert shown(live.live.current()) == ("https://127.0.0.1:6443", "Bearer first")
    (files.directory / "token").write_text("second")
    assert shown(live.later()) == ("https://127.0.0.1:6443", "Bearer second")
    files.write("https://127.0.0.1:7443", tokenFile="token")
    assert shown(live.later()) == ("https://127.0.0.1:7443", "Bearer second")


def test_the_authority_of_a_pods_account_is_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    for number in (1, 2):
        # As a kubelet lays it out: a link to a directory, which is replaced as a whole.
        version = tmp_path / f"..{number}"
        version.mkdir()
        (version / "ca.crt").write_bytes(CertificateAuthority.create(f"ca-{number}", NOW).certificate_pem)
        (version / "token").write_text("t")
    (tmp_path / "..data").symlink_to("..1")
    for name in ("ca.crt", "token"):
        (tmp_path / name).symlink_to(f"..data/{name}")
    clock = FakeClock()
    live = LiveConnection(from_service_account(tmp_path), clock.monotonic)
    (tmp_path / "new").symlink_to("..2")
    (tmp_path / "new").replace(tmp_path / "..data")
    clock.seconds += LOOK_SECONDS
    tls = live.current().connection.tls
    assert isinstance(tls, ssl.SSLContext)
    assert "ca-2" in str(tls.get_ca_certs()[0]["subject"])


def test_a_kubeconfig_that_was_put_together_is_not_followed(files: Files) -> None:
    document = yaml.safe_load(files.kubeconfig.read_text())
    clock = FakeClock()
    live = LiveConnection(from_document(document, files.kubeconfig), clock.monotonic)
    first = live.current()
    files.renew()
    clock.seconds += LOOK_SECONDS
    assert live.current() is first


def test_a_certificate_that_has_ended_is_logged_once(files: Files, caplog: pytest.LogCaptureFixture) -> None:
    files.renew(-timedelta(hours=1))
    live = Live(files).live
    first = live.find_complaint(live.current())
    assert first.startswith(f"the certificate of system:node:n1 in {files.directory}/client.crt ended ")
    assert live.find_complaint(live.current()) == first
    assert [record.message for record in caplog.records] == [first]


class PluginFiles(Files):
    """A kubeconfig whose user is a program that prints what lies beside it, and counts how often it ran."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        program = directory / "plugin"
        program.write_text(f"#!/bin/sh\ncd {directory}\necho run >>runs\n[ ! -e fails ] || exit 3\ncat answer\n")
        program.chmod(0o700)
        entry = {"apiVersion": "client.authentication.k8s.io/v1", "command": "./plugin", "interactiveMode": "Never"}
        self.write(exec=entry)

    def gives(self, life: timedelta, **told: str) -> bytes:
        leaf = AUTHORITY.issue(LeafRequest("somebody", life=life), NOW)
        status = {"clientCertificateData": leaf.certificate.decode(), "clientKeyData": leaf.key.decode(), **told}
        document = {
            "apiVersion": "client.authentication.k8s.io/v1",
            "kind": "ExecCredential",
            "status": status,
        }
        (self.directory / "answer").write_text(json.dumps(document))
        return leaf.certificate

    @property
    def runs(self) -> int:
        return len((self.directory / "runs").read_text().split())


class Day:
    """A connection by a plugin, and a clock that goes on by hours."""

    def __init__(self, files: PluginFiles) -> None:
        self.clock = FakeClock()
        self.now = NOW
        self.live = LiveConnection(from_kubeconfig(files.kubeconfig), self.clock.monotonic, lambda: self.now)

    def after(self, **time: float) -> Any:
        self.clock.seconds += timedelta(**time).total_seconds()
        self.now += timedelta(**time)
        return self.live.current()


@pytest.mark.parametrize("ends", ["by the certificate", "by the plugin's word"])
def test_a_plugin_is_asked_for_its_next_certificate_before_the_one_in_use_ends(tmp_path: Path, ends: str) -> None:
    files = PluginFiles(tmp_path)
    told = {} if ends == "by the certificate" else {"expirationTimestamp": rfc3339(NOW + timedelta(hours=2))}
    files.gives(timedelta(hours=48 if told else 2), **told)
    day = Day(files)
    first = day.after(hours=1)
    assert files.runs == 1
    second = files.gives(timedelta(hours=12))
    made = day.after(minutes=59.5)
    assert (made.connection.certificate.pem, files.runs) == (second, 2)
    assert made is not first
    assert (day.after(hours=1), files.runs) == (made, 2)


def test_a_plugin_that_fails_leaves_the_certificate_and_is_tried_again_after_a_pause(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    files = PluginFiles(tmp_path)
    files.gives(timedelta(hours=2))
    day = Day(files)
    first = day.live.current()
    (tmp_path / "fails").touch()
    assert (day.after(hours=3), files.runs) == (first, 2)
    assert (day.after(seconds=LOOK_SECONDS), files.runs) == (first, 2)
    assert (day.after(seconds=LOOK_SECONDS), files.runs) == (first, 3)
    assert [record.message for record in caplog.records] == ["new credentials cannot be used, those before stay"]
    (tmp_path / "fails").unlink()
    assert day.after(seconds=2 * LOOK_SECONDS) is not first


def test_a_plugin_is_asked_at_once_when_the_server_refuses_but_not_at_each_call(tmp_path: Path) -> None:
    files = PluginFiles(tmp_path)
    files.gives(timedelta(hours=2))
    day = Day(files)
    first = day.after(minutes=1)
    files.gives(timedelta(hours=2))
    second = day.live.newer_than(first)
    assert second is not None
    assert (day.live.newer_than(second), files.runs) == (None, 2)

"""The certificates of one box, whose lives are seconds here: its roles are served on while all of them are renewed."""

from __future__ import annotations

import logging
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from kvedge.kube.kube_client import KubeClient
from kvedge.resources.types.core import ConfigMap
from kvedge.standalone.apiserver import api_server
from kvedge.standalone.apiserver.access import pki
from kvedge.standalone.apiserver.api_server import ApiServerConfig, EmbeddedApi
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.contract, pytest.mark.timeout(120)]
LIFE = timedelta(seconds=15)


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pki, "_LEAF_LIFE", LIFE)
    monkeypatch.setattr(api_server, "_DAY_SECONDS", 0.5)
    monkeypatch.setattr(api_server, "_HOUR_SECONDS", 0.5)


@pytest.mark.usefixtures("hurried")
def test_a_client_of_a_box_is_served_for_longer_than_any_certificate_lives_also_after_a_full_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    server = EmbeddedApi(ApiServerConfig(tmp_path, port=0, node_name="box"))
    server.start()
    path = tmp_path / "kubeconfig"
    server.write_kubeconfig(path, "admin", ["system:masters"])
    first, begun = path.read_bytes(), datetime.now(UTC)
    write = EmbeddedApi._write_kubeconfig

    def full(self: EmbeddedApi, path: Path) -> None:
        monkeypatch.setattr(EmbeddedApi, "_write_kubeconfig", write)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(EmbeddedApi, "_write_kubeconfig", full)
    client = KubeClient.from_kubeconfig(path)

    def outlived() -> bool:
        client.list(ConfigMap)
        # A connection of its own for each call: every certificate is looked at.
        client.close()
        return datetime.now(UTC) - begun > 2 * LIFE

    try:
        wait_until(outlived, "two lives are over", 90, 0.3)
        assert path.read_bytes() != first
        assert [record for record in caplog.records if "to be tried again in an hour" in record.message]
    finally:
        client.close()
        server.stop()


def test_a_new_certificate_that_could_not_be_taken_up_at_once_is_taken_up_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    monkeypatch.setattr(api_server, "_DAY_SECONDS", 0.2)
    monkeypatch.setattr(api_server, "_HOUR_SECONDS", 0.2)
    server = EmbeddedApi(ApiServerConfig(tmp_path, port=0, node_name="box"))
    server.start()
    load, place = ssl.SSLContext.load_cert_chain, urlsplit(server.address)

    def out_of_files(self: ssl.SSLContext, *files: Any) -> None:
        # Servers and clients of other tests live on in this process.
        if not str(files[0]).startswith(str(tmp_path)):
            return load(self, *files)
        monkeypatch.setattr(ssl.SSLContext, "load_cert_chain", load)
        raise OSError(24, "Too many open files")

    def told() -> list[str]:
        return [each.message for each in caplog.records if "not renewed" in each.message]

    def is_shown() -> bool:
        shown = ssl.get_server_certificate((str(place.hostname), int(place.port or 0)))
        return file.exists() and shown.strip() == file.read_text().strip()

    file = server.pki.certificate_file
    try:
        first = file.read_text()
        monkeypatch.setattr(ssl.SSLContext, "load_cert_chain", out_of_files)
        file.unlink()
        wait_until(is_shown, "the new certificate is shown", 20, 0.1)
        assert file.read_text() != first
        assert "Too many open files" in told()[0]
        # What is no certificate at all is put aside and told, and ends nothing.
        file.write_text("none")
        wait_until(lambda: any(f"{file} is damaged" in each.message for each in caplog.records), "it is told", 20, 0.1)
        wait_until(is_shown, "the next certificate is shown", 20, 0.1)
        assert file.read_text() != "none"
    finally:
        server.stop()


def test_a_kubeconfig_that_is_as_it_should_be_is_not_written_again(tmp_path: Path) -> None:
    server = EmbeddedApi(ApiServerConfig(tmp_path, port=0, node_name="box"))
    server.start()
    path = tmp_path / "kubeconfig"
    try:
        server.write_kubeconfig(path, "admin", ["system:masters"])
        inode = path.stat().st_ino
        server.write_kubeconfig(path, "admin", ["system:masters"])
        assert path.stat().st_ino == inode
        path.chmod(0o644)
        server.write_kubeconfig(path, "admin", ["system:masters"])
        assert path.stat().st_mode & 0o777 == 0o600
    finally:
        server.stop()

# Tests: kvedge/standalone/agent/pod/place/volume_files.py
"""Volumes that are made of other objects: projected ones, a service account's token among them."""

from __future__ import annotations

import base64
import os
from pathlib import Path
from typing import Any

import pytest

from kvedge.resources.codec import JsonObject, decode
from kvedge.resources.types.core import ConfigMap, Pod, Secret
from kvedge.standalone.agent.container.container_files import PodFiles
from kvedge.standalone.agent.pod.place import pod_volumes
from kvedge.standalone.agent.pod.place.pod_volumes import set_up_volumes, tear_down_volumes
from kvedge.standalone.agent.pod.place.volume_files import VolumeError


class FakeReader:
    """Has one object of each kind, and accounts that get tokens."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, str, int]] = []

    def token(self, pod: Pod, account: str, audience: str, seconds: int) -> str | None:
        self.asked.append((pod.metadata.namespace, account, audience, seconds))
        return "a.b.c" if account == "web" else None

    def secret(self, namespace: str, name: str) -> Secret | None:
        return Secret(data={"key": base64.b64encode(b"s").decode()}) if name == "s" else None

    def config_map(self, namespace: str, name: str) -> ConfigMap | None:
        return ConfigMap(data={"ca.crt": "CA", "other": "x"}) if name == "c" else None

    def claim(self, namespace: str, name: str) -> None:
        return None

    def persistent_volume(self, name: str) -> None:
        return None


@pytest.fixture(autouse=True)
def no_mounts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pod_volumes, "_mount_tmpfs", lambda path, options: path.mkdir(parents=True, exist_ok=True))


def made(tmp_path: Path, reader: FakeReader, *sources: JsonObject, account: str = "web") -> dict[str, str]:
    """The files of a projected volume."""
    volume: dict[str, Any] = {"name": "v", "projected": {"sources": list(sources)}}
    pod = decode(
        Pod,
        {
            "metadata": {"name": "p", "namespace": "n", "uid": "u"},
            "spec": {"serviceAccountName": account, "volumes": [volume]},
        },
    )
    found = set_up_volumes(pod, PodFiles(tmp_path), {}, reader)
    place = Path(found["v"])
    return {path.name: path.read_text() for path in place.iterdir() if not path.name.startswith("..")}


def test_a_projected_volume_has_the_files_of_all_its_sources(tmp_path: Path) -> None:
    found = made(
        tmp_path,
        FakeReader(),
        {"serviceAccountToken": {"path": "token", "expirationSeconds": 1200}},
        {"configMap": {"name": "c", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"secret": {"name": "s"}},
        {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": {"fieldPath": "metadata.namespace"}}]}},
    )
    assert found == {"token": "a.b.c", "ca.crt": "CA", "key": "s", "namespace": "n"}


@pytest.mark.parametrize(
    ("wanted", "asked"),
    [
        ({"expirationSeconds": 1200}, ("n", "web", "", 1200)),
        ({}, ("n", "web", "", 3600)),
        ({"expirationSeconds": 3607}, ("n", "web", "", 365 * 24 * 3600)),
        ({"expirationSeconds": 3607, "audience": "vault"}, ("n", "web", "vault", 3607)),
    ],
    ids=["as asked", "an hour", "a year, as Kubernetes stretches it", "not for another audience"],
)
def test_a_token_lasts_as_long_as_kubernetes_makes_it(
    tmp_path: Path, wanted: JsonObject, asked: tuple[str, str, str, int]
) -> None:
    reader = FakeReader()
    made(tmp_path, reader, {"serviceAccountToken": {"path": "token", **wanted}})
    assert reader.asked == [asked]


@pytest.mark.parametrize(
    ("source", "account", "words"),
    [
        ({"serviceAccountToken": {"path": "t"}}, "", 'serviceaccounts "default" not found'),
        ({"configMap": {"name": "none"}}, "web", 'configmap "none" not found'),
        ({"clusterTrustBundle": {"path": "x"}}, "web", "does not project clusterTrustBundle"),
        ({"downwardAPI": {"items": [{"path": "x", "fieldRef": {"fieldPath": "spec.x"}}]}}, "web", "fieldPath spec.x"),
    ],
    ids=["account", "object", "source", "field"],
)
def test_what_cannot_be_projected_is_named(tmp_path: Path, source: JsonObject, account: str, words: str) -> None:
    with pytest.raises(VolumeError, match=words):
        made(tmp_path, FakeReader(), source, account=account)


def test_the_device_of_a_block_claim_is_linked_in_the_pod_s_directory_and_goes_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pod_volumes, "claim_path", lambda pod, wanted, reader: "/dev/loop7")
    monkeypatch.setattr(pod_volumes, "is_device", lambda path: True)
    spec = {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]}
    pod = decode(Pod, {"metadata": {"name": "p", "namespace": "n", "uid": "u"}, "spec": spec})
    files = PodFiles(tmp_path)
    for _ in range(2):
        assert set_up_volumes(pod, files, {}, FakeReader()) == {"v": "/dev/loop7"}
    assert os.readlink(tmp_path / "volumeDevices" / "kubernetes.io~local-volume" / "v") == "/dev/loop7"
    tear_down_volumes(files)
    assert not (tmp_path / "volumeDevices").exists()

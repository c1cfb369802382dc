"""Kubeconfigs of one user: what is written is read, and what is otherwise is somebody else's."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvedge.kube.kubeconfigs.kubeconfig_writer import kubeconfig_text, write_kubeconfig
from kvedge.kube.kubeconfigs.own_kubeconfig import (
    NotOursError,
    OwnKubeconfig,
    own_kubeconfig_manifest,
    read_own_kubeconfig,
    with_ca,
)

OWN = OwnKubeconfig("ann", b"certificate", b"key", with_ca({"server": "https://box:6443"}, b"ca"))


def test_what_is_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "ann.kubeconfig"
    write_kubeconfig(path, own_kubeconfig_manifest(OWN))
    assert path.stat().st_mode & 0o777 == 0o600
    assert read_own_kubeconfig(path.read_bytes()) == OWN


def test_a_namespace_is_written_when_there_is_one() -> None:
    shop = OwnKubeconfig("ann", b"", b"", {}, "shop")
    assert own_kubeconfig_manifest(shop)["contexts"][0]["context"]["namespace"] == "shop"
    assert "namespace" not in own_kubeconfig_manifest(OWN)["contexts"][0]["context"]


def test_a_key_that_is_elsewhere_is_empty() -> None:
    document = own_kubeconfig_manifest(OWN)
    del document["users"][0]["user"]["client-key-data"]
    assert read_own_kubeconfig(kubeconfig_text(document)).key == b""


def test_an_authority_that_was_beside_the_file_is_inside() -> None:
    assert with_ca({"server": "s", "certificate-authority": "/ca.crt"}, b"ca") == {
        "server": "s",
        "certificate-authority-data": "Y2E=",
    }


@pytest.mark.parametrize(
    "content",
    [
        b"a: [",
        b"[1]",
        b"users: [{name: u, user: {token: t}}]\nclusters: [{cluster: {}}]\n",
        b"users: []\nclusters: [{cluster: {}}]\n",
        b"users: [{name: u, user: {client-certificate-data: '*'}}]\nclusters: [{cluster: {}}, {cluster: {}}]\n",
    ],
    ids=["no YAML", "no document", "a token", "no user", "two clusters"],
)
def test_what_is_otherwise_is_somebody_elses(content: bytes) -> None:
    with pytest.raises(NotOursError):
        read_own_kubeconfig(content)

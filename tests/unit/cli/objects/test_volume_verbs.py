# Tests: kvedge/cli/objects/volume_verbs.py, kvedge/client/volumes/volume_calls.py
"""`kvedge volume`, with an API that is played: what is asked of the server, and what is said."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner, Result

from kvedge.cli.objects import volume_verbs
from kvedge.client.errors import UsageError
from kvedge.resources.codec import decode
from kvedge.resources.types.storage import PersistentVolume, PersistentVolumeClaim
from kvedge.resources.types.vm import VirtualMachine

CLAIM = {
    "metadata": {"name": "web-root", "namespace": "n"},
    "spec": {"volumeName": "pv1", "resources": {"requests": {"storage": "10Gi"}}},
    "status": {"phase": "Bound", "capacity": {"storage": "10Gi"}},
}
VM = {
    "metadata": {"name": "web", "namespace": "n"},
    "spec": {
        "template": {
            "spec": {"domain": {}, "volumes": [{"name": "r", "persistentVolumeClaim": {"claimName": "web-root"}}]}
        }
    },
}


class PlayedClient:
    """One claim, its volume, and a VM that has it; keeps what was asked of it."""

    def __init__(self, place: Path) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.vms = [decode(VirtualMachine, VM)]
        self.place = place

    def list(self, cls: type, namespace: str | None = None) -> list[Any]:
        del namespace
        if cls is PersistentVolumeClaim:
            return [decode(PersistentVolumeClaim, CLAIM)]
        if cls is PersistentVolume:
            spec = {"local": {"path": str(self.place)}}
            return [decode(PersistentVolume, {"metadata": {"name": "pv1"}, "spec": spec})]
        return self.vms if cls is VirtualMachine else []

    def get(self, cls: type, namespace: str, name: str) -> Any:
        del cls, namespace, name
        return decode(PersistentVolumeClaim, CLAIM)

    def patch(self, cls: type, namespace: str, name: str, patch: Any) -> None:
        del cls
        self.calls.append(("patch", namespace, name, patch.body))

    def delete(self, cls: type, namespace: str, name: str) -> None:
        del cls
        self.calls.append(("delete", namespace, name))

    def request(self, method: str, path: str, body: Any = None) -> None:
        self.calls.append((method, path, body))


@pytest.fixture
def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PlayedClient:
    played = PlayedClient(tmp_path)
    session = SimpleNamespace(client=played, namespace="n")
    monkeypatch.setattr(volume_verbs, "open_session", lambda kubeconfig, namespace: session)
    return played


def run(*arguments: str) -> Result:
    return CliRunner().invoke(volume_verbs.volume, list(arguments))


def test_the_list_names_the_vm_that_has_the_claim(client: PlayedClient) -> None:
    lines = run("list").output.splitlines()
    assert lines[0].split() == ["NAME", "STATUS", "SIZE", "CLASS", "MODE", "USED", "BY", "SNAPSHOTS", "AGE"]
    assert lines[1].split() == ["web-root", "Bound", "10Gi", "-", "-", "web", "-", "-"]


def test_a_name_that_is_not_there_is_told_with_the_nearest(client: PlayedClient) -> None:
    done = run("list", "web-rot")
    assert done.exit_code != 0
    assert "web-root" in str(done.exception or done.output)


def test_a_new_volume_is_a_claim(client: PlayedClient) -> None:
    assert run("create", "data", "20Gi", "--block", "--class", "fast").output == "volume data created\n"
    [(method, path, body)] = client.calls
    assert (method, path) == ("POST", "/api/v1/namespaces/n/persistentvolumeclaims")
    assert body["spec"] == {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "20Gi"}},
        "storageClassName": "fast",
        "volumeMode": "Block",
    }


def test_a_dry_run_prints_the_claim_and_makes_none(client: PlayedClient) -> None:
    assert "storage: 20Gi" in run("create", "data", "20Gi", "--dry-run").output
    assert client.calls == []


def test_a_volume_grows(client: PlayedClient) -> None:
    assert "grows to 20Gi" in run("resize", "web-root", "20Gi").output
    assert client.calls == [("patch", "n", "web-root", {"spec": {"resources": {"requests": {"storage": "20Gi"}}}})]


def test_the_size_that_it_has_is_no_change(client: PlayedClient) -> None:
    assert run("resize", "web-root", "10240Mi").output == "volume web-root has 10240Mi already\n"
    assert client.calls == []


@pytest.mark.parametrize(
    ("size", "words"),
    [("5Gi", "a volume only grows"), ("0", "must be greater than 0"), ("big", "is no quantity")],
    ids=["smaller", "nothing", "no size"],
)
def test_no_volume_is_cut(client: PlayedClient, size: str, words: str) -> None:
    failure = run("resize", "web-root", size).exception
    assert isinstance(failure, UsageError)
    assert words in failure.text
    assert client.calls == []


def test_a_volume_that_a_vm_has_is_kept(client: PlayedClient) -> None:
    done = run("delete", "web-root")
    assert done.exit_code != 0
    assert client.calls == []


@pytest.mark.parametrize("forced", [True, False], ids=["by force", "nobody has it"])
def test_a_volume_is_deleted(client: PlayedClient, forced: bool) -> None:
    if not forced:
        client.vms = []
    assert run("delete", "web-root", *(["--force"] if forced else [])).output == "volume web-root deleted\n"
    assert client.calls == [("delete", "n", "web-root")]


def test_usage_counts_what_lies_on_this_host(client: PlayedClient, tmp_path: Path) -> None:
    (tmp_path / "disk.img").write_bytes(b"x" * 65536)
    [item] = json.loads(run("usage", "-o", "json").output)
    assert item["usedBytes"] >= 65536
    assert item["path"] == str(tmp_path)

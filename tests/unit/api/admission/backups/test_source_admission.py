"""Who may have a VM's backup brought back in another namespace than it was in."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from kvedge.api.admission.backups.source_admission import BackupSourceAdmission
from kvedge.api.admission.judgement import Judgement
from kvedge.kube.errors import Unavailable
from kvedge.kube.kube_client import KubeClient
from kvedge.resources.codec import JsonObject
from kvedge.resources.role_users import CONTROLLER_GROUP
from tests.support.reviews import request


class Server:
    """Says of each question whether it is allowed, and keeps it."""

    def __init__(self, allowed: bool | None) -> None:
        self.allowed = allowed
        self.asked: list[JsonObject] = []

    def hurry(self, seconds: float) -> Server:
        return self

    def request(self, method: str, path: str, body: Any = None) -> JsonObject:
        if self.allowed is None:
            raise Unavailable(503, "ServiceUnavailable", "away")
        self.asked.append(body["spec"])
        return {"status": {"allowed": self.allowed}}


def answer(server: Server, kind: str = "BackupRestore", groups: list[str] | None = None, **spec: Any) -> JsonObject:
    admission = BackupSourceAdmission(cast("KubeClient", server), cast("Judgement", SimpleNamespace()))
    document = {
        "apiVersion": "backup.kvedge.io/v1alpha1",
        "kind": kind,
        "metadata": {"name": "x", "namespace": "default"},
        "spec": {"vmName": "web", "repositoryName": "usb", **spec},
    }
    found: JsonObject = admission._answer(request(document, None, groups=groups))["response"]
    return found


@pytest.mark.parametrize("kind", ["BackupRestore", "BackupTest"])
def test_a_vm_of_another_namespace_needs_the_right_to_restore_there(kind: str) -> None:
    server = Server(allowed=False)
    said = answer(server, kind, vmNamespace="shop")
    assert (said["allowed"], said["status"]["code"]) == (False, 403)
    assert "may not read the backups of VMs of namespace shop" in said["status"]["message"]
    assert said["status"]["details"]["causes"][0]["field"] == "spec.vmNamespace"
    [asked] = server.asked
    assert asked["user"] == "alice"
    assert asked["resourceAttributes"] == {
        "namespace": "shop",
        "verb": "create",
        "group": "backup.kvedge.io",
        "version": "v1alpha1",
        "resource": "backuprestores",
    }
    assert answer(Server(allowed=True), kind, vmNamespace="shop")["allowed"] is True


def test_one_of_its_own_namespace_and_the_controllers_ask_nobody() -> None:
    server = Server(allowed=False)
    for spec in ({}, {"vmNamespace": ""}, {"vmNamespace": "default"}, {"vmNamespace": 7}):
        assert answer(server, **spec)["allowed"] is True
    assert answer(server, groups=[CONTROLLER_GROUP], vmNamespace="shop")["allowed"] is True
    assert server.asked == []


def test_without_an_answer_nothing_enters() -> None:
    said = answer(Server(allowed=None), vmNamespace="shop")
    assert (said["allowed"], said["status"]["code"]) == (False, 500)

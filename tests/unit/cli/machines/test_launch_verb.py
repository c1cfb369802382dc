"""`kvedge launch --disk`: what is looked at before anything is made."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner, Result

from kvedge.cli.machines import launch_verb
from kvedge.client.errors import ClientError
from kvedge.kube.errors import AlreadyExists, Forbidden, NotFound

DV = "/apis/cdi.kubevirt.io/v1beta1/namespaces/ns/datavolumes/web-disk"
CLAIM = "/api/v1/namespaces/ns/persistentvolumeclaims/web-disk"
VM = "/apis/kubevirt.io/v1/namespaces/ns/virtualmachines/web"


class PlayedServer:
    """Has these objects by their paths, or refuses to tell of them; keeps what is sent."""

    def __init__(self) -> None:
        self.there: dict[str, Any] = {"/apis/cdi.kubevirt.io/v1beta1": {}}
        self.made: list[dict[str, Any]] = []

    def request(self, method: str, path: str, body: Any = None, query: Any = None) -> Any:
        if method == "POST":
            if f"{path}/{body['metadata']['name']}" in self.there:
                raise AlreadyExists(409, "AlreadyExists", "VM web already exists")
            self.made.append(body)
            return body
        found = self.there.get(path)
        if found is None:
            raise NotFound(404, "NotFound", "no such thing")
        if isinstance(found, Exception):
            raise found
        return found


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> PlayedServer:
    played = PlayedServer()
    session = SimpleNamespace(client=played, namespace="ns")
    monkeypatch.setattr(launch_verb, "open_session", lambda kubeconfig, namespace: session)
    return played


def launched(*options: str) -> Result:
    return CliRunner().invoke(launch_verb.launch, ["local/a:1", "web", *(options or ("--disk", "1Gi"))])


def test_a_new_disk_is_made_and_takes_over_nothing(server: PlayedServer) -> None:
    assert launched().exit_code == 0
    (template,) = server.made[0]["spec"]["dataVolumeTemplates"]
    assert template["metadata"]["annotations"] == {"cdi.kubevirt.io/allowClaimAdoption": "false"}


@pytest.mark.parametrize(
    ("path", "words", "remedy"),
    [
        (CLAIM, "PersistentVolumeClaim web-disk is there already", "`kvedge delete pvc web-disk` first"),
        (DV, "DataVolume web-disk is there already", "`kvedge delete dv web-disk` first"),
    ],
    ids=["a claim", "a DataVolume"],
)
def test_the_disk_of_somebody_else_is_not_taken(server: PlayedServer, path: str, words: str, remedy: str) -> None:
    server.there[path] = {"metadata": {"name": "web-disk"}}
    done = launched()
    assert isinstance(done.exception, ClientError)
    assert words in str(done.exception)
    assert remedy in str(done.exception)
    assert "choose another name" in str(done.exception)
    assert server.made == []
    assert launched("--memory", "1Gi").exit_code == 0, "a VM without such a disk has nothing to do with it"


def test_a_disk_that_still_goes_is_waited_for(server: PlayedServer) -> None:
    server.there[CLAIM] = {"metadata": {"name": "web-disk", "deletionTimestamp": "2026-01-01T00:00:00Z"}}
    assert "still being deleted: try again" in str(launched().exception)
    assert server.made == []


def test_a_vm_that_is_there_is_told_rather_than_its_own_disk(server: PlayedServer) -> None:
    server.there |= {path: {"metadata": {}} for path in (VM, DV, CLAIM)}
    assert "start it with `kvedge start web`" in str(launched().exception)


def test_who_may_not_read_claims_can_launch(server: PlayedServer) -> None:
    server.there[CLAIM] = Forbidden(403, "Forbidden", "no")
    assert launched().exit_code == 0

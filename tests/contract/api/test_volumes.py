"""addvolume and removevolume of an unmodified virtctl, and of kvedge, against both servers."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest

from kvedge.kube.errors import AlreadyExists
from kvedge.kube.kube_client import KubeClient
from tests.contract.api.conftest import remove
from tests.support.api_servers import ApiServerUnderTest, Kubectl
from tests.support.builders import small_vmi, vm_of
from tests.support.edits import edit
from tests.support.kvedge_cli import KvedgeCli

pytestmark = [pytest.mark.contract, pytest.mark.usefixtures("subresources_answer")]
VM = "/apis/kubevirt.io/v1/namespaces/default/virtualmachines/plugged"
CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"


@pytest.fixture
def template(admin: KubeClient) -> Iterator[Any]:
    """What the VM's template has now: names of its volumes, and its disks."""
    document = vm_of(small_vmi(), runStrategy="Manual")
    document["metadata"]["name"] = "plugged"
    admin.request("POST", VM.rpartition("/")[0], document)
    size = {"requests": {"storage": "1Gi"}}
    spec = {"accessModes": ["ReadWriteOnce"], "resources": size, "storageClassName": ""}
    body = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "plug-me"}, "spec": spec}
    # It stays: the protection of claims is nobody's to take away here.
    with contextlib.suppress(AlreadyExists):
        admin.request("POST", CLAIMS, body)

    def now() -> tuple[list[str], list[dict[str, Any]]]:
        found = admin.request("GET", VM)["spec"]["template"]["spec"]
        return [volume["name"] for volume in found["volumes"]], found["domain"]["devices"]["disks"]

    yield now
    remove(admin, VM)


ADD = ("addvolume", "plugged", "--volume-name=plug-me", "--serial=A1", "--cache=none")


def test_virtctl_adds_and_removes_a_volume(server: ApiServerUnderTest, template: Any) -> None:
    virtctl = Kubectl(server.write_kubeconfig("admin", ["system:masters"]), "virtctl")
    before = template()
    assert virtctl.try_run(*ADD, "--dry-run").returncode == 0
    assert template() == before
    assert "Successfully submitted add volume request" in virtctl.run(*ADD)
    names, disks = template()
    assert names == [*before[0], "plug-me"]
    assert disks[-1] == {"name": "plug-me", "serial": "A1", "cache": "none", "disk": {"bus": "scsi"}}
    again = virtctl.try_run(*ADD)
    assert again.returncode != 0
    assert "Unable to add volume [plug-me] because volume with that name already exists" in again.stderr
    assert virtctl.try_run("removevolume", "plugged", "--volume-name=plug-me").returncode == 0
    assert template() == before
    gone = virtctl.try_run("removevolume", "plugged", "--volume-name=plug-me")
    assert "Unable to remove volume [plug-me] because it does not exist" in gone.stderr


def test_kvedge_adds_and_removes_a_volume(server: ApiServerUnderTest, template: Any) -> None:
    cli = KvedgeCli(server.write_kubeconfig("admin", ["system:masters"]))
    before = template()
    assert cli.run(*ADD) == "Successfully submitted add volume request to VM plugged for volume plug-me\n"
    assert template()[0] == [*before[0], "plug-me"]
    cli.run("removevolume", "plugged", "--volume-name=plug-me")
    assert template() == before


# Servers store a few of these letters in another spelling than they were sent in.
USER_DATA = "#!/bin/sh\ncat <<END >/run/x && echo 'Grüße \u2028' | tee </dev/null\nEND\n"


def test_a_vm_whose_volumes_hold_any_text_takes_another_one(
    server: ApiServerUnderTest, admin: KubeClient, template: Any
) -> None:
    cli = KvedgeCli(server.write_kubeconfig("admin", ["system:masters"]))

    def with_seed(document: Any) -> None:
        spec = document["spec"]["template"]["spec"]
        spec["volumes"].append({"name": "seed", "cloudInitNoCloud": {"userData": USER_DATA}})
        spec["domain"]["devices"]["disks"].append({"name": "seed", "disk": {"bus": "virtio"}})

    edit(admin, VM, with_seed)
    before = template()
    cli.run(*ADD)
    assert template()[0] == [*before[0], "plug-me"]
    cli.run("removevolume", "plugged", "--volume-name=plug-me")
    assert template() == before

"""A VM comes out of a file at both servers: what they refuse is known before disks are sent, and nothing is left."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from kvedge.client.exports.new_file import write_file
from kvedge.client.vm_files.archive_manifest import ArchiveManifest, DiskEntry
from kvedge.client.vm_files.archive_writer import ArchiveWriter
from kvedge.kube.errors import NotFound
from kvedge.kube.kube_client import KubeClient
from kvedge.resources.codec import JsonObject
from tests.contract.api.conftest import remove
from tests.support.api_servers import ApiServerUnderTest
from tests.support.builders import small_vmi, vm_of
from tests.support.kvedge_cli import KvedgeCli

pytestmark = [pytest.mark.contract, pytest.mark.usefixtures("subresources_answer")]
VMS = "/apis/kubevirt.io/v1/namespaces/default/virtualmachines"
DVS = "/apis/cdi.kubevirt.io/v1beta1/namespaces/default/datavolumes"
SECRETS = "/api/v1/namespaces/default/secrets"
KEYS: JsonObject = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "filed-keys"}, "data": {"a": "eA=="}}


@pytest.fixture
def program(server: ApiServerUnderTest) -> KvedgeCli:
    return KvedgeCli(server.write_kubeconfig("admin", ["system:masters"]))


@pytest.fixture(autouse=True)
def nothing_before_and_after(admin: KubeClient) -> Iterator[None]:
    yield
    for path in (f"{VMS}/filed", f"{SECRETS}/filed-keys"):
        with contextlib.suppress(NotFound):
            remove(admin, path)


def vm_document() -> JsonObject:
    vm = {**vm_of(small_vmi(), runStrategy="Halted"), "metadata": {"name": "filed"}}
    spec = vm["spec"]["template"]["spec"]
    spec["domain"]["devices"]["disks"].append({"name": "keys", "disk": {"bus": "virtio"}})
    spec["volumes"].append({"name": "keys", "secret": {"secretName": "filed-keys"}})
    return vm


def file_of(path: Path, vm: JsonObject, *disks: DiskEntry) -> str:
    with write_file(path) as file:
        writer = ArchiveWriter(file, ArchiveManifest(vm=vm, objects=[KEYS], disks=list(disks)), path.parent)
        writer.finish()
        writer.close()
    return str(path)


def names(admin: KubeClient, path: str) -> list[str]:
    return [each["metadata"]["name"] for each in admin.request("GET", path)["items"]]


def test_a_vm_comes_out_of_a_file_once(program: KvedgeCli, admin: KubeClient, tmp_path: Path) -> None:
    path = file_of(tmp_path / "vm", vm_document())
    program.run("import", path)
    assert admin.request("GET", f"{VMS}/filed")["spec"]["runStrategy"] == "Halted"
    assert admin.request("GET", f"{SECRETS}/filed-keys")["data"] == {"a": "eA=="}
    done = program.try_run("import", path)
    assert done.returncode == 1
    assert "VirtualMachine filed in namespace default: there already" in done.stderr


def test_a_vm_that_the_server_refuses_makes_nothing(program: KvedgeCli, admin: KubeClient, tmp_path: Path) -> None:
    vm = vm_document()
    vm["spec"]["template"]["spec"]["domain"]["devices"]["disks"] = [{"name": "no-such-volume", "disk": {}}]
    done = program.try_run("import", file_of(tmp_path / "vm", vm))
    assert done.returncode == 1
    assert "no-such-volume" in done.stderr
    assert "filed-keys" not in names(admin, SECRETS)


def test_an_import_that_cannot_send_its_disks_leaves_nothing(
    program: KvedgeCli, admin: KubeClient, tmp_path: Path
) -> None:
    vm = vm_document()
    spec = vm["spec"]["template"]["spec"]
    spec["domain"]["devices"]["disks"].append({"name": "data", "disk": {"bus": "virtio"}})
    spec["volumes"].append({"name": "data", "dataVolume": {"name": "filed-data"}})
    disk = DiskEntry(volume="data", claim="filed-data", size=1 << 20)
    # No controller makes it ready here.
    done = program.try_run("import", file_of(tmp_path / "vm", vm, disk), "--timeout", "2")
    assert done.returncode == 1
    assert "filed-data did not become ready for the upload within 2 s" in done.stderr
    assert "filed-data" not in names(admin, DVS)
    assert "filed" not in names(admin, VMS)
    assert "filed-keys" not in names(admin, SECRETS)

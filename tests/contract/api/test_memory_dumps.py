"""`memory-dump get|remove` of an unmodified virtctl, and of kvedge, against both servers: the calls and their words."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest

from kvedge.kube.errors import AlreadyExists, Forbidden, KubeError
from kvedge.kube.kube_client import KubeClient
from kvedge.resources.codec import JsonObject
from tests.contract.api.conftest import remove
from tests.support.api_servers import ApiServerUnderTest, Kubectl
from tests.support.builders import small_vmi, vm_of
from tests.support.kvedge_cli import KvedgeCli

pytestmark = [pytest.mark.contract, pytest.mark.usefixtures("subresources_answer")]
VMS = "/apis/kubevirt.io/v1/namespaces/default/virtualmachines"
VMIS = "/apis/kubevirt.io/v1/namespaces/default/virtualmachineinstances"
CALL = "/apis/subresources.kubevirt.io/v1/namespaces/default/virtualmachines/dumped/memorydump"
CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
MERGE = "application/merge-patch+json"


@pytest.fixture
def virtctl(server: ApiServerUnderTest) -> Kubectl:
    return Kubectl(server.write_kubeconfig("admin", ["system:masters"]), "virtctl")


@pytest.fixture
def vm(admin: KubeClient) -> Iterator[JsonObject]:
    document = vm_of(small_vmi(), runStrategy="Manual")
    document["metadata"]["name"] = "dumped"
    made: JsonObject = admin.request("POST", VMS, document)
    yield made
    remove(admin, f"{VMS}/dumped")


@pytest.fixture
def running(admin: KubeClient, controller: KubeClient, vm: JsonObject) -> Iterator[JsonObject]:
    owner = {"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "name": "dumped", "controller": True}
    body = small_vmi()
    body["metadata"] = {"name": "dumped", "ownerReferences": [{**owner, "uid": vm["metadata"]["uid"]}]}
    body["spec"]["domain"]["memory"] = {"guest": "64Mi"}
    body["spec"]["domain"]["resources"] = {"requests": {"memory": "64Mi"}}
    controller.request("POST", VMIS, body)
    made: JsonObject = controller.request("PATCH", f"{VMIS}/dumped", {"status": {"phase": "Running"}}, None, MERGE)
    yield made
    remove(admin, f"{VMIS}/dumped")


def make_claim(admin: KubeClient, name: str, **spec: Any) -> None:
    body = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
            "storageClassName": "",
            **spec,
        },
    }
    # It stays: the protection of claims is nobody's to take away here.
    with contextlib.suppress(AlreadyExists):
        admin.request("POST", CLAIMS, body)


def request_of(admin: KubeClient) -> JsonObject | None:
    found: JsonObject | None = admin.request("GET", f"{VMS}/dumped").get("status", {}).get("memoryDumpRequest")
    return found


def progress(controller: KubeClient, **request: Any) -> None:
    body = {"status": {"memoryDumpRequest": request or None}}
    controller.request("PATCH", f"{VMS}/dumped/status", body, None, MERGE)


def test_virtctl_asks_for_a_dump_again_and_lets_the_claim_go(
    admin: KubeClient, controller: KubeClient, virtctl: Kubectl, running: JsonObject
) -> None:
    make_claim(admin, "dump-here")
    done = virtctl.run("memory-dump", "get", "dumped", "--claim-name=dump-here")
    assert done == "Successfully submitted memory dump request of VM dumped\n"
    assert request_of(admin) == {"claimName": "dump-here", "phase": "Associating"}
    again = virtctl.try_run("memory-dump", "get", "dumped", "--claim-name=dump-here")
    assert "memory dump request for pvc [dump-here] already in progress" in again.stderr
    progress(controller, claimName="dump-here", phase="Completed", fileName="old", startTimestamp="then")
    other = virtctl.try_run("memory-dump", "get", "dumped", "--claim-name=other")
    assert "while pvc [dump-here] is still associated as the memory dump pvc" in other.stderr
    virtctl.run("memory-dump", "get", "dumped")
    assert request_of(admin) == {"claimName": "dump-here", "phase": "Associating"}
    removed = virtctl.run("memory-dump", "remove", "dumped")
    assert removed == "Successfully submitted remove memory dump association of VM dumped\n"
    assert request_of(admin) == {"claimName": "dump-here", "phase": "Dissociating", "remove": True}
    again = virtctl.try_run("memory-dump", "remove", "dumped")
    assert "memory dump remove request for pvc [dump-here] already exists" in again.stderr
    progress(controller)
    assert request_of(admin) is None
    none = virtctl.try_run("memory-dump", "remove", "dumped")
    assert "can't remove memory dump association for vm dumped, no association found" in none.stderr


def test_virtctl_makes_a_claim_that_is_large_enough(admin: KubeClient, virtctl: Kubectl, running: JsonObject) -> None:
    create = ("memory-dump", "get", "dumped", "--claim-name=dump-made", "--create-claim", "--storage-class=any")
    assert "PVC default/dump-made created" in virtctl.run(*create)
    assert request_of(admin) == {"claimName": "dump-made", "phase": "Associating"}


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"volumeMode": "Block"}, "pvc should be filesystem pvc"),
        ({"accessModes": ["ReadOnlyMany"]}, "pvc access mode can't be read only"),
        ({"resources": {"requests": {"storage": "64Mi"}}}, "pvc size [67109k] should be bigger then ["),
    ],
    ids=["block", "read-only", "small"],
)
def test_a_claim_that_cannot_take_a_dump_is_refused(
    admin: KubeClient,
    virtctl: Kubectl,
    running: JsonObject,
    spec: dict[str, Any],
    words: str,
    request: pytest.FixtureRequest,
) -> None:
    name = f"dump-{request.node.callspec.id}"
    make_claim(admin, name, **spec)
    done = virtctl.try_run("memory-dump", "get", "dumped", f"--claim-name={name}")
    assert done.returncode == 1
    assert words in done.stderr
    assert request_of(admin) is None


def test_a_claim_or_a_guest_that_is_not_there_is_said(
    admin: KubeClient, controller: KubeClient, running: JsonObject
) -> None:
    with pytest.raises(KubeError, match="Memory dump requires claim name to be set") as refusal:
        admin.request("PUT", CALL, {})
    assert refusal.value.status == 400
    with pytest.raises(KubeError, match='"absent" not found') as refusal:
        admin.request("PUT", CALL, {"claimName": "absent"})
    assert refusal.value.status == 404
    controller.request("PATCH", f"{VMIS}/dumped", {"status": {"phase": "Succeeded"}}, None, MERGE)
    with pytest.raises(KubeError, match="VMI is not running") as refusal:
        admin.request("PUT", CALL, {"claimName": "absent"})
    assert refusal.value.status == 409
    with pytest.raises(KubeError) as refusal:
        admin.request("PUT", CALL.replace("dumped", "nobody"), {"claimName": "absent"})
    assert refusal.value.status == 404


def test_a_user_needs_the_right(server: ApiServerUnderTest, vm: JsonObject) -> None:
    bob = KubeClient.from_kubeconfig(server.write_kubeconfig("bob"))
    for call in (CALL, CALL.replace("memorydump", "removememorydump")):
        with pytest.raises(Forbidden):
            bob.request("PUT", call, {})


def test_a_vm_keeps_its_claim_of_dumps_when_its_user_changes_it(
    admin: KubeClient, controller: KubeClient, vm: JsonObject
) -> None:
    volumes = vm["spec"]["template"]["spec"].get("volumes") or []
    dump = {"name": "dump-here", "memoryDump": {"claimName": "dump-here", "hotpluggable": True}}
    body = {"spec": {"template": {"spec": {"volumes": [*volumes, dump]}}}}
    controller.request("PATCH", f"{VMS}/dumped", body, None, MERGE)
    changed = admin.request("PATCH", f"{VMS}/dumped", {"spec": {"runStrategy": "Halted"}}, None, MERGE)
    assert changed["spec"]["template"]["spec"]["volumes"][-1] == dump
    two = {"name": "another", "memoryDump": {"claimName": "another"}}
    body = {"spec": {"template": {"spec": {"volumes": [*volumes, dump, two]}}}}
    with pytest.raises(KubeError, match="must have max one memory dump volume set"):
        admin.request("PATCH", f"{VMS}/dumped", body, None, MERGE)


def test_kvedge_asks_for_the_same(server: ApiServerUnderTest, admin: KubeClient, running: JsonObject) -> None:
    make_claim(admin, "dump-here")
    cli = KvedgeCli(server.write_kubeconfig("admin", ["system:masters"]))
    cli.run("memory-dump", "get", "dumped", "--claim-name", "dump-here")
    assert request_of(admin) == {"claimName": "dump-here", "phase": "Associating"}
    cli.run("memory-dump", "remove", "dumped")
    assert request_of(admin) == {"claimName": "dump-here", "phase": "Dissociating", "remove": True}

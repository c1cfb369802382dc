"""Claims copied from another namespace, on both servers: with the right to, and by nobody else.

The api role grants, the controller copies by its own rights; the test plays volumes and the workers' kubelet.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pytest

from kvedge.controller.controller_service import ControllerRole
from kvedge.kube.errors import Forbidden, KubeError, NotFound
from kvedge.kube.kube_client import KubeClient
from kvedge.resources.codec import JsonObject
from kvedge.resources.disks.clone_grants import CLONE_TOKEN
from kvedge.resources.names import SYSTEM_NAMESPACE
from kvedge.resources.role_users import CONTROLLER_GROUP, CONTROLLER_USER
from tests.contract.api.conftest import remove
from tests.support.api_servers import ApiServerUnderTest
from tests.support.builders import CONFIG, small_vmi, vm_of
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.contract, pytest.mark.usefixtures("webhooks_are_called")]
KUBEVIRT = f"/apis/kubevirt.io/v1/namespaces/{SYSTEM_NAMESPACE}/kubevirts/kubevirt"
GOLDEN, SHOP = "clone-golden", "clone-shop"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
CDI = "/apis/cdi.kubevirt.io/v1beta1"
DVS = f"{CDI}/namespaces/{SHOP}/datavolumes"
MERGE = "application/merge-patch+json"
REFUSED = f"insufficient permissions in clone source namespace {GOLDEN}"


def core(namespace: str, plural: str) -> str:
    return f"/api/v1/namespaces/{namespace}/{plural}"


def role(namespace: str, name: str, rules: list[JsonObject], subject: JsonObject) -> Iterator[tuple[str, JsonObject]]:
    base = f"{RBAC}/namespaces/{namespace}"
    yield f"{base}/roles", {"kind": "Role", "metadata": {"name": name}, "rules": rules}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name}
    yield f"{base}/rolebindings", {
        "kind": "RoleBinding", "metadata": {"name": name}, "roleRef": reference, "subjects": [subject],
    }  # fmt: skip


def user(name: str) -> JsonObject:
    return {"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": name}


MAKES = [{"apiGroups": ["cdi.kubevirt.io"], "resources": ["datavolumes"], "verbs": ["create", "get", "delete"]}]
COPIES = [{"apiGroups": ["cdi.kubevirt.io"], "resources": ["datavolumes/source"], "verbs": ["create"]}]
RUNS_PODS = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["create"]}]
SEES = [{"apiGroups": [""], "resources": ["persistentvolumeclaims"], "verbs": ["get", "list"]}]


@dataclass
class Site:
    """Two namespaces, a golden image in one of them, and who may what in the other."""

    admin: KubeClient
    users: dict[str, KubeClient]

    def dv(self, by: str, name: str, spec: JsonObject, **annotations: str) -> JsonObject:
        storage = {"resources": {"requests": {"storage": "2Gi"}}, "accessModes": ["ReadWriteOnce"]}
        metadata = {"name": name, "annotations": annotations}
        document = {
            "apiVersion": "cdi.kubevirt.io/v1beta1", "kind": "DataVolume", "metadata": metadata,
            "spec": {"storage": {**storage, "storageClassName": "clone-tests"}, **spec},
        }  # fmt: skip
        return self.users[by].request("POST", DVS, document)

    def there(self, path: str) -> JsonObject | None:
        try:
            return self.admin.request("GET", path)
        except NotFound:
            return None

    def play(self, namespace: str, pod: str, **status: Any) -> None:
        path = f"{core(namespace, 'pods')}/{pod}/status"
        self.admin.request("PATCH", path, {"status": status}, None, "application/strategic-merge-patch+json")


@pytest.fixture(scope="module")
def site(server: ApiServerUnderTest, admin: KubeClient, webhooks_are_called: None) -> Iterator[Site]:
    for name in (GOLDEN, SHOP):
        admin.request("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    admin.request(
        "POST", "/apis/storage.k8s.io/v1/storageclasses", {"metadata": {"name": "clone-tests"}, "provisioner": "none"}
    )
    objects = [
        *role(SHOP, "alice-makes", MAKES, user("alice")),
        *role(GOLDEN, "alice-sees", SEES, user("alice")),
        *role(SHOP, "bob-makes", MAKES, user("bob")),
        *role(GOLDEN, "bob-copies", COPIES, user("bob")),
        *role(SHOP, "carol-makes", MAKES, user("carol")),
        *role(GOLDEN, "carol-runs", RUNS_PODS, user("carol")),
    ]
    for path, document in objects:
        admin.request("POST", path, document)
    claim = {
        "metadata": {"name": "image"},
        "spec": {
            "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "storageClassName": "",
        },
    }  # fmt: skip
    admin.request("POST", core(GOLDEN, "persistentvolumeclaims"), claim)
    path = f"{core(GOLDEN, 'persistentvolumeclaims')}/image/status"
    admin.request("PATCH", path, {"status": {"phase": "Bound"}}, None, MERGE)
    for namespace, name in ((GOLDEN, "linux"), (SHOP, "here")):
        source = {"pvc": {"namespace": GOLDEN, "name": "image"}}
        body = {"apiVersion": "cdi.kubevirt.io/v1beta1", "kind": "DataSource", "metadata": {"name": name}}
        admin.request("POST", f"{CDI}/namespaces/{namespace}/datasources", {**body, "spec": {"source": source}})
    users = {
        name: KubeClient.from_kubeconfig(server.write_kubeconfig(name, ["tenants"]))
        for name in ("alice", "bob", "carol")
    }
    found = Site(admin, users)
    wait_until(lambda: _is_judged(found), "the webhook of clones is called")
    yield found
    for client in users.values():
        client.close()
    remove(admin, "/apis/storage.k8s.io/v1/storageclasses/clone-tests")


def _is_judged(site: Site) -> bool:
    """Whether the server asks about clones, and knows what bob may."""
    try:
        site.dv("alice", "early", PVC)
    except Forbidden as error:
        if REFUSED not in str(error):
            return False
    else:
        site.admin.request("DELETE", f"{DVS}/early")
        return False
    try:
        site.dv("bob", "early", PVC)
    except KubeError:
        return False
    site.admin.request("DELETE", f"{DVS}/early")
    return True


@pytest.fixture
def working(server: ApiServerUnderTest, site: Site) -> Iterator[Site]:
    """The same, and the controller."""
    kubeconfig = server.write_kubeconfig(CONTROLLER_USER, [CONTROLLER_GROUP])
    working = ControllerRole(kubeconfig, CONFIG, leader_election=False)
    working.start()
    yield site
    working.stop()
    # The controller makes it, and other tests of this server make their own.
    with suppress(NotFound):
        remove(site.admin, KUBEVIRT)


PVC = {"source": {"pvc": {"namespace": GOLDEN, "name": "image"}}}
SOURCES = {
    "a claim": PVC,
    "a DataSource there": {"sourceRef": {"kind": "DataSource", "namespace": GOLDEN, "name": "linux"}},
    "a DataSource here that points there": {"sourceRef": {"kind": "DataSource", "name": "here"}},
    "a DataSource there that is not made yet": {
        "sourceRef": {"kind": "DataSource", "namespace": GOLDEN, "name": "later"}
    },
}


@pytest.mark.parametrize("case", SOURCES)
def test_a_user_without_the_right_is_refused_whatever_it_names(site: Site, case: str) -> None:
    with pytest.raises(Forbidden, match=f"User alice has {REFUSED}: it needs the verb create on datavolumes/source"):
        site.dv("alice", "copy", SOURCES[case])
    assert site.there(f"{DVS}/copy") is None


def test_what_lies_there_is_not_told_to_a_stranger(site: Site) -> None:
    with pytest.raises(Forbidden, match=REFUSED):
        site.dv("alice", "copy", {"source": {"pvc": {"namespace": GOLDEN, "name": "nothing"}}})


@pytest.mark.parametrize("by", ["bob", "carol"])
@pytest.mark.parametrize("case", SOURCES)
def test_a_user_with_the_right_gets_a_grant(site: Site, case: str, by: str) -> None:
    made = site.dv(by, "granted", SOURCES[case])
    site.admin.request("DELETE", f"{DVS}/granted")
    assert made["metadata"]["annotations"][CLONE_TOKEN].count(".") == 2


def test_a_grant_that_somebody_has_copied_is_worth_nothing(site: Site) -> None:
    token = site.dv("bob", "first", PVC)["metadata"]["annotations"][CLONE_TOKEN]
    site.admin.request("DELETE", f"{DVS}/first")
    with pytest.raises(Forbidden, match=REFUSED):
        site.dv("alice", "first", PVC, **{CLONE_TOKEN: token})
    blank = site.dv("alice", "first", {"source": {"blank": {}}}, **{CLONE_TOKEN: token, "kept": "yes"})
    site.admin.request("DELETE", f"{DVS}/first")
    assert blank["metadata"]["annotations"] == {"kept": "yes"}


def test_a_copy_within_the_namespace_needs_no_grant(site: Site) -> None:
    made = site.dv("alice", "local", {"source": {"pvc": {"name": "mine"}}})
    site.admin.request("DELETE", f"{DVS}/local")
    assert CLONE_TOKEN not in made["metadata"].get("annotations", {})


@pytest.mark.parametrize("case", ["a claim", "a DataSource there"])
def test_the_disk_is_sent_from_one_namespace_to_the_other(working: Site, case: str) -> None:
    name = f"copy-{list(SOURCES).index(case)}"
    working.dv("bob", name, SOURCES[case])
    claims, pods = core(SHOP, "persistentvolumeclaims"), core(GOLDEN, "pods")
    claim = wait_until(lambda: working.there(f"{claims}/{name}"), "the claim is made")
    working.admin.request("PATCH", f"{claims}/{name}/status", {"status": {"phase": "Bound"}}, None, MERGE)
    worker = wait_until(lambda: working.there(f"{core(SHOP, 'pods')}/cdi-upload-{name}"), "the worker is made")
    volumes = {volume["name"]: volume for volume in worker["spec"]["volumes"]}
    # No Pod has claims of two namespaces, and neither has a token.
    assert "source" not in volumes
    sender_name = f"cdi-upload-source-{claim['metadata']['uid']}"
    assert working.there(f"{pods}/{sender_name}") is None
    ready = [{"type": "Ready", "status": "True"}]
    working.play(
        SHOP, f"cdi-upload-{name}", phase="Running", podIP="192.0.2.9", podIPs=[{"ip": "192.0.2.9"}], conditions=ready
    )
    sender = wait_until(lambda: working.there(f"{pods}/{sender_name}"), "the sender is made")
    source = next(volume for volume in sender["spec"]["volumes"] if volume["name"] == "source")
    assert source["persistentVolumeClaim"] == {"claimName": "image", "readOnly": True}
    assert sender["spec"]["automountServiceAccountToken"] is False
    secret = wait_until(lambda: working.there(f"{core(GOLDEN, 'secrets')}/{sender_name}"), "it gets its certificate")
    assert [owner["uid"] for owner in secret["metadata"]["ownerReferences"]] == [sender["metadata"]["uid"]]
    working.play(GOLDEN, sender_name, phase="Succeeded")
    terminated = {"exitCode": 0, "message": '{"message": "Clone Complete"}', "finishedAt": "2026-01-01T00:00:00Z"}
    status = {"name": "importer", "ready": False, "restartCount": 0, "image": "", "imageID": ""}
    status["state"] = {"terminated": terminated}
    working.play(SHOP, f"cdi-upload-{name}", phase="Succeeded", containerStatuses=[status])
    wait_until(
        lambda: working.admin.request("GET", f"{DVS}/{name}")["status"].get("phase") == "Succeeded", "it is filled"
    )
    wait_until(lambda: working.there(f"{pods}/{sender_name}") is None, "the sender is gone")
    working.admin.request("DELETE", f"{DVS}/{name}")


def test_a_sender_goes_with_its_data_volume(working: Site) -> None:
    working.dv("bob", "short", PVC)
    claims, pods = core(SHOP, "persistentvolumeclaims"), core(GOLDEN, "pods")
    claim = wait_until(lambda: working.there(f"{claims}/short"), "the claim is made")
    working.admin.request("PATCH", f"{claims}/short/status", {"status": {"phase": "Bound"}}, None, MERGE)
    wait_until(lambda: working.there(f"{core(SHOP, 'pods')}/cdi-upload-short"), "the worker is made")
    ready = [{"type": "Ready", "status": "True"}]
    working.play(
        SHOP, "cdi-upload-short", phase="Running", podIP="192.0.2.9", podIPs=[{"ip": "192.0.2.9"}], conditions=ready
    )
    path = f"{pods}/cdi-upload-source-{claim['metadata']['uid']}"
    wait_until(lambda: working.there(path), "the sender is made")
    working.admin.request("DELETE", f"{DVS}/short")
    wait_until(lambda: working.there(path) is None, "the sender is gone")


def test_a_vm_copies_by_the_rights_of_its_service_account(working: Site) -> None:
    vm = vm_of(small_vmi(), runStrategy="Halted")
    vm["metadata"] = {"name": "web", "namespace": SHOP}
    storage = {"resources": {"requests": {"storage": "2Gi"}}, "accessModes": ["ReadWriteOnce"]}
    template = {"metadata": {"name": "web-root"}, "spec": {**PVC, "storage": storage}}
    vm["spec"]["dataVolumeTemplates"] = [template]
    vm["spec"]["template"]["spec"]["volumes"] = [{"name": "root", "dataVolume": {"name": "web-root"}}]
    vms = f"/apis/kubevirt.io/v1/namespaces/{SHOP}/virtualmachines"
    working.admin.request("POST", vms, vm)

    def told() -> list[str]:
        events = working.admin.request("GET", core(SHOP, "events"))["items"]
        return [item["message"] for item in events if item["reason"] == "UnauthorizedDataVolumeCreate"]

    (text,) = wait_until(told, "the VM's user is told")
    assert text.startswith("Not authorized to create DataVolume web-root: ")
    assert f"User system:serviceaccount:{SHOP}:default has {REFUSED}" in text
    account = {"kind": "ServiceAccount", "namespace": SHOP, "name": "default"}
    for path, document in role(GOLDEN, "shop-copies", COPIES, account):
        working.admin.request("POST", path, document)
    made = wait_until(lambda: working.there(f"{DVS}/web-root"), "it is made once the account may", 60.0)
    assert CLONE_TOKEN in made["metadata"]["annotations"]
    remove(working.admin, f"{vms}/web")

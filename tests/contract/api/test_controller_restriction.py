"""The controller has to do with launcher Pods, and one label of Nodes: more is not done with its credentials."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest

from kvedge.api.api_service import ApiRole
from kvedge.kube.errors import Forbidden, Invalid, NotFound
from kvedge.kube.kube_client import KubeClient
from kvedge.kube.patches import StrategicPatch
from kvedge.resources.codec import JsonObject
from kvedge.resources.disks.snapshot_names import LAST_RESTORE, UNPATCHED
from kvedge.resources.evacuation import EVICTION_IN_PROGRESS
from kvedge.resources.role_users import CONTROLLER_ACCOUNT, CONTROLLER_GROUP
from kvedge.resources.types.core import Pod
from kvedge.resources.types.pod_networks import NETWORKS
from kvedge.resources.types.sriov_networks import NETWORK_INFO
from tests.support.api_servers import ApiServerUnderTest, Kubectl
from tests.support.builders import pod_document, pool_of, small_vmi, vm_of
from tests.support.role_rights import everything_by_rbac
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.contract, pytest.mark.usefixtures("webhooks_are_called")]
PODS = "/api/v1/namespaces/default/pods"
NODES = "/api/v1/nodes"
NODE = "controlled-1"
MERGE = "application/merge-patch+json"
SAID = "Controller restriction, virt-controller is not allowed"
LAUNCHER = {"kubevirt.io": "virt-launcher"}
OWNER = {
    "apiVersion": "kubevirt.io/v1",
    "kind": "VirtualMachineInstance",
    "name": "web",
    "uid": "0b6c6b4a-7a0e-4b43-8b3c-5f1f1f1f1f1f",
    "controller": True,
}


def pod(name: str, labels: dict[str, str], *owners: JsonObject) -> JsonObject:
    metadata = {"name": name, "labels": labels, "ownerReferences": list(owners)}
    compute = {"name": "compute", "image": "kvedge.local/none:1", "resources": {"requests": {"cpu": "1m"}}}
    return pod_document(compute, metadata=metadata, automountServiceAccountToken=False)


@pytest.fixture(scope="module", autouse=True)
def restricted(server: ApiServerUnderTest, admin: KubeClient, controller: KubeClient) -> Iterator[None]:
    """All rights on the two kinds, so that it is not the roles' rights that keep it from anything; and a Node."""
    if server.name == "embedded":
        pytest.skip("one box has no Pods of others, and one Node")
    # A server needs a moment to follow its policies; what has been let by once is no change any more.
    tries = itertools.count()

    def is_judged() -> bool:
        change = {"metadata": {"annotations": {"try": str(next(tries))}}}
        return SAID in refused(controller, "PATCH", f"{NODES}/{NODE}", change)

    resources = ["nodes", "pods", "pods/status", "pods/resize", "pods/eviction"]
    resources += ["controllerrevisions", "persistentvolumeclaims"]
    resources += ["virtualmachines", "virtualmachinepools", "virtualmachinepools/status"]
    groups = ["", "apps", "kubevirt.io", "pool.kubevirt.io"]
    with everything_by_rbac(admin, CONTROLLER_GROUP, CONTROLLER_ACCOUNT, groups, resources):
        labels = {"kubevirt.io/schedulable": "true", "zone": "a"}
        admin.request("POST", NODES, {"kind": "Node", "apiVersion": "v1", "metadata": {"name": NODE, "labels": labels}})
        wait_until(is_judged, "the policy is in force")
        yield
        admin.request("DELETE", f"{NODES}/{NODE}")


@pytest.fixture
def others(admin: KubeClient) -> Iterator[JsonObject]:
    """A Pod that is none of ours."""
    yield admin.request("POST", PODS, pod("others", {"app": "web"}))
    gone(admin, "others")


@pytest.fixture
def launcher(admin: KubeClient, controller: KubeClient) -> Iterator[JsonObject]:
    """A Pod as the controller makes them."""
    yield controller.request("POST", PODS, pod("launcher", LAUNCHER, OWNER))
    gone(admin, "launcher")


def gone(admin: KubeClient, name: str) -> None:
    try:
        admin.request("DELETE", f"{PODS}/{name}", query={"gracePeriodSeconds": "0"})
    except NotFound:
        return


def refused(client: KubeClient, verb: str, path: str, body: Any = None) -> str:
    """The server's answer to what it refuses, else nothing; patches are merge patches."""
    try:
        client.request(verb, path, body, None, *([MERGE] if verb == "PATCH" else []))
    except (Forbidden, Invalid) as error:
        return error.message or error.reason
    return ""


def test_it_makes_launchers_of_vmis_reports_on_them_and_ends_them(launcher: JsonObject, controller: KubeClient) -> None:
    path = f"{PODS}/launcher"
    condition = {"type": "kubevirt.io/virtual-machine-unpaused", "status": "True"}
    assert refused(controller, "PATCH", f"{path}/status", {"status": {"conditions": [condition]}}) == ""
    assert refused(controller, "DELETE", path) == ""


def test_it_resizes_launchers_alone(launcher: JsonObject, others: JsonObject, controller: KubeClient) -> None:
    def resize(name: str) -> str:
        containers = [{"name": item["name"], "resources": {"requests": {"cpu": "1"}}} for item in containers_of[name]]
        try:
            controller.patch(Pod, "default", name, StrategicPatch({"spec": {"containers": containers}}), "resize")
        except (Forbidden, Invalid) as error:
            return error.message
        return ""

    containers_of = {each["metadata"]["name"]: each["spec"]["containers"] for each in (launcher, others)}
    assert f"{SAID} to touch other Pods than launchers" in resize("others")
    # What the server itself has against it comes after the policy.
    assert SAID not in resize("launcher")


@pytest.mark.parametrize(
    ("labels", "owners"),
    [
        pytest.param({"app": "web"}, (), id="any Pod"),
        pytest.param(LAUNCHER, (), id="of no VMI"),
        pytest.param({"kubevirt.io": "virt-api"}, (OWNER,), id="no launcher"),
        pytest.param(LAUNCHER, ({**OWNER, "kind": "ReplicaSet", "apiVersion": "apps/v1"},), id="of something else"),
        pytest.param(LAUNCHER, ({**OWNER, "controller": False},), id="not controlled"),
    ],
)
def test_it_makes_no_other_pods(controller: KubeClient, labels: dict[str, str], owners: tuple[JsonObject, ...]) -> None:
    said = refused(controller, "POST", PODS, pod("bad", labels, *owners))
    assert f"{SAID} to make other Pods than launchers of VMIs" in said


def test_it_evicts_launchers_alone(admin: KubeClient, controller: KubeClient, others: JsonObject) -> None:
    def evict(name: str) -> str:
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": "default"}}
        return refused(controller, "POST", f"{PODS}/{name}/eviction", body)

    assert f"{SAID} to evict other Pods than launchers of VMIs" in evict("others")
    admin.request("POST", PODS, pod("virt-launcher-web-x", {"app": "web"}))
    try:
        assert evict("virt-launcher-web-x") == ""
    finally:
        gone(admin, "virt-launcher-web-x")


DV_OWNER = {**OWNER, "kind": "DataVolume", "apiVersion": "cdi.kubevirt.io/v1beta1"}
CONTENT_OWNER = {**OWNER, "kind": "VirtualMachineSnapshotContent", "apiVersion": "snapshot.kubevirt.io/v1beta1"}
CLAIM_OWNER = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "name": "disk", "uid": OWNER["uid"]}
SENDER = {"kvedge.io/clone-target": OWNER["uid"]}
CONFINED = {"runAsNonRoot": True, "allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}


def worker(labels: dict[str, str], owner: JsonObject, **spec: Any) -> JsonObject:
    made = pod("worker", labels, owner)
    made["spec"]["containers"][0] |= {"name": "importer", "securityContext": dict(CONFINED)}
    made["spec"]["volumes"] = [{"name": "usr", "hostPath": {"path": "/usr"}}]
    made["spec"]["containers"][0]["volumeMounts"] = [{"name": "usr", "mountPath": "/usr", "readOnly": True}]
    made["spec"] |= spec
    return made


@pytest.mark.parametrize(("labels", "owner"), [({}, DV_OWNER), (SENDER, CLAIM_OWNER)], ids=["worker", "sender"])
def test_it_makes_workers_that_fill_claims_and_ends_them(
    controller: KubeClient, labels: dict[str, str], owner: JsonObject
) -> None:
    assert refused(controller, "POST", PODS, worker(labels, owner)) == ""
    assert refused(controller, "DELETE", f"{PODS}/worker?gracePeriodSeconds=0") == ""


def container(**changes: Any) -> JsonObject:
    made = worker({}, DV_OWNER)["spec"]["containers"][0]
    return {"containers": [{**made, **changes}]}


PROXY: JsonObject = {"name": "proxy", "image": "example.org/proxy"}


def beside(changes: JsonObject) -> JsonObject:
    return {"containers": [*container()["containers"], {**PROXY, **changes}]}


def test_a_meshs_proxy_that_a_webhook_puts_in_keeps_no_worker_away(controller: KubeClient) -> None:
    leads = {"capabilities": {"add": ["NET_ADMIN", "NET_RAW"]}, "runAsUser": 0}
    spec = {**beside({}), "initContainers": [{**PROXY, "name": "init", "securityContext": leads}]}
    assert refused(controller, "POST", PODS, worker({}, DV_OWNER, **spec)) == ""
    assert refused(controller, "DELETE", f"{PODS}/worker?gracePeriodSeconds=0") == ""


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"automountServiceAccountToken": True}, id="a token"),
        pytest.param({"hostNetwork": True}, id="the host's network"),
        pytest.param({"hostPID": True}, id="the host's processes"),
        pytest.param(container(securityContext={}), id="a user that is not said"),
        pytest.param(container(securityContext={**CONFINED, "allowPrivilegeEscalation": True}), id="a way to more"),
        pytest.param(container(securityContext={**CONFINED, "capabilities": {"add": ["SYS_ADMIN"]}}), id="capability"),
        pytest.param(container(volumeMounts=[{"name": "usr", "mountPath": "/usr"}]), id="the host's files to write"),
        pytest.param(container(name="proxy"), id="no container that works"),
        pytest.param({"initContainers": [{**PROXY, "securityContext": {"privileged": True}}]}, id="privileged init"),
        pytest.param(beside({"securityContext": {"privileged": True}}), id="privileged beside"),
        pytest.param(beside({"securityContext": {"capabilities": {"add": ["SYS_ADMIN"]}}}), id="a capability beside"),
        pytest.param(
            beside({"volumeMounts": [{"name": "usr", "mountPath": "/usr", "readOnly": True}]}), id="the host's beside"
        ),
    ],
)
def test_it_makes_no_worker_that_could_do_more_than_fill_a_claim(controller: KubeClient, spec: JsonObject) -> None:
    said = refused(controller, "POST", PODS, worker({}, DV_OWNER, **spec))
    # A server that allows no privileged Pods at all says so before it asks a policy.
    ours = f"{SAID} to make other Pods than launchers of VMIs" in said
    assert ours or "privileged: Forbidden: disallowed by cluster policy" in said


def test_a_claim_as_an_owner_makes_no_sender(controller: KubeClient) -> None:
    assert SAID in refused(controller, "POST", PODS, worker({}, CLAIM_OWNER))


CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"


def claim(name: str, *owners: JsonObject, **annotations: str) -> JsonObject:
    """Of a name of its own for each test: nobody here takes the finalizer off that protects it."""
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "storageClassName": ""}
    metadata = {"name": name, "ownerReferences": list(owners), "annotations": annotations}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec}


NOTE = {"metadata": {"annotations": {"a": "b"}}}


def test_it_makes_and_describes_claims_of_data_volumes(controller: KubeClient) -> None:
    assert f"{SAID} to make or touch other claims" in refused(controller, "POST", CLAIMS, claim("made"))
    assert refused(controller, "POST", CLAIMS, claim("made", DV_OWNER)) == ""
    assert refused(controller, "PATCH", f"{CLAIMS}/made", NOTE) == ""
    assert "claim's spec" in refused(controller, "PATCH", f"{CLAIMS}/made", {"spec": {"volumeName": "pv"}})


def test_it_makes_empty_claims_that_disks_move_to(controller: KubeClient, admin: KubeClient) -> None:
    moved = {"kvedge.io/moved-from": "disk"}
    filled = claim("moved", **moved)
    filled["spec"]["dataSource"] = {"kind": "PersistentVolumeClaim", "name": "others"}
    assert f"{SAID} to make or touch other claims" in refused(controller, "POST", CLAIMS, filled)
    bound = claim("moved", **moved)
    bound["spec"]["volumeName"] = "others"
    assert f"{SAID} to make or touch other claims" in refused(controller, "POST", CLAIMS, bound)
    assert refused(controller, "POST", CLAIMS, claim("moved", **moved)) == ""
    assert f"{SAID} to make or touch other claims" in refused(controller, "PATCH", f"{CLAIMS}/moved", NOTE)
    admin.request("DELETE", f"{CLAIMS}/moved")


def test_it_makes_empty_claims_that_disks_are_copied_to(controller: KubeClient, admin: KubeClient) -> None:
    bound = claim("copied", CONTENT_OWNER)
    bound["spec"]["volumeName"] = "others"
    assert f"{SAID} to make or touch other claims" in refused(controller, "POST", CLAIMS, bound)
    assert refused(controller, "POST", CLAIMS, claim("copied", CONTENT_OWNER)) == ""
    assert refused(controller, "PATCH", f"{CLAIMS}/copied", NOTE) == ""
    admin.request("POST", CLAIMS, claim("others-disk"))
    taken = {"metadata": {"ownerReferences": [CONTENT_OWNER]}}
    assert f"{SAID} to make or touch other claims" in refused(controller, "PATCH", f"{CLAIMS}/others-disk", taken)
    admin.request("DELETE", f"{CLAIMS}/copied")


def test_it_makes_claims_of_restores_that_name_their_volume(controller: KubeClient, admin: KubeClient) -> None:
    mark = {LAST_RESTORE: "back-1"}
    bound = claim("exchanged")
    bound["spec"]["volumeName"] = "pv-of-restore"
    assert f"{SAID} to make or touch other claims" in refused(controller, "POST", CLAIMS, bound)
    assert f"{SAID} to make or touch other claims" in refused(controller, "POST", CLAIMS, claim("exchanged", **mark))
    bound["metadata"]["annotations"] = mark
    source = {"kind": "PersistentVolumeClaim", "name": "others"}
    copied = {**bound, "spec": {**bound["spec"], "dataSource": source}}
    assert f"{SAID} to make or touch other claims" in refused(controller, "POST", CLAIMS, copied)
    assert refused(controller, "POST", CLAIMS, bound) == ""
    assert f"{SAID} to make or touch other claims" in refused(controller, "PATCH", f"{CLAIMS}/exchanged", NOTE)
    # The VM's own DataVolume takes the claim of its name over.
    taken = {"metadata": {"ownerReferences": [DV_OWNER]}}
    assert refused(controller, "PATCH", f"{CLAIMS}/exchanged", taken) == ""
    admin.request("DELETE", f"{CLAIMS}/exchanged")


def test_it_says_of_a_user_s_claim_which_dump_is_in_it_and_no_more(controller: KubeClient, admin: KubeClient) -> None:
    path, said = f"{CLAIMS}/dumped", {"kubevirt.io/memory-dump": "web-dumped-1.memory.dump"}
    admin.request("POST", CLAIMS, claim("dumped", mine="yes"))
    for change in (
        {"annotations": {**said, "a": "b"}},
        {"annotations": {**said, "mine": None}},
        {"annotations": {**said, "mine": "no"}},
        {"annotations": said, "labels": {"a": "b"}},
        {"annotations": said, "ownerReferences": [OWNER]},
    ):
        assert f"{SAID} to make or touch other claims" in refused(controller, "PATCH", path, {"metadata": change})
    bound = {"metadata": {"annotations": said}, "spec": {"volumeName": "pv"}}
    assert "claim's spec" in refused(controller, "PATCH", path, bound)
    assert refused(controller, "PATCH", path, {"metadata": {"annotations": said}}) == ""
    failed = {"kubevirt.io/memory-dump": "Memory dump failed"}
    assert refused(controller, "PATCH", path, {"metadata": {"annotations": failed}}) == ""


def test_it_takes_a_claim_over_for_a_data_volume(controller: KubeClient, admin: KubeClient) -> None:
    admin.request("POST", CLAIMS, claim("found"))
    assert f"{SAID} to make or touch other claims" in refused(controller, "PATCH", f"{CLAIMS}/found", NOTE)
    assert refused(controller, "PATCH", f"{CLAIMS}/found", {"metadata": {"ownerReferences": [DV_OWNER]}}) == ""


def test_it_describes_a_claim_that_its_user_has_for_an_upload(controller: KubeClient, admin: KubeClient) -> None:
    admin.request("POST", CLAIMS, claim("sent", **{"cdi.kubevirt.io/storage.upload.target": ""}))
    assert refused(controller, "PATCH", f"{CLAIMS}/sent", NOTE) == ""


def test_it_does_not_touch_pods_of_others(others: JsonObject, controller: KubeClient, admin: KubeClient) -> None:
    path = f"{PODS}/others"
    for verb, what, body in (
        ("DELETE", path, None),
        ("PATCH", f"{path}/status", {"status": {"phase": "Failed"}}),
        # To become one of ours is no way either.
        ("PATCH", f"{path}/status", {"metadata": {"labels": LAUNCHER}}),
        ("PATCH", path, {"metadata": {"labels": LAUNCHER}}),
    ):
        assert f"{SAID} to touch other Pods than launchers of VMIs" in refused(controller, verb, what, body)
    assert admin.request("GET", path) == others


@pytest.mark.parametrize(
    "change",
    [
        {"metadata": {"annotations": {"a": "b"}}},
        {"metadata": {"annotations": {"a": "b", NETWORKS: "[]"}}},
        {"metadata": {"labels": {"a": "b"}, "annotations": {NETWORKS: "[]"}}},
        {"metadata": {"ownerReferences": [], "annotations": {NETWORKS: "[]"}}},
        {"spec": {"activeDeadlineSeconds": 7}, "metadata": {"annotations": {NETWORKS: "[]"}}},
    ],
    ids=["an annotation", "another annotation besides", "a label besides", "the owner besides", "the spec besides"],
)
def test_of_a_launcher_it_changes_status_and_a_few_annotations_only(
    launcher: JsonObject, controller: KubeClient, change: JsonObject
) -> None:
    said = refused(controller, "PATCH", f"{PODS}/launcher", change)
    assert f"{SAID} to change more of a Pod than its status, and a launcher's annotations {NETWORKS}, " in said


@pytest.mark.parametrize("name", [NETWORKS, NETWORK_INFO, EVICTION_IN_PROGRESS])
def test_a_launcher_is_told_of_networks_devices_and_evictions(
    launcher: JsonObject, controller: KubeClient, name: str
) -> None:
    for text in ("[]", '[{"name": "red"}]', None):
        change = {"metadata": {"annotations": {name: text}}}
        assert refused(controller, "PATCH", f"{PODS}/launcher", change) == ""


def test_a_launcher_whose_label_somebody_took_is_still_ended(
    launcher: JsonObject, controller: KubeClient, admin: KubeClient
) -> None:
    admin.request("PATCH", f"{PODS}/launcher", {"metadata": {"labels": {"kubevirt.io": None}}}, None, MERGE)
    assert refused(controller, "DELETE", f"{PODS}/launcher") == ""


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"spec": {"unschedulable": True}}, "a Node's spec"),
        ({"spec": {"taints": [{"key": "a", "effect": "NoExecute"}]}}, "a Node's spec"),
        ({"metadata": {"labels": {"zone": "b"}}}, "more of a Node than its label"),
        ({"metadata": {"labels": {"zone": None}}}, "more of a Node than its label"),
        ({"metadata": {"labels": {"kubevirt.io/other": "b"}}}, "more of a Node than its label"),
        ({"metadata": {"annotations": {"kubevirt.io/heartbeat": "b"}}}, "more of a Node than its label"),
        ({"metadata": {"finalizers": ["kvedge.io/x"]}}, "more of a Node than its label"),
        ({"metadata": {"labels": {"kubevirt.io/schedulable": None}}}, "to say that a Node takes VMs"),
    ],
    ids=["cordon", "taint", "label", "lost label", "new label", "annotation", "finalizer", "no mark"],
)
def test_of_a_node_it_changes_nothing_else(controller: KubeClient, change: JsonObject, what: str) -> None:
    said = refused(controller, "PATCH", f"{NODES}/{NODE}", change)
    assert SAID in said
    assert what in said


def test_it_takes_the_mark_from_a_node_and_does_not_give_it(controller: KubeClient, admin: KubeClient) -> None:
    path = f"{NODES}/{NODE}"

    def mark(value: str) -> JsonObject:
        return {"metadata": {"labels": {"kubevirt.io/schedulable": value}}}

    assert refused(controller, "PATCH", path, mark("false")) == ""
    assert f"{SAID} to say that a Node takes VMs" in refused(controller, "PATCH", path, mark("true"))
    admin.request("PATCH", path, mark("true"), None, MERGE)


def test_it_neither_makes_nor_deletes_nodes(controller: KubeClient) -> None:
    node = {"kind": "Node", "apiVersion": "v1", "metadata": {"name": "controlled-2"}}
    assert f"{SAID} to make or delete Nodes" in refused(controller, "POST", NODES, node)
    assert f"{SAID} to make or delete Nodes" in refused(controller, "DELETE", f"{NODES}/{NODE}")


def test_a_service_account_of_the_controller_is_kept_to_the_same(others: JsonObject, kubectl: Kubectl) -> None:
    done = kubectl.try_run("delete", "pod", "others", f"--as={CONTROLLER_ACCOUNT}")
    assert done.returncode != 0
    assert SAID in done.stderr


def test_others_do_what_they_like_and_no_role_is_asked(
    others: JsonObject, controller: KubeClient, admin: KubeClient, api_role: ApiRole
) -> None:
    admin.request("PATCH", f"{PODS}/others", {"metadata": {"labels": {"app": "b"}}}, None, MERGE)
    api_role.stop()
    try:
        assert SAID in refused(controller, "DELETE", f"{PODS}/others")
        admin.request("PATCH", f"{PODS}/others", {"metadata": {"labels": {"app": "c"}}}, None, MERGE)
    finally:
        api_role.start()


REVISIONS = "/apis/apps/v1/namespaces/default/controllerrevisions"
VM_OWNER = {**OWNER, "kind": "VirtualMachine"}


def revision(name: str, *owners: JsonObject) -> JsonObject:
    metadata = {"name": name, "ownerReferences": list(owners)}
    data = {"spec": {}}
    return {
        "apiVersion": "apps/v1", "kind": "ControllerRevision", "metadata": metadata, "data": data, "revision": 1,
    }  # fmt: skip


def test_it_ends_revisions_that_an_orphaned_pool_has_left(admin: KubeClient, controller: KubeClient) -> None:
    left = revision("left")
    left["metadata"]["labels"] = {"kvedge.io/revision-of-pool": ""}
    admin.request("POST", REVISIONS, left)
    assert "touch other" in refused(controller, "PATCH", f"{REVISIONS}/left", {"revision": 2})
    assert refused(controller, "DELETE", f"{REVISIONS}/left") == ""


VMS = "/apis/kubevirt.io/v1/namespaces/default/virtualmachines"
POOLS = "/apis/pool.kubevirt.io/v1beta1/namespaces/default/virtualmachinepools"
POOL_OWNER = {**OWNER, "kind": "VirtualMachinePool", "apiVersion": "pool.kubevirt.io/v1beta1"}


def owned_vm(*owners: JsonObject) -> JsonObject:
    made = vm_of(small_vmi(), runStrategy="Halted")
    made["metadata"] |= {"name": "numbered-0", "ownerReferences": list(owners)}
    return made


def released(admin: KubeClient, path: str) -> None:
    """What is being deleted, without the finalizer of those that do not run here."""
    admin.request("PATCH", path, {"metadata": {"finalizers": None}}, None, MERGE)


def test_it_makes_changes_and_ends_vms_of_pools(admin: KubeClient, controller: KubeClient) -> None:
    assert refused(controller, "POST", VMS, owned_vm(POOL_OWNER)) == ""
    path = f"{VMS}/numbered-0"
    assert refused(controller, "PATCH", path, {"metadata": {"labels": {"a": "b"}}}) == ""
    assert refused(controller, "DELETE", path) == ""
    released(admin, path)


def test_it_makes_vms_of_restores_and_ends_none(admin: KubeClient, controller: KubeClient) -> None:
    restored = owned_vm()
    restored["metadata"]["annotations"] = {LAST_RESTORE: "back-1"}
    assert refused(controller, "POST", VMS, restored) == ""
    path = f"{VMS}/numbered-0"
    assert f"{SAID} to delete other VMs" in refused(controller, "DELETE", path)
    admin.request("DELETE", path)
    released(admin, path)


def test_it_ends_a_vm_that_a_restore_could_not_patch(admin: KubeClient, controller: KubeClient) -> None:
    restored = owned_vm()
    restored["metadata"]["annotations"] = {LAST_RESTORE: f"{UNPATCHED}back-1"}
    assert refused(controller, "POST", VMS, restored) == ""
    assert refused(controller, "DELETE", f"{VMS}/numbered-0") == ""
    released(admin, f"{VMS}/numbered-0")


@pytest.mark.parametrize(
    "owners",
    [(), (VM_OWNER,), ({**POOL_OWNER, "apiVersion": "other.io/v1"},), ({**POOL_OWNER, "controller": False},)],
    ids=["nobody's", "of another kind", "of another group", "not controlled"],
)
def test_it_neither_makes_nor_ends_other_vms(
    admin: KubeClient, controller: KubeClient, owners: tuple[JsonObject, ...]
) -> None:
    assert f"{SAID} to make other VMs" in refused(controller, "POST", VMS, owned_vm(*owners))
    admin.request("POST", VMS, owned_vm(*owners))
    try:
        assert f"{SAID} to delete other VMs" in refused(controller, "DELETE", f"{VMS}/numbered-0")
        assert refused(controller, "PATCH", f"{VMS}/numbered-0", {"metadata": {"labels": {"a": "b"}}}) == ""
        given = {"metadata": {"ownerReferences": [POOL_OWNER]}}
        assert f"{SAID} to give a VM to a pool" in refused(controller, "PATCH", f"{VMS}/numbered-0", given)
    finally:
        admin.request("DELETE", f"{VMS}/numbered-0")
        released(admin, f"{VMS}/numbered-0")


def test_it_changes_no_spec_of_a_pool_and_makes_and_ends_none(admin: KubeClient, controller: KubeClient) -> None:
    pool = pool_of(small_vmi(), 0)
    assert f"{SAID} to make or delete pools" in refused(controller, "POST", POOLS, pool)
    admin.request("POST", POOLS, pool)
    path = f"{POOLS}/web"
    try:
        assert refused(controller, "PATCH", path, {"metadata": {"finalizers": ["pool.kubevirt.io/finalizer"]}}) == ""
        assert refused(controller, "PATCH", f"{path}/status", {"status": {"replicas": 0}}) == ""
        assert f"{SAID} to change a pool's spec" in refused(controller, "PATCH", path, {"spec": {"replicas": 9}})
        assert f"{SAID} to make or delete pools" in refused(controller, "DELETE", path)
    finally:
        admin.request("DELETE", path)
        released(admin, path)


def test_it_keeps_revisions_of_vms(controller: KubeClient) -> None:
    assert refused(controller, "POST", REVISIONS, revision("of-a-vm", VM_OWNER)) == ""
    assert "touch other" in refused(controller, "PATCH", f"{REVISIONS}/of-a-vm", {"revision": 2})
    assert refused(controller, "DELETE", f"{REVISIONS}/of-a-vm") == ""


@pytest.mark.parametrize(
    "owners",
    [
        pytest.param((), id="of nobody"),
        pytest.param(({**OWNER, "kind": "StatefulSet", "apiVersion": "apps/v1"},), id="of something else"),
        pytest.param(({**VM_OWNER, "apiVersion": "example.org/v1"},), id="of another VM kind"),
        pytest.param(({**VM_OWNER, "controller": False},), id="not controlled"),
    ],
)
def test_revisions_of_others_are_none_of_its_business(
    admin: KubeClient, controller: KubeClient, owners: tuple[JsonObject, ...]
) -> None:
    assert "make other ControllerRevisions" in refused(controller, "POST", REVISIONS, revision("others", *owners))
    admin.request("POST", REVISIONS, revision("others", *owners))
    try:
        assert "touch other" in refused(controller, "DELETE", f"{REVISIONS}/others")
        labels = {"metadata": {"labels": {"a": "b"}}}
        assert "touch other" in refused(controller, "PATCH", f"{REVISIONS}/others", labels)
    finally:
        admin.request("DELETE", f"{REVISIONS}/others")


EXPORT_OWNER = {**OWNER, "kind": "VirtualMachineExport", "apiVersion": "export.kubevirt.io/v1"}


def exporter(*, read_only: bool = True, owner: JsonObject = EXPORT_OWNER) -> JsonObject:
    made = worker({}, owner)
    made["spec"]["containers"][0]["name"] = "exporter"
    claim = {"claimName": "disk", **({"readOnly": True} if read_only else {})}
    made["spec"]["volumes"].append({"name": "volume-0", "persistentVolumeClaim": claim})
    return made


def test_it_makes_exporters_that_read(admin: KubeClient, controller: KubeClient) -> None:
    said = f"{SAID} to make other Pods than launchers of VMIs"
    assert said in refused(controller, "POST", PODS, exporter(read_only=False))
    assert said in refused(controller, "POST", PODS, exporter(owner={**EXPORT_OWNER, "apiVersion": "evil.io/v1"}))
    assert refused(controller, "POST", PODS, exporter()) == ""
    assert refused(controller, "DELETE", f"{PODS}/worker") == ""
    gone(admin, "worker")


@pytest.mark.parametrize(
    ("name", "type_", "owner", "is_let"),
    [
        ("export-token-out", "Opaque", EXPORT_OWNER, True),
        ("export-token-out", "Opaque", OWNER, False),
        ("export-token-out", "kubernetes.io/service-account-token", EXPORT_OWNER, False),
        ("virt-export-out-0a", "kubernetes.io/tls", {**CLAIM_OWNER, "kind": "Pod", "name": "virt-export-out"}, True),
        ("virt-export-out-0a", "kubernetes.io/tls", {**CLAIM_OWNER, "kind": "Pod", "name": "others"}, False),
        ("others", "kubernetes.io/tls", EXPORT_OWNER, False),
    ],
)
def test_it_makes_tokens_and_certificates_of_exports_alone(
    admin: KubeClient, controller: KubeClient, name: str, type_: str, owner: JsonObject, is_let: bool
) -> None:
    metadata = {"name": name, "ownerReferences": [owner]}
    if type_ == "kubernetes.io/service-account-token":
        metadata["annotations"] = {"kubernetes.io/service-account.name": "default"}
    data = {"tls.crt": "eA==", "tls.key": "eA=="}
    body = {"metadata": metadata, "type": type_, "data": data}
    path = "/api/v1/namespaces/default/secrets"
    said = refused(controller, "POST", path, body)
    assert (said == "") is is_let, said
    assert is_let or f"{SAID} to make other Secrets" in said
    if is_let:
        admin.request("DELETE", f"{path}/{name}")


@pytest.mark.parametrize(
    ("spec", "owner", "is_let"),
    [
        ({}, EXPORT_OWNER, True),
        ({}, OWNER, False),
        ({"type": "LoadBalancer"}, EXPORT_OWNER, False),
        ({"externalIPs": ["192.0.2.1"]}, EXPORT_OWNER, False),
    ],
)
def test_it_makes_services_of_exports_alone(
    admin: KubeClient, controller: KubeClient, spec: JsonObject, owner: JsonObject, is_let: bool
) -> None:
    path = "/api/v1/namespaces/default/services"
    metadata = {"name": "virt-export-out", "ownerReferences": [owner]}
    said = refused(controller, "POST", path, {"metadata": metadata, "spec": {"ports": [{"port": 443}], **spec}})
    assert (said == "") is is_let, said
    assert is_let or f"{SAID} to make other Services" in said
    if is_let:
        admin.request("DELETE", f"{path}/virt-export-out")

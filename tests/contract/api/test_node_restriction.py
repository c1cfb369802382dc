"""A node's handler writes what is on its node: with another node's credentials nothing is written, api role or not."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from kvedge.api.api_service import ApiRole
from kvedge.handler.node.cpu_manager import read_cpu_labels
from kvedge.kube.errors import AlreadyExists, Forbidden, Invalid, KubeError
from kvedge.kube.kube_client import KubeClient
from kvedge.resources.codec import JsonObject, encode
from kvedge.resources.node_loss.node_lease import NODES_NAMESPACE, NodeFence, fence_patch, lease_name, new_lease
from kvedge.resources.role_users import (
    HANDLER_ACCOUNT,
    HANDLER_GROUP,
    NODE_EXTRA,
    NODE_PREFIX,
    NODES_GROUP,
    handler_user,
)
from kvedge.resources.types.core import ConfigMap
from tests.contract.api.conftest import remove
from tests.support.api_servers import ApiServerUnderTest, Kubectl
from tests.support.builders import small_vmi
from tests.support.role_rights import everything_by_rbac
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.contract, pytest.mark.usefixtures("webhooks_are_called")]
VMIS = "/apis/kubevirt.io/v1/namespaces/default/virtualmachineinstances"
NODES = "/api/v1/nodes"
MERGE = "application/merge-patch+json"
MINE, THEIRS = "restricted-1", "restricted-2"
OWNED = "Node restriction, virt-handler is only allowed to modify VMIs it owns"

CLAIMS = {"sourcePVCInfo": {"claimName": "mine"}, "destinationPVCInfo": {"claimName": "theirs"}}


# In whose name the handler of MINE speaks: its own, or its node's, with the kubelet's credentials.
NAMES = {"handler": (handler_user(MINE), HANDLER_GROUP), "node": (f"{NODE_PREFIX}{MINE}", NODES_GROUP)}


@pytest.fixture(scope="module", params=list(NAMES))
def speaker(request: pytest.FixtureRequest, server: ApiServerUnderTest) -> str:
    """The key of the name."""
    if request.param == "node" and server.name == "embedded":
        pytest.skip("one box has no kubelet, whose credentials a handler could have")
    return str(request.param)


@pytest.fixture(scope="module")
def handler(server: ApiServerUnderTest, admin: KubeClient, speaker: str) -> Iterator[KubeClient]:
    """A client with the credentials of the handler of MINE."""
    user, group = NAMES[speaker]
    with ExitStack() as stack:
        if server.name == "real":
            # As much as any handler could need, so that it is not the roles' rights that keep it to its node.
            kinds, groups = ["nodes", "virtualmachineinstances", "configmaps"], ["", "kubevirt.io"]
            stack.enter_context(everything_by_rbac(admin, group, HANDLER_ACCOUNT, groups, kinds))
        client = KubeClient.from_kubeconfig(server.write_kubeconfig(user, [group]))
        yield client
        client.close()


@pytest.fixture(scope="module")
def two_nodes(admin: KubeClient, controller: KubeClient, handler: KubeClient) -> Iterator[None]:
    """Both nodes, each with a VMI."""
    for node in (MINE, THEIRS):
        admin.request("POST", NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": node}})
        vmi = small_vmi()
        vmi["metadata"]["name"] = f"on-{node}"
        controller.request("POST", VMIS, vmi)
        where = {"status": {"phase": "Scheduled", "nodeName": node}}
        controller.request("PATCH", f"{VMIS}/on-{node}", where, None, MERGE)
    # A server needs a moment to follow its policies; no webhook judges a delete.
    wait_until(lambda: not may_delete(handler, f"{VMIS}/on-{MINE}"), "judged")
    yield
    for node in (MINE, THEIRS):
        remove(admin, f"{VMIS}/on-{node}")
        admin.request("DELETE", f"{NODES}/{node}")


def may_delete(client: KubeClient, path: str) -> bool:
    """Whether the server would take that delete."""
    try:
        client.request("DELETE", path, None, {"dryRun": "All"})
    except (Forbidden, Invalid):
        return False
    return True


def refused(client: KubeClient, path: str, body: JsonObject) -> str:
    """The server's answer to a merge patch that it refuses, else nothing."""
    try:
        client.request("PATCH", path, body, None, MERGE)
    except (Forbidden, Invalid) as error:
        return error.message or error.reason
    return ""


def may_write(client: KubeClient, path: str, body: JsonObject) -> bool:
    """Whether the server would take that merge patch."""
    try:
        client.request("PATCH", path, body, {"dryRun": "All"}, MERGE)
    except (Forbidden, Invalid):
        return False
    return True


def report(path: str, handler: KubeClient, phase: str = "Running") -> str:
    return refused(handler, path, {"status": {"phase": phase}})


def test_it_reports_on_its_own_vmi_only(two_nodes: None, handler: KubeClient, admin: KubeClient) -> None:
    assert report(f"{VMIS}/on-{MINE}", handler) == ""
    assert report(f"{VMIS}/on-{THEIRS}", handler)
    assert admin.request("GET", f"{VMIS}/on-{MINE}")["status"]["phase"] == "Running"
    assert admin.request("GET", f"{VMIS}/on-{THEIRS}")["status"]["phase"] == "Scheduled"


def test_it_writes_the_lease_of_its_node_only(two_nodes: None, handler: KubeClient, admin: KubeClient) -> None:
    path = ConfigMap.KIND.path(NODES_NAMESPACE)
    with suppress(AlreadyExists):
        admin.request("POST", "/api/v1/namespaces", {"metadata": {"name": NODES_NAMESPACE}})
    for node in (MINE, THEIRS):
        with suppress(AlreadyExists):
            admin.request("POST", path, encode(new_lease(NodeFence(node))))
    says = fence_patch(NodeFence("n", "boot", "timer"))
    assert refused(handler, f"{path}/{lease_name(MINE)}", says) == ""
    assert refused(handler, f"{path}/{lease_name(THEIRS)}", says)
    with pytest.raises(Forbidden):
        handler.request("POST", path, encode(new_lease(NodeFence("another"))))
    assert not may_delete(handler, f"{path}/{lease_name(MINE)}")


@pytest.mark.parametrize(
    "change",
    [
        {"status": {"nodeName": THEIRS}},
        {"spec": {"domain": {"memory": {"guest": "1Gi"}}}},
        {"status": {"migratedVolumes": [{"volumeName": "data", **CLAIMS}]}},
        {"metadata": {"finalizers": []}},
        {"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": "b"}]}},
        {"metadata": {"labels": {"kubevirt.io/nodeName": THEIRS}}},
    ],
    ids=["place", "spec", "claims", "finalizers", "owner", "label"],
)
def test_of_its_own_vmi_it_changes_the_report_only(
    two_nodes: None, handler: KubeClient, admin: KubeClient, change: JsonObject
) -> None:
    before = admin.request("GET", f"{VMIS}/on-{MINE}")
    assert refused(handler, f"{VMIS}/on-{MINE}", change)
    assert admin.request("GET", f"{VMIS}/on-{MINE}") == before


def test_it_neither_makes_nor_deletes_vmis(two_nodes: None, handler: KubeClient, admin: KubeClient) -> None:
    with pytest.raises((Forbidden, Invalid)):
        handler.request("POST", VMIS, small_vmi())
    with pytest.raises((Forbidden, Invalid)):
        handler.request("DELETE", f"{VMIS}/on-{MINE}")
    assert "deletionTimestamp" not in admin.request("GET", f"{VMIS}/on-{MINE}")["metadata"]


def test_it_labels_its_own_node_only(two_nodes: None, handler: KubeClient, admin: KubeClient) -> None:
    labels = {"kubevirt.io/schedulable": "true", **read_cpu_labels(Path("/nowhere"))}
    label = {"metadata": {"labels": labels, "annotations": {"kvedge.io/note": "x"}}}
    assert refused(handler, f"{NODES}/{MINE}", label) == ""
    assert refused(handler, f"{NODES}/{THEIRS}", label)
    assert "labels" not in admin.request("GET", f"{NODES}/{THEIRS}")["metadata"]


@pytest.mark.parametrize(
    "change",
    [
        {"spec": {"unschedulable": True}},
        {"metadata": {"labels": {"node-role.kubernetes.io/control-plane": ""}}},
        {"metadata": {"labels": {"evil-kubevirt.io/a": "b"}}},
        {"metadata": {"labels": {"cpumanager2": "true"}}},
    ],
    ids=["spec", "label", "label of a like name", "label like the one without a domain"],
)
def test_of_its_own_node_it_changes_our_labels_only(
    server: ApiServerUnderTest, two_nodes: None, handler: KubeClient, speaker: str, change: JsonObject
) -> None:
    if server.name == "embedded":
        pytest.skip("one box has one node, and its agent speaks for it as well")
    if speaker == "node" and "node-role" not in str(change):
        pytest.skip("the API server allows it to kubelets")
    assert refused(handler, f"{NODES}/{MINE}", change)


@pytest.mark.parametrize("node", [MINE, THEIRS, ""])
def test_a_service_account_speaks_for_the_node_of_its_token(
    server: ApiServerUnderTest, two_nodes: None, kubectl: Kubectl, node: str
) -> None:
    if server.name == "embedded":
        pytest.skip("one box has no handler with a service account")
    caller = [f"--as={HANDLER_ACCOUNT}", *([f"--as-user-extra={NODE_EXTRA}={node}"] if node else [])]
    patch = '{"metadata": {"annotations": {"kvedge.io/note": "x"}}}'
    for target in (MINE, THEIRS):
        for kind, name in (("vmi", f"on-{target}"), ("node", target)):
            done = kubectl.try_run("patch", kind, name, "--type=merge", "-p", patch, *caller)
            assert (done.returncode == 0) == (target == node), done.stderr
            assert target == node or "Node restriction" in done.stderr


COMING = f"{VMIS}/coming"
STATE = {"migrationUid": "m", "sourceNode": THEIRS, "targetNode": MINE, "sourcePod": "a", "targetPod": "b"}
TAKEN = {
    "metadata": {"labels": {"kubevirt.io/nodeName": MINE, "kubevirt.io/migrationTargetNodeName": None}},
    "status": {"nodeName": MINE, "migrationState": {"completed": True, "targetNodeDomainReadyTimestamp": "now"}},
}


FAILED = {"failed": True, "completed": True, "endTimestamp": "now", "failureReason": "lost"}


def state(**members: object) -> JsonObject:
    return {"status": {"migrationState": members}}


@pytest.fixture
def coming(two_nodes: None, controller: KubeClient) -> Iterator[str]:
    """A VMI on THEIRS."""
    vmi = small_vmi()
    vmi["metadata"]["name"] = "coming"
    controller.request("POST", VMIS, vmi, None)
    yield COMING
    remove(controller, COMING)


def check_a_guest_comes(handler: KubeClient, controller: KubeClient) -> None:
    """What the target of a migration may write, before its source is gone and then."""
    labels = {"kubevirt.io/nodeName": THEIRS, "kubevirt.io/migrationTargetNodeName": MINE, "team": "blue"}
    seen = {"metadata": {"labels": labels}, "status": {"phase": "Running", "nodeName": THEIRS}}
    controller.request("PATCH", COMING, seen, None, MERGE)
    assert refused(handler, COMING, state(targetNodeAddress="192.0.2.1:1")), "nobody has asked it"
    controller.request("PATCH", COMING, state(**STATE), None, MERGE)
    for change in (
        TAKEN,
        state(sourceNodeDomainGoneTimestamp="now"),
        state(startTimestamp="now"),
        {"metadata": {"labels": {"team": "red"}}},
        {"metadata": {"labels": {"team": None}}},
        {"metadata": {"labels": {"more": "x"}}},
        {"metadata": {"annotations": {"kvedge.io/note": "x"}}},
        state(completed=True),
        state(endTimestamp="now"),
        state(**FAILED),
        state(abortRequested=True),
        state(targetNode=THEIRS),
        {"status": {"phase": "Failed"}},
        {"metadata": {"labels": {"kubevirt.io/nodeName": MINE}}},
        {"status": {"migrationState": None}},
    ):
        assert refused(handler, COMING, change), change
    assert refused(handler, COMING, state(targetNodeAddress="192.0.2.1:1")) == ""
    controller.request("PATCH", COMING, state(sourcePodGoneTimestamp="now"), None, MERGE)
    assert refused(handler, COMING, {"status": {"nodeName": "restricted-3"}})
    half = {**TAKEN, "status": {"nodeName": MINE}}
    failed = {**TAKEN, "status": {"nodeName": MINE, "migrationState": FAILED}}
    labelled = {**TAKEN, "metadata": {"labels": {**TAKEN["metadata"]["labels"], "team": "red"}}}
    alone = {"metadata": {"labels": {"kubevirt.io/nodeName": MINE}}}
    for change in (alone, state(completed=True), half, failed, labelled):
        assert refused(handler, COMING, change), change
    lost = {**state(**FAILED)["status"], "phase": "Failed"}
    assert may_write(handler, COMING, {"status": lost}), "its guest is lost"
    assert refused(handler, COMING, TAKEN) == ""
    assert refused(handler, COMING, state(failed=True)), "it has ended"
    assert report(COMING, handler) == ""
    assert refused(handler, COMING, {"metadata": {"labels": {"team": "red"}}}) == "", "it is its own"


def test_the_target_of_a_migration_takes_a_vmi_over_once_its_source_is_gone(
    coming: str, handler: KubeClient, controller: KubeClient
) -> None:
    check_a_guest_comes(handler, controller)


def test_the_target_names_the_claims_that_disks_were_copied_to_once_the_source_is_gone(
    two_nodes: None, handler: KubeClient, controller: KubeClient
) -> None:
    vmi, path = small_vmi(), f"{VMIS}/exchanging"
    vmi["metadata"]["name"] = "exchanging"
    vmi["spec"]["volumes"] = [
        {"name": "data", "dataVolume": {"name": "old"}},
        {"name": "more", "persistentVolumeClaim": {"claimName": "stays"}},
    ]
    vmi["spec"]["domain"]["devices"] |= {"disks": [{"name": name, "disk": {}} for name in ("data", "more")]}
    controller.request("POST", VMIS, vmi, None)
    moved = {"volumeName": "data", "sourcePVCInfo": {"claimName": "old"}, "destinationPVCInfo": {"claimName": "new"}}
    labels = {"kubevirt.io/nodeName": THEIRS, "kubevirt.io/migrationTargetNodeName": MINE}
    status = {"phase": "Running", "nodeName": THEIRS, "migratedVolumes": [moved]}
    controller.request("PATCH", path, {"metadata": {"labels": labels}, "status": status}, None, MERGE)
    gone = {**STATE, "sourceNodeDomainGoneTimestamp": "now"}
    controller.request("PATCH", path, state(**STATE), None, MERGE)

    def on(claim: JsonObject, other: str = "stays", **spec: object) -> JsonObject:
        there = [{"name": "data", "persistentVolumeClaim": claim}]
        there.append({"name": "more", "persistentVolumeClaim": {"claimName": other}})
        return {"spec": {"volumes": there, **spec}}

    assert refused(handler, path, on({"claimName": "new"})), "its source may go on"
    controller.request("PATCH", path, state(**gone), None, MERGE)
    for change in (
        on({"claimName": "third"}),
        on({"claimName": "new", "readOnly": True}),
        on({"claimName": "new"}, other="new"),
        on({"claimName": "new"}, terminationGracePeriodSeconds=1),
    ):
        assert refused(handler, path, change), change
    assert refused(handler, path, on({"claimName": "new"})) == ""
    written = controller.request("GET", path, None, None)
    assert written["spec"]["volumes"][0] == {"name": "data", "persistentVolumeClaim": {"claimName": "new"}}
    taken = {**TAKEN, "status": {**TAKEN["status"], "migratedVolumes": None}}
    assert refused(handler, path, taken) == ""
    remove(controller, path)


def test_the_source_of_a_migration_speaks_for_itself_alone(
    two_nodes: None, handler: KubeClient, controller: KubeClient
) -> None:
    path = f"{VMIS}/on-{MINE}"
    leaving = {**STATE, "sourceNode": MINE, "targetNode": THEIRS}
    controller.request("PATCH", path, state(**leaving), None, MERGE)
    assert refused(handler, path, state(startTimestamp="now", mode="PreCopy")) == ""
    assert refused(handler, path, state(targetNodeAddress="192.0.2.1:1"))
    assert refused(handler, path, state(sourcePodGoneTimestamp="now"))
    assert refused(handler, path, {"status": {"nodeName": THEIRS}})
    assert refused(handler, path, state(completed=True, endTimestamp="now"))
    assert may_write(handler, path, state(**FAILED)), "its guest stays"
    assert refused(handler, path, state(sourceNodeDomainGoneTimestamp="now")) == ""
    controller.request("PATCH", path, {"status": {"migrationState": None}}, None, MERGE)


def test_it_is_kept_to_its_node_while_nobody_can_be_asked(
    server: ApiServerUnderTest,
    coming: str,
    handler: KubeClient,
    api_role: ApiRole,
    admin: KubeClient,
    controller: KubeClient,
) -> None:
    api_role.stop()
    try:
        assert report(f"{VMIS}/on-{MINE}", handler, "Succeeded") == ""
        assert report(f"{VMIS}/on-{THEIRS}", handler, "Failed")
        assert refused(handler, f"{NODES}/{THEIRS}", {"metadata": {"labels": {"kubevirt.io/a": "b"}}})
        if server.name == "real":
            # One box has no other node, and no policy of its server.
            check_a_guest_comes(handler, controller)
    finally:
        api_role.start()
    wait_until(lambda: judges_again(admin), "the webhooks are called again")


def judges_again(admin: KubeClient) -> bool:
    try:
        admin.request("POST", VMIS, small_vmi(), {"dryRun": "All"})
    except KubeError:
        return False
    return True


def test_who_only_calls_itself_a_node_is_none(two_nodes: None, server: ApiServerUnderTest, kubectl: Kubectl) -> None:
    if server.name == "embedded":
        pytest.skip("one box has no kubelet, whose credentials a handler could have")
    # A name without the group, and the group without a name: neither passes for MINE.
    for caller in ([f"--as={NODE_PREFIX}{MINE}"], ["--as=someone", f"--as-group={NODES_GROUP}"]):
        patch = '{"status": {"phase": "Failed"}}'
        done = kubectl.try_run("patch", "vmi", f"on-{MINE}", "--type=merge", "-p", patch, *caller)
        assert done.returncode != 0, done.stdout


def test_the_refusal_says_which_restriction_it_is(
    server: ApiServerUnderTest, two_nodes: None, handler: KubeClient
) -> None:
    said = report(f"{VMIS}/on-{THEIRS}", handler)
    # One box refuses by its authorization, before admission.
    assert (OWNED if server.name == "real" else 'User "kvedge:handler:restricted-1" cannot patch') in said


@pytest.mark.usefixtures("two_nodes")
def test_a_handler_names_the_claims_that_disks_have_moved_to_in_place(
    admin: KubeClient, controller: KubeClient, handler: KubeClient
) -> None:
    def volumes(claim: str) -> JsonObject:
        return {"spec": {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]}}

    said = {"type": "VolumesChange", "status": "True", "reason": "InPlace"}
    for node in (MINE, THEIRS):
        path, vmi = f"{VMIS}/moving-on-{node}", small_vmi(**volumes("mine")["spec"])
        vmi["metadata"]["name"] = f"moving-on-{node}"
        vmi["spec"]["domain"].setdefault("devices", {})["disks"] = [{"name": "data", "disk": {"bus": "virtio"}}]
        controller.request("POST", VMIS, vmi)
        status: JsonObject = {"phase": "Scheduled", "nodeName": node}
        controller.request("PATCH", path, {"status": status}, None, MERGE)
        assert not may_write(handler, path, volumes("theirs"))
        status |= {"migratedVolumes": [{"volumeName": "data", **CLAIMS}], "conditions": [said]}
        controller.request("PATCH", path, {"status": status}, None, MERGE)
        assert bool(refused(handler, path, volumes("theirs"))) is (node != MINE)
        assert not may_write(handler, path, volumes("third"))
        # QEMU may not have exchanged the disks.
        assert may_write(handler, path, volumes("mine")) is (node == MINE)
        remove(admin, path)

"""An unmodified virtctl, with kubectl beside it, against both servers: what needs no guest, and a played handler."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest
import yaml

from kvedge import __version__
from kvedge.api.subresources.discovery_manifest import CONFORMS_TO
from kvedge.kube.errors import Conflict, KubeError
from kvedge.kube.kube_client import KubeClient
from kvedge.resources.codec import JsonObject
from kvedge.resources.guest_verbs import GUEST_VERBS, VM_PLURAL
from kvedge.resources.names import GUESTFS_LABEL
from tests.contract.api.conftest import EchoNode, remove
from tests.support.api_servers import ApiServerUnderTest, Kubectl
from tests.support.builders import small_vmi, vm_of

pytestmark = [pytest.mark.contract, pytest.mark.usefixtures("subresources_answer")]
NAMESPACE = "/apis/kubevirt.io/v1/namespaces/default"
VM, VMI = f"{NAMESPACE}/virtualmachines/web", f"{NAMESPACE}/virtualmachineinstances/web"
MIGRATIONS = f"{NAMESPACE}/virtualmachineinstancemigrations"
SUB = "/apis/subresources.kubevirt.io"
CALLS = f"{SUB}/v1/namespaces/default"
MERGE = "application/merge-patch+json"


@pytest.fixture(scope="module")
def virtctl(server: ApiServerUnderTest) -> Kubectl:
    return Kubectl(server.write_kubeconfig("admin", ["system:masters"]), "virtctl")


@pytest.fixture
def vm(admin: KubeClient) -> Iterator[JsonObject]:
    """A VM that is started by hand."""
    document = vm_of(small_vmi(), runStrategy="Manual")
    document["metadata"]["name"] = "web"
    yield admin.request("POST", VM.rpartition("/")[0], document)
    remove(admin, VM)


@pytest.fixture
def vmi(vm: JsonObject, admin: KubeClient, controller: KubeClient, echo_node: EchoNode) -> Iterator[JsonObject]:
    """Its run, as controller and handler would have made it."""
    document = small_vmi()
    owner = {"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "name": "web", "uid": vm["metadata"]["uid"]}
    document["metadata"] |= {"name": "web", "ownerReferences": [{**owner, "controller": True}]}
    controller.request("POST", VMI.rpartition("/")[0], document)
    yield say(controller, {"phase": "Running", "nodeName": echo_node.name})
    remove(admin, VMI)


def say(controller: KubeClient, status: JsonObject, path: str = VMI) -> JsonObject:
    found: JsonObject = controller.request("PATCH", path, {"status": status}, None, MERGE)
    return found


def paused(status: str) -> JsonObject:
    return {"conditions": [{"type": "Paused", "status": status, "reason": "PausedByUser"}]}


def requests_of(admin: KubeClient) -> list[JsonObject]:
    found: list[JsonObject] = admin.request("GET", VM).get("status", {}).get("stateChangeRequests", [])
    return found


def test_start_paused(virtctl: Kubectl, admin: KubeClient, vm: JsonObject) -> None:
    assert virtctl.run("start", "web", "--paused") == "VM web was scheduled to start\n"
    assert requests_of(admin) == [{"action": "Start", "data": {"paused": "true"}}]


def test_start_of_what_runs(virtctl: Kubectl, vmi: JsonObject) -> None:
    done = virtctl.try_run("start", "web")
    assert done.returncode == 1
    assert "VM is already running" in done.stderr


def test_stop_of_what_does_not_run(virtctl: Kubectl, vm: JsonObject) -> None:
    done = virtctl.try_run("stop", "web")
    assert done.returncode == 1
    assert 'Operation cannot be fulfilled on virtualmachine.kubevirt.io "web": VM is not running' in done.stderr


def test_stop_at_once(virtctl: Kubectl, admin: KubeClient, vmi: JsonObject) -> None:
    assert virtctl.run("stop", "web", "--force", "--grace-period=0") == "VM web was scheduled to stop\n"
    assert requests_of(admin) == [{"action": "Stop", "uid": vmi["metadata"]["uid"]}]
    assert admin.request("GET", VMI)["spec"]["terminationGracePeriodSeconds"] == 0


def test_restart_at_once(virtctl: Kubectl, admin: KubeClient, vmi: JsonObject) -> None:
    assert virtctl.run("restart", "web", "--force", "--grace-period=0") == "VM web was scheduled to restart\n"
    assert [request["action"] for request in requests_of(admin)] == ["Stop", "Start"]
    assert admin.request("GET", VMI)["spec"]["terminationGracePeriodSeconds"] == 1


def test_restart_of_what_does_not_run(virtctl: Kubectl, vm: JsonObject) -> None:
    done = virtctl.try_run("restart", "web")
    assert done.returncode == 1
    assert "VM is not running: Halted" in done.stderr


def test_restart_of_a_halted_vm(virtctl: Kubectl, admin: KubeClient, vm: JsonObject) -> None:
    admin.request("PATCH", VM, {"spec": {"runStrategy": "Halted"}}, None, MERGE)
    assert "RunStategy Halted does not support manual restart requests" in virtctl.try_run("restart", "web").stderr


@pytest.mark.parametrize("verb", ["start", "stop", "restart", "pause", "unpause", "reset", "soft-reboot"])
def test_what_is_not_there_is_not_found(virtctl: Kubectl, verb: str) -> None:
    kind = ["vmi"] if verb in ("pause", "unpause") else []
    done = virtctl.try_run(verb, *kind, "absent")
    assert done.returncode == 1
    assert '"absent" not found' in done.stderr


@pytest.mark.parametrize("kind", ["vm", "vmi"])
def test_pause_and_unpause(
    virtctl: Kubectl, controller: KubeClient, vmi: JsonObject, echo_node: EchoNode, kind: str
) -> None:
    assert virtctl.run("pause", kind, "web") == "VMI web was scheduled to pause\n"
    assert echo_node.door.calls[-1] == ("default", "web", "pause")
    assert "VMI is not paused" in virtctl.try_run("unpause", kind, "web").stderr
    say(controller, paused("True"))
    assert "VMI is already paused" in virtctl.try_run("pause", kind, "web").stderr
    assert virtctl.run("unpause", kind, "web") == "VMI web was scheduled to unpause\n"
    assert echo_node.door.calls[-1] == ("default", "web", "unpause")


def test_a_dry_pause_reaches_no_guest(virtctl: Kubectl, vmi: JsonObject, echo_node: EchoNode) -> None:
    before = list(echo_node.door.calls)
    assert virtctl.try_run("pause", "vmi", "web", "--dry-run").returncode == 0
    assert echo_node.door.calls == before


def test_pause_before_it_runs(virtctl: Kubectl, controller: KubeClient, vmi: JsonObject) -> None:
    say(controller, {"phase": "Scheduling"})
    assert "VM is not running" in virtctl.try_run("pause", "vmi", "web").stderr
    assert "VMI is not running" in virtctl.try_run("unpause", "vmi", "web").stderr
    assert "VM is not running" in virtctl.try_run("soft-reboot", "web").stderr


def test_unpause_waits_for_a_snapshot(virtctl: Kubectl, controller: KubeClient, vmi: JsonObject) -> None:
    say(controller, paused("True"))
    say(controller, {"snapshotInProgress": "s1"}, f"{VM}/status")
    text = 'Operation cannot be fulfilled on virtualmachine.kubevirt.io "web": VM snapshot is in progress'
    assert text in virtctl.try_run("unpause", "vmi", "web").stderr


def test_reset_and_soft_reboot(virtctl: Kubectl, vmi: JsonObject, echo_node: EchoNode) -> None:
    assert virtctl.try_run("reset", "web").returncode == 0
    assert echo_node.door.calls[-1] == ("default", "web", "reset")
    assert virtctl.try_run("soft-reboot", "web").returncode == 0
    assert echo_node.door.calls[-1] == ("default", "web", "softreboot")


def test_soft_reboot_of_a_paused_guest(virtctl: Kubectl, controller: KubeClient, vmi: JsonObject) -> None:
    say(controller, paused("True"))
    assert "VMI is paused" in virtctl.try_run("soft-reboot", "web").stderr


def test_reset_of_what_no_node_has(virtctl: Kubectl, controller: KubeClient, vmi: JsonObject) -> None:
    say(controller, {"phase": "Scheduling"})
    done = virtctl.try_run("reset", "web")
    assert done.returncode == 1
    assert "Unable to connect to VirtualMachineInstance because phase is Scheduling" in done.stderr


def test_version(virtctl: Kubectl) -> None:
    both = virtctl.try_run("version")
    assert "Client Version" in both.stdout
    assert "Server Version" in both.stdout
    assert "Server Version" not in virtctl.run("version", "--client")


def test_a_virtctl_of_the_release_whose_api_is_served_says_nothing_of_versions(virtctl: Kubectl) -> None:
    release = re.search(r'GitVersion:"(v[^"+]*)', virtctl.run("version", "--client"))
    assert release is not None
    if release[1].split(".")[:2] != CONFORMS_TO.split(".")[:2]:
        pytest.skip(f"this virtctl is of {release[1]}, kvedge conforms to {CONFORMS_TO}")
    done = virtctl.try_run("start", "nothing")
    assert done.returncode == 1
    assert "different from the KubeVirt version" not in done.stderr + done.stdout


def test_a_vm_that_virtctl_writes_is_accepted(virtctl: Kubectl, kubectl: Kubectl, admin: KubeClient) -> None:
    manifest = virtctl.run(
        "create", "vm", "--name=made", "--memory=128Mi", "--run-strategy=Manual", "--volume-containerdisk=src:demo:1",
        "--user=fedora", "--ssh-key=ssh-ed25519 AAAA", "--cloud-init=noCloud",
    )  # fmt: skip
    made = f"{NAMESPACE}/virtualmachines/made"
    try:
        assert "virtualmachine.kubevirt.io/made created" in kubectl.run("apply", "-f", "-", text=manifest)
        assert "unchanged" in kubectl.run("apply", "-f", "-", text=manifest)
        spec = admin.request("GET", made)["spec"]["template"]["spec"]
        assert spec["domain"]["machine"]["type"] == "q35"
        assert [volume["name"] for volume in spec["volumes"]] == ["made-containerdisk-0", "cloudinitdisk"]
        assert kubectl.run("get", "vm", "made", "-o", "jsonpath={.status.printableStatus}") == "Stopped"
        # What changes is shown before it is applied.
        diff = kubectl.try_run("diff", "-f", "-", text=manifest.replace("128Mi", "256Mi"))
        assert diff.returncode == 1, diff.stderr
        assert "+          guest: 256Mi" in diff.stdout
        assert "configured" in kubectl.run("apply", "-f", "-", text=manifest.replace("128Mi", "256Mi"))
    finally:
        remove(admin, made)


def test_a_vm_that_is_wrong_is_refused_with_all_that_is_wrong(kubectl: Kubectl) -> None:
    vm = vm_of(small_vmi(domain__devices__disks=[{"name": "a"}, {"name": "a"}], hostname="A.b"))
    done = kubectl.try_run("apply", "-f", "-", text=yaml.safe_dump(vm))
    assert done.returncode == 1
    for words in (
        "spec.template.spec.domain.devices.disks[0].Name 'a' not found.",
        "spec.template.spec.domain.devices.disks[0] and spec.template.spec.domain.devices.disks[1] must not have",
        "spec.template.spec.hostname: does not conform to the kubernetes DNS_LABEL rules",
    ):
        assert words in done.stderr


@pytest.mark.parametrize("kind", ["vm", "vmi"])
def test_expose(virtctl: Kubectl, kubectl: Kubectl, vmi: JsonObject, kind: str) -> None:
    name = f"web-{kind}"
    said = virtctl.run("expose", kind, "web", f"--name={name}", "--port=27017", "--target-port=22")
    try:
        assert f"Service {name} successfully created for {kind} web" in said
        spec = json.loads(kubectl.run("get", "service", name, "-o", "json"))["spec"]
        assert spec["selector"] == {"vmi.kubevirt.io/id": "web"}
        assert [(port["port"], port["targetPort"]) for port in spec["ports"]] == [(27017, 22)]
    finally:
        kubectl.run("delete", "service", name)


def test_expand(virtctl: Kubectl, vm: JsonObject) -> None:
    expanded = yaml.safe_load(virtctl.run("expand", "--vm", "web"))["spec"]["template"]["spec"]
    # virtctl itself writes out what is empty.
    assert expanded["domain"].pop("resources") == {}
    assert expanded == vm["spec"]["template"]["spec"]


def test_expand_of_a_file(admin: KubeClient) -> None:
    vm = vm_of(small_vmi())
    answer = admin.request("PUT", f"{CALLS}/expand-vm-spec", vm)
    assert answer["spec"] == vm["spec"]


@pytest.mark.parametrize(
    ("change", "code", "words"),
    [
        ({"kind": "Pod"}, 400, "Object is not a valid VirtualMachine"),
        ({"spec": {"tempalte": {}}}, 400, "Object is not a valid VirtualMachine"),
        ({"metadata": {"name": "a", "namespace": "other"}}, 400, "VM namespace must be empty or default"),
        ({"spec": {"instancetype": {"name": "none.such"}, "template": {}}}, 500, '"none.such" not found'),
    ],
    ids=["kind", "field", "namespace", "instance type"],
)
def test_what_cannot_be_expanded(admin: KubeClient, change: JsonObject, code: int, words: str) -> None:
    with pytest.raises(KubeError) as refusal:
        admin.request("PUT", f"{CALLS}/expand-vm-spec", vm_of(small_vmi()) | change)
    assert refusal.value.status == code
    assert words in refusal.value.message


@pytest.mark.parametrize(
    "name", sorted({verb.name for verb in GUEST_VERBS if verb.way == "later" and verb.method == "PUT"})
)
def test_what_later_releases_bring_is_told_apart(admin: KubeClient, vmi: JsonObject, name: str) -> None:
    for plural in {verb.resource for verb in GUEST_VERBS if verb.name == name}:
        with pytest.raises(KubeError) as refusal:
            admin.request("PUT", f"{CALLS}/{plural}/web/{name}", {})
        assert (refusal.value.status, refusal.value.reason) == (501, "NotImplemented")
        assert f"{plural}/{name}: not supported by kvedge" in refusal.value.message


def test_guestfs_names_the_image_of_a_node_that_has_libguestfs_or_says_what_is_to_be_done(
    virtctl: Kubectl, admin: KubeClient, second_node: str
) -> None:
    refused = virtctl.try_run("guestfs", "nowhere")
    assert refused.returncode == 1
    assert "no node has libguestfs for virtctl guestfs" in refused.stderr
    assert "libguestfs-make-fixed-appliance /usr/local/lib/guestfs/appliance" in refused.stderr
    admin.request(
        "PATCH", f"/api/v1/nodes/{second_node}", {"metadata": {"labels": {GUESTFS_LABEL: "true"}}}, None, MERGE
    )
    found = virtctl.try_run("guestfs", "nowhere")
    assert "Use image: kvedge.local/guestfs:v1" in found.stdout
    assert "The PVC nowhere doesn't exist" in found.stderr


def test_virtctl_says_what_is_not_supported(virtctl: Kubectl, vmi: JsonObject) -> None:
    done = virtctl.try_run("objectgraph", "web")
    assert done.returncode == 1
    assert "ObjectGraph feature gate not enabled" in done.stderr


def test_migrate_and_migrate_cancel(virtctl: Kubectl, admin: KubeClient, vmi: JsonObject, second_node: str) -> None:
    assert virtctl.run("migrate", "web", "--dry-run").endswith("VM web was scheduled to migrate\n")
    assert admin.request("GET", MIGRATIONS)["items"] == []
    told = virtctl.try_run("migrate", "web", "--addedNodeSelector", "zone=c")
    assert told.stdout == "VM web was scheduled to migrate\n"
    assert "no other node that takes VMs has these labels" in told.stderr
    [made] = admin.request("GET", MIGRATIONS)["items"]
    assert made["metadata"]["name"].startswith("kubevirt-migrate-vm-")
    assert made["spec"] == {"vmiName": "web", "addedNodeSelector": {"zone": "c"}}
    again = virtctl.try_run("migrate", "web")
    assert again.returncode == 1
    assert "in-flight migration detected" in again.stderr
    virtctl.run("migrate-cancel", "web")
    path = f"{MIGRATIONS}/{made['metadata']['name']}"
    assert "deletionTimestamp" in admin.request("GET", path)["metadata"]
    # The controller would take the finalizer off, once the guest stays.
    admin.request("PATCH", path, {"metadata": {"finalizers": None}}, None, MERGE)
    nothing = virtctl.try_run("migrate-cancel", "web")
    assert "Found no migration to cancel for web" in nothing.stderr


def test_migrate_says_what_keeps_a_guest_where_it_is(virtctl: Kubectl, controller: KubeClient, vmi: JsonObject) -> None:
    alone = virtctl.try_run("migrate", "web")
    assert alone.returncode == 1
    assert 'VMI "default/web" has no other node to go to: node echo is the only one.' in alone.stderr
    assert 'virtualmachine.kubevirt.io "none" not found' in virtctl.try_run("migrate", "none").stderr
    say(controller, {"phase": "Scheduled"})
    early = virtctl.try_run("migrate", "web").stderr
    assert 'Operation cannot be fulfilled on virtualmachine.kubevirt.io "web": VM is not running' in early


@pytest.mark.parametrize("body", ["paused: true\n", '{"paused": true}', "# nothing but a comment\npaused: true"])
def test_options_are_yaml_or_json(admin: KubeClient, vm: JsonObject, kubectl: Kubectl, body: str) -> None:
    path = f"{CALLS}/{VM_PLURAL}/web/start"
    done = kubectl.try_run("replace", "--raw", path, "-f", "-", text=body)
    assert done.returncode == 0, done.stderr
    assert requests_of(admin) == [{"action": "Start", "data": {"paused": "true"}}]


def test_options_that_cannot_be_read(admin: KubeClient, vm: JsonObject) -> None:
    with pytest.raises(KubeError, match="Can not unmarshal Request body to struct, error: ") as refusal:
        admin.request("PUT", f"{CALLS}/{VM_PLURAL}/web/start", {"paused": "perhaps"})
    assert (refusal.value.status, refusal.value.reason) == (400, "BadRequest")


@pytest.mark.parametrize("version", ["v1", "v1alpha3"])
def test_both_versions_of_the_aggregated_api_answer(admin: KubeClient, vm: JsonObject, version: str) -> None:
    assert admin.request("GET", f"{SUB}/{version}/version")["gitVersion"] == f"v1.9.0+kvedge{__version__}"
    health = admin.request("GET", f"{SUB}/{version}/healthz")
    assert health["apiserver"]["connectivity"] == "ok"
    with pytest.raises(Conflict, match="VM is not running"):
        admin.request("PUT", f"{SUB}/{version}/namespaces/default/{VM_PLURAL}/web/stop", {})
    listed = admin.request("GET", f"{SUB}/{version}")
    assert (listed["kind"], listed["groupVersion"]) == ("APIResourceList", f"subresources.kubevirt.io/{version}")


LISTED = {
    "expand-vm-spec",
    *(f"virtualmachines/{name}" for name in ("start", "stop", "restart", "migrate", "expand-spec", "objectgraph",
                                             "evacuate/cancel")),
    *(f"virtualmachineinstances/{name}" for name in (
        "vnc", "vnc/screenshot", "console", "portforward", "backup", "redefine-checkpoint", "pause", "unpause",
        "freeze", "unfreeze", "reset", "softreboot", "guestosinfo", "userlist", "filesystemlist", "addvolume",
        "removevolume",
        "objectgraph", "evacuate/cancel", "sev/fetchcertchain", "sev/querylaunchmeasurement", "sev/setupsession",
        "sev/injectlaunchsecret",
    )),
}  # fmt: skip


def test_discovery_lists_what_kubevirt_lists(admin: KubeClient) -> None:
    names = {resource["name"] for resource in admin.request("GET", f"{SUB}/v1")["resources"]}
    ours = {
        f"virtualmachineinstances/{name}"
        for name in ("console/log", "migration", "network", "network/capture", "spice", "trace", "usage")
    }
    assert names - ours == LISTED


def test_the_group_prefers_v1(admin: KubeClient) -> None:
    group = admin.request("GET", SUB)
    assert (group["kind"], group["name"]) == ("APIGroup", "subresources.kubevirt.io")
    assert group["preferredVersion"]["groupVersion"] == "subresources.kubevirt.io/v1"
    assert [version["version"] for version in group["versions"]] == ["v1", "v1alpha3"]


def test_kubectl_lists_our_kinds_and_nothing_odd(kubectl: Kubectl) -> None:
    lines = kubectl.run("api-resources", "--no-headers").splitlines()
    assert not [line for line in lines if "subresources.kubevirt.io" in line]
    kinds = {line.split()[-1] for line in lines if "kubevirt.io/v1" in line}
    assert {"VirtualMachine", "VirtualMachineInstance", "KubeVirt"} <= kinds

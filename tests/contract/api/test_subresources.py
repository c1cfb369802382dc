"""start to console as an API server forwards them, called by an unmodified virtctl."""

from __future__ import annotations

import json
import os
import pty
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from kvedge import __version__
from kvedge.api.api_service import ApiRole
from kvedge.api.subresources.discovery_manifest import CONFORMS_TO
from kvedge.handler.launchers.relay_core import DoorError
from kvedge.handler.launchers.relay_service import RelayConfig, RelayService
from kvedge.kube.errors import Conflict, Forbidden, KubeError, NotFound
from kvedge.kube.kube_client import KubeClient
from kvedge.resources.codec import JsonObject
from kvedge.resources.names import HANDLER_ADDRESS
from tests.contract.api.conftest import handler_client, remove
from tests.contract.api.stream_parts import MERGE, PODS, echo_server, launcher_pod
from tests.support.api_servers import ApiServerUnderTest, Kubectl
from tests.support.builders import small_vmi, vm_of
from tests.support.echo_door import EchoDoor
from tests.support.kube_apiserver import reachable_address
from tests.support.kvedge_cli import KvedgeCli
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.contract, pytest.mark.usefixtures("webhooks_are_called")]
NODE = "node1"
VMS = "/apis/kubevirt.io/v1/namespaces/default/virtualmachines"
VMIS = "/apis/kubevirt.io/v1/namespaces/default/virtualmachineinstances"
SUB = "/apis/subresources.kubevirt.io/v1/namespaces/default"


@pytest.fixture(scope="module")
def door() -> EchoDoor:
    return EchoDoor()


@pytest.fixture(scope="module")
def relay(server: ApiServerUnderTest, admin: KubeClient, api_role: ApiRole, door: EchoDoor) -> Iterator[RelayService]:
    client = handler_client(server, NODE)
    service = RelayService(client, RelayConfig(NODE), door)
    service.start()
    wait_until(lambda: service.address, "the relay serves")
    annotations = {HANDLER_ADDRESS: service.address}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE, "annotations": annotations}}
    admin.request("POST", "/api/v1/nodes", node)
    yield service
    service.stop()
    client.close()
    admin.request("DELETE", f"/api/v1/nodes/{NODE}")


@pytest.fixture(scope="module", autouse=True)
def aggregated(admin: KubeClient, api_role: ApiRole) -> None:
    """The server needs a moment until it forwards."""

    def answers() -> bool:
        try:
            admin.request("GET", f"{SUB.removesuffix('/namespaces/default')}/version")
        except KubeError:
            return False
        return True

    wait_until(answers, "the aggregated API answers")


@pytest.fixture
def vm(admin: KubeClient, controller: KubeClient) -> Iterator[JsonObject]:
    yield admin.request("POST", VMS, vm_of(small_vmi(), runStrategy="Manual"))
    remove(admin, f"{VMS}/small")


@pytest.fixture
def running(vm: JsonObject, controller: KubeClient, request: pytest.FixtureRequest) -> Iterator[JsonObject]:
    """The VM's VMI, as controller and handler would have made it; a parameter is what differs."""
    vmi = small_vmi(**getattr(request, "param", {}))
    owner = {"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "name": "small", "uid": vm["metadata"]["uid"]}
    vmi["metadata"]["ownerReferences"] = [{**owner, "controller": True}]
    controller.request("POST", VMIS, vmi)
    controller.request("PATCH", f"{VMS}/small/status", {"status": {"created": True}}, None, MERGE)
    yield set_status(controller, {"phase": "Running", "nodeName": NODE, "conditions": []})
    remove(controller, f"{VMIS}/small")


def set_status(controller: KubeClient, status: JsonObject) -> JsonObject:
    return controller.request("PATCH", f"{VMIS}/small", {"status": status}, None, MERGE)


@pytest.fixture(scope="module")
def virtctl(server: ApiServerUnderTest) -> Kubectl:
    return Kubectl(server.write_kubeconfig("admin", ["system:masters"]), "virtctl")


def test_virtctl_finds_the_version(virtctl: Kubectl) -> None:
    done = virtctl.try_run("version")
    assert done.returncode == 0, done.stderr
    assert "Server Version" in done.stdout
    assert f"{CONFORMS_TO}+kvedge{__version__}" in done.stdout


def test_the_calls_are_in_the_servers_openapi_documents(admin: KubeClient) -> None:
    start = f"{SUB.replace('default', '{namespace}')}/virtualmachines/{{name}}/start"

    def described() -> bool:
        return start in admin.request("GET", "/openapi/v2")["paths"]

    wait_until(described, "the paths are merged into the server's", 120)
    root = "apis/subresources.kubevirt.io/v1"
    index = wait_until(lambda: admin.request("GET", "/openapi/v3")["paths"].get(root), "they are listed", 120)
    assert start in admin.request("GET", index["serverRelativeURL"])["paths"]


def test_virtctl_starts_a_vm(virtctl: Kubectl, admin: KubeClient, vm: JsonObject) -> None:
    done = virtctl.try_run("start", "small")
    assert (done.returncode, done.stdout) == (0, "VM small was scheduled to start\n"), done.stderr
    assert admin.request("GET", f"{VMS}/small")["status"]["stateChangeRequests"] == [{"action": "Start"}]


def test_a_second_start_is_told_that_one_is_under_way(virtctl: Kubectl, vm: JsonObject) -> None:
    assert virtctl.try_run("start", "small").returncode == 0
    again = virtctl.try_run("start", "small")
    assert again.returncode == 1
    assert "unable to complete request: stop/start already underway" in again.stderr


def test_virtctl_stops_a_vm(virtctl: Kubectl, admin: KubeClient, running: JsonObject) -> None:
    done = virtctl.try_run("stop", "small", "--force", "--grace-period", "3")
    assert (done.returncode, done.stdout) == (0, "VM small was scheduled to stop\n"), done.stderr
    requests = admin.request("GET", f"{VMS}/small")["status"]["stateChangeRequests"]
    assert requests == [{"action": "Stop", "uid": running["metadata"]["uid"]}]
    assert admin.request("GET", f"{VMIS}/small")["spec"]["terminationGracePeriodSeconds"] == 3


def test_virtctl_restarts_a_vm(virtctl: Kubectl, admin: KubeClient, running: JsonObject) -> None:
    assert virtctl.try_run("restart", "small").returncode == 0
    requests = admin.request("GET", f"{VMS}/small")["status"]["stateChangeRequests"]
    assert requests == [{"action": "Stop", "uid": running["metadata"]["uid"]}, {"action": "Start"}]


def test_a_dry_run_changes_nothing(virtctl: Kubectl, admin: KubeClient, vm: JsonObject) -> None:
    assert virtctl.try_run("start", "small", "--dry-run").returncode == 0
    assert "stateChangeRequests" not in admin.request("GET", f"{VMS}/small").get("status", {})


def test_starting_a_halted_vm_rewrites_its_strategy(virtctl: Kubectl, admin: KubeClient, vm: JsonObject) -> None:
    admin.request("PATCH", f"{VMS}/small", {"spec": {"runStrategy": "Halted"}}, None, MERGE)
    assert virtctl.try_run("start", "small").returncode == 0
    assert admin.request("GET", f"{VMS}/small")["spec"]["runStrategy"] == "Always"
    assert virtctl.try_run("stop", "small").returncode == 0
    assert admin.request("GET", f"{VMS}/small")["spec"]["runStrategy"] == "Halted"


def test_a_refusal_carries_kubevirts_words_and_code(admin: KubeClient, vm: JsonObject) -> None:
    with pytest.raises(Conflict) as refusal:
        admin.request("PUT", f"{SUB}/virtualmachines/small/stop", {})
    text = 'Operation cannot be fulfilled on virtualmachine.kubevirt.io "small": VM is not running'
    assert (refusal.value.reason, refusal.value.message) == ("Conflict", text)


def test_pause_and_unpause_reach_the_launcher(
    virtctl: Kubectl, controller: KubeClient, running: JsonObject, relay: RelayService, door: EchoDoor
) -> None:
    done = virtctl.try_run("pause", "vm", "small")
    assert done.returncode == 0, done.stderr
    assert door.calls[-1] == ("default", "small", "pause")
    set_status(controller, {"conditions": [{"type": "Paused", "status": "True"}]})
    again = virtctl.try_run("pause", "vmi", "small")
    assert "VMI is already paused" in again.stderr
    assert virtctl.try_run("unpause", "vmi", "small").returncode == 0
    assert door.calls[-1] == ("default", "small", "unpause")


def test_the_console_carries_bytes_both_ways(virtctl: Kubectl, running: JsonObject, relay: RelayService) -> None:
    with Console(virtctl, "small") as console:
        console.expect(b"Successfully connected")
        console.write(b"hello guest\r")
        console.expect(b"hello guest")


def test_a_second_console_takes_over_and_the_first_is_told(
    virtctl: Kubectl, running: JsonObject, relay: RelayService, door: EchoDoor
) -> None:
    with Console(virtctl, "small") as first:
        first.write(b"one\r")
        first.expect(b"one")
        with Console(virtctl, "small") as second:
            first.expect(b"another viewer has opened this console")
            # virtctl tells this only of a connection that ended without a close frame, as KubeVirt's do.
            first.expect(b"another user connected to the console of the target VM")
            second.write(b"two\r")
            second.expect(b"two")
    wait_until(lambda: door.open_streams == 0, "the guest's end is closed")
    assert door.most_open_streams == 1


def test_a_record_of_packets_is_a_file_and_what_is_wrong_with_the_call_is_said(
    kubectl: Kubectl, running: JsonObject, relay: RelayService, door: EchoDoor
) -> None:
    path = f"{SUB}/virtualmachineinstances/small/network"
    door.answer, door.picture = {"interfaces": [], "node": "n"}, b"frames"
    assert json.loads(kubectl.run("get", "--raw", path)) == door.answer
    assert kubectl.run("get", "--raw", f"{path}/capture?seconds=1") == "frames"
    assert "seconds: '0' is no whole number" in kubectl.try_run("get", "--raw", f"{path}/capture?seconds=0").stderr


def test_the_consoles_log_is_read_by_a_right_of_its_own(
    server: ApiServerUnderTest, admin: KubeClient, kubectl: Kubectl, running: JsonObject, relay: RelayService,
    door: EchoDoor,
) -> None:  # fmt: skip
    door.console_text = b"<b>boot</b>\x1b[31m login:"
    path = f"{SUB}/virtualmachineinstances/small/console/log"
    assert kubectl.run("get", "--raw", path) == door.console_text.decode()
    assert kubectl.run("get", "--raw", f"{path}?tailBytes=6") == "login:"
    listed = admin.request("GET", SUB.removesuffix("/namespaces/default"))["resources"]
    assert {"virtualmachineinstances/console/log"} < {entry["name"] for entry in listed}
    # An API server sees the first part of the name only; whether it may be the log as well is asked by the api role.
    resources = ["virtualmachineinstances/console"]
    rules = [{"apiGroups": ["subresources.kubevirt.io"], "resources": resources, "verbs": ["get"]}]
    role = {"metadata": {"name": "log-reader"}, "rules": rules}
    subject = {"kind": "User", "name": "carol", "apiGroup": "rbac.authorization.k8s.io"}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "log-reader"}
    base = "/apis/rbac.authorization.k8s.io/v1/namespaces/default"
    admin.request("POST", f"{base}/roles", role)
    admin.request("POST", f"{base}/rolebindings", {**role, "roleRef": reference, "subjects": [subject]})
    carol = Kubectl(server.write_kubeconfig("carol"))
    try:
        refusal = 'cannot get resource "virtualmachineinstances/console/log"'
        wait_until(lambda: refusal in carol.try_run("get", "--raw", path).stderr, "the api role refuses carol")
        resources.append("virtualmachineinstances/console/log")
        admin.request("PUT", f"{base}/roles/log-reader", role)
        wait_until(lambda: carol.try_run("get", "--raw", path).returncode == 0, "carol may read the log")
    finally:
        admin.request("DELETE", f"{base}/roles/log-reader")
        admin.request("DELETE", f"{base}/rolebindings/log-reader")


def test_a_display_is_proxied(virtctl: Kubectl, running: JsonObject, relay: RelayService) -> None:
    command = [str(virtctl.path), "--kubeconfig", str(virtctl.kubeconfig), "vnc", "small", "--proxy-only"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as proxy:
        assert proxy.stdout is not None
        port = json.loads(proxy.stdout.readline())["port"]
        with socket.create_connection(("127.0.0.1", port), 20) as client:
            client.sendall(b"RFB 003.008\n")
            assert client.recv(100) == b"RFB 003.008\n"
        proxy.terminate()


@pytest.mark.parametrize("running", [{"domain__devices__clientPassthrough": {}}], indirect=True, ids=["with slots"])
def test_a_usb_device_is_redirected(
    virtctl: Kubectl, running: JsonObject, relay: RelayService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = tmp_path / "seen"
    script = tmp_path / "usbredirect"
    script.write_text(
        f"#!{sys.executable}\nimport pathlib, socket, sys\n"
        "device, (host, port) = sys.argv[2], sys.argv[4].rsplit(':', 1)\n"
        "with socket.create_connection((host.strip('[]'), int(port))) as slot:\n"
        f"    slot.sendall(device.encode())\n    pathlib.Path({str(seen)!r}).write_bytes(slot.recv(20))\n"
    )
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    virtctl.try_run("usbredir", "0951:1666", "small")
    assert seen.read_text() == "0951:1666"


def test_a_port_of_the_guest_is_forwarded(
    virtctl: Kubectl, admin: KubeClient, running: JsonObject, relay: RelayService
) -> None:
    address = reachable_address()
    pod = launcher_pod(running)
    admin.request("POST", PODS, pod)
    status = {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}]}
    admin.request("PATCH", f"{PODS}/{pod['metadata']['name']}/status", {"status": status}, None, MERGE)
    with echo_server(address) as port:
        command = [str(virtctl.path), "--kubeconfig", str(virtctl.kubeconfig), "port-forward", "--stdio=true"]
        forward = subprocess.Popen(
            [*command, "vm/small/default", str(port)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        with forward:
            assert forward.stdin is not None
            assert forward.stdout is not None
            forward.stdin.write(b"hello guest\n")
            forward.stdin.flush()
            assert forward.stdout.readline() == b"hello guest\n"
            forward.terminate()
    admin.request("DELETE", f"{PODS}/{pod['metadata']['name']}", {"gracePeriodSeconds": 0})


def test_a_pod_that_only_carries_the_label_is_not_the_guest(
    admin: KubeClient, running: JsonObject, relay: RelayService
) -> None:
    pod = launcher_pod(running)
    del pod["metadata"]["ownerReferences"]
    admin.request("POST", PODS, pod)
    status = {"phase": "Running", "podIP": "192.0.2.99", "podIPs": [{"ip": "192.0.2.99"}]}
    admin.request("PATCH", f"{PODS}/{pod['metadata']['name']}/status", {"status": status}, None, MERGE)
    with pytest.raises(KubeError, match="no network interfaces are present"):
        admin.request("GET", f"{SUB}/virtualmachineinstances/small/portforward/22")
    admin.request("DELETE", f"{PODS}/{pod['metadata']['name']}", {"gracePeriodSeconds": 0})


def test_the_guest_agents_facts_are_shown(
    virtctl: Kubectl, controller: KubeClient, running: JsonObject, relay: RelayService, door: EchoDoor
) -> None:
    for verb in ("guestosinfo", "userlist", "fslist"):
        assert "VMI does not have guest agent connected" in virtctl.try_run(verb, "small").stderr
    set_status(controller, {"conditions": [{"type": "AgentConnected", "status": "True"}]})
    door.answer = {"hostname": "guest", "os": {"id": "debian"}, "timezone": "CET, 3600"}
    info = json.loads(virtctl.run("guestosinfo", "small"))
    assert (info["hostname"], info["os"], info["timezone"]) == ("guest", {"id": "debian"}, "CET, 3600")
    door.answer = {"items": [{"userName": "root", "loginTime": 1.5}]}
    assert json.loads(virtctl.run("userlist", "small"))["items"] == [{"userName": "root", "loginTime": 1.5}]
    mount = {"diskName": "vda1", "mountPoint": "/", "fileSystemType": "ext4", "usedBytes": 1, "totalBytes": 2}
    door.answer = {"items": [mount]}
    assert json.loads(virtctl.run("fslist", "small"))["items"] == [mount]
    door.answer = {}
    assert [call[2] for call in door.calls[-3:]] == ["guestosinfo", "userlist", "filesystemlist"]


def test_how_far_a_guest_is_that_moves_is_told(
    admin: KubeClient, running: JsonObject, relay: RelayService, door: EchoDoor
) -> None:
    counts = {"totalBytes": 9, "sentBytes": 5, "leftBytes": 4, "memoryRateBytes": 2, "downtimeMs": 0}
    door.answer = {"migrationUid": "m", "state": "Active", **counts, "more": "x"}
    found = admin.request("GET", f"{SUB}/virtualmachineinstances/small/migration")
    door.answer = {}
    assert found.pop("kind") == "VirtualMachineInstanceMigrationProgress"
    assert found == {
        "apiVersion": found["apiVersion"],
        "metadata": {},
        "migrationUid": "m",
        "state": "Active",
        **counts,
    }


def test_how_a_start_went_is_told(
    admin: KubeClient, running: JsonObject, relay: RelayService, door: EchoDoor, server: ApiServerUnderTest
) -> None:
    cli = KvedgeCli(server.write_kubeconfig("admin", ["system:masters"]))
    reached = [{"step": "serving", "unixMs": 1_750_000_000_123, "more": "x"}, {"step": 5, "unixMs": -1}, "none"]
    door.answer = {"launcher": reached, "handler": [{"step": "pod-seen", "unixMs": 1_750_000_000_100}], "more": []}
    found = admin.request("GET", f"{SUB}/virtualmachineinstances/small/trace")
    assert found.pop("kind") == "VirtualMachineInstanceStartTrace"
    assert found == {
        "apiVersion": found["apiVersion"],
        "metadata": {},
        "launcher": [{"step": "serving", "unixMs": 1_750_000_000_123}, {"step": "", "unixMs": 0}],
        "handler": [{"step": "pod-seen", "unixMs": 1_750_000_000_100}],
    }
    with pytest.raises(NotFound):
        admin.request("GET", f"{SUB}/virtualmachineinstances/absent/trace")
    # A launcher of an earlier version has no milestones; the handler and the objects have theirs.
    door.answer = {"launcher": [], "handler": [{"step": "pod-seen", "unixMs": 1_750_000_000_100}]}
    steps = json.loads(cli.run("trace", "small", "-o", "json"))["steps"]
    assert {("pod-seen", "millisecond"), ("vmi-created", "second")} <= {
        (item["step"], item["precision"]) for item in steps
    }
    assert "it is of an earlier version" in cli.run("trace", "small")
    door.answer = {}


def test_a_screen_is_saved_as_a_file(
    virtctl: Kubectl, running: JsonObject, relay: RelayService, door: EchoDoor, tmp_path: Path
) -> None:
    # Larger than what comes in one piece.
    door.picture = b"\x89PNG" + os.urandom(300_000)
    done = virtctl.try_run("vnc", "screenshot", "small", "--file", str(tmp_path / "a.png"), "--move-cursor")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "a.png").read_bytes() == door.picture
    assert door.calls[-1] == ("default", "small", "screenshot and move")


def test_a_screen_that_is_not_there_is_a_plain_500(
    virtctl: Kubectl, controller: KubeClient, running: JsonObject, relay: RelayService, tmp_path: Path
) -> None:
    set_status(controller, {"phase": "Scheduled"})
    done = virtctl.try_run("vnc", "screenshot", "small", "--file", str(tmp_path / "a.png"))
    assert done.returncode == 1
    assert "VMI is not running" in done.stderr


def test_a_guest_is_frozen_for_as_long_as_was_asked(
    admin: KubeClient, controller: KubeClient, running: JsonObject, relay: RelayService, door: EchoDoor
) -> None:
    vmi = f"{SUB}/virtualmachineinstances/small"
    admin.request("PUT", f"{vmi}/freeze", {"unfreezeTimeout": "1m30s"})
    assert (door.calls[-1], door.options) == (("default", "small", "freeze"), {"unfreezeSeconds": 90})
    admin.request("PUT", f"{vmi}/freeze")
    assert door.options == {"unfreezeSeconds": 300}
    admin.request("PUT", f"{vmi}/unfreeze")
    assert door.calls[-1] == ("default", "small", "unfreeze")
    with pytest.raises(KubeError, match="invalid duration") as refused:
        admin.request("PUT", f"{vmi}/freeze", {"unfreezeTimeout": "soon"})
    assert refused.value.status == 400


@pytest.mark.parametrize("verb", ["freeze", "unfreeze"])
def test_a_guest_without_agent_is_refused_in_kubevirts_words(
    admin: KubeClient, running: JsonObject, relay: RelayService, door: EchoDoor, verb: str
) -> None:
    door.refusal = DoorError(409, "the QEMU guest agent is not connected")
    words = f"Internal error occurred:.*command {verb.capitalize()} failed:.*QEMU guest agent is not connected"
    try:
        with pytest.raises(KubeError, match=words) as refused:
            admin.request("PUT", f"{SUB}/virtualmachineinstances/small/{verb}", {})
    finally:
        door.refusal = None
    assert (refused.value.status, refused.value.reason) == (500, "InternalError")


def test_a_console_of_a_vmi_that_does_not_run_is_refused_with_400(
    admin: KubeClient, controller: KubeClient, running: JsonObject
) -> None:
    set_status(controller, {"phase": "Scheduled"})
    with pytest.raises(KubeError, match="VMI is not running") as refusal:
        admin.request("GET", f"{SUB}/virtualmachineinstances/small/console")
    assert refusal.value.status == 400


def refused(admin: KubeClient, path: str) -> tuple[int, str, str]:
    """Code, reason and message of a refused GET."""
    with pytest.raises(KubeError) as refusal:
        admin.request("GET", f"{SUB}/{path}")
    return refusal.value.status, refusal.value.reason, refusal.value.message


IS_NOT = 'Operation cannot be fulfilled on virtualmachineinstance.kubevirt.io "small": '


def test_a_guest_without_the_device_is_refused_in_kubevirts_words(admin: KubeClient, running: JsonObject) -> None:
    vmi = "virtualmachineinstances/small"
    assert refused(admin, f"{vmi}/usbredir") == (409, "Conflict", f"{IS_NOT}Not configured with USB Redirection")
    assert refused(admin, f"{vmi}/vsock?port=22") == (400, "BadRequest", "VSOCK is not attached.")


def test_a_port_is_refused_in_kubevirts_words(
    admin: KubeClient, controller: KubeClient, vm: JsonObject, request: pytest.FixtureRequest
) -> None:
    absent = 'virtualmachine.kubevirt.io "absent" not found'
    assert refused(admin, "virtualmachines/absent/portforward/22") == (404, "NotFound", absent)
    text = 'Operation cannot be fulfilled on virtualmachine.kubevirt.io "small": VMI is not started'
    assert refused(admin, "virtualmachines/small/portforward/22") == (409, "Conflict", text)
    request.getfixturevalue("running")
    no_address = (400, "BadRequest", "no network interfaces are present")
    for kind in ("virtualmachines", "virtualmachineinstances"):
        assert refused(admin, f"{kind}/small/portforward/22") == no_address
        assert refused(admin, f"{kind}/small/portforward/53/udp") == no_address
        assert refused(admin, f"{kind}/small/portforward/53/sctp")[0] == 400
        assert refused(admin, f"{kind}/small/portforward/70000")[0] == 400
    set_status(controller, {"conditions": [{"type": "Paused", "status": "True"}]})
    for kind in ("virtualmachines", "virtualmachineinstances"):
        assert refused(admin, f"{kind}/small/portforward/22") == (409, "Conflict", f"{IS_NOT}VMI is paused")


def test_a_vmi_of_the_vms_name_that_is_not_its_own_is_not_reached(
    admin: KubeClient, controller: KubeClient, running: JsonObject
) -> None:
    path = f"{VMIS}/small"
    controller.request("PATCH", path, {"metadata": {"ownerReferences": None}}, None, MERGE)
    assert "VMI is not started" in refused(admin, "virtualmachines/small/portforward/22")[2]


def test_what_comes_later_is_answered_with_501(admin: KubeClient, running: JsonObject) -> None:
    call = "virtualmachineinstances/redefine-checkpoint"
    with pytest.raises(KubeError, match=rf"{call}: not supported by kvedge 0\.1") as refusal:
        admin.request("PUT", f"{SUB}/virtualmachineinstances/small/redefine-checkpoint")
    assert refusal.value.status == 501


def test_a_guest_whose_owner_attests_nothing_is_told_so(admin: KubeClient, running: JsonObject) -> None:
    text = "Attestation not requested for VMI"
    for call in ("fetchcertchain", "querylaunchmeasurement"):
        with pytest.raises(KubeError, match=text) as refusal:
            admin.request("GET", f"{SUB}/virtualmachineinstances/small/sev/{call}")
        assert refusal.value.status == 500
    secret = {"header": "aA==", "secret": "cw=="}
    with pytest.raises(KubeError, match=text) as refusal:
        admin.request("PUT", f"{SUB}/virtualmachineinstances/small/sev/injectlaunchsecret", secret)
    assert refusal.value.status == 409
    session = {"session": "cw==", "dhCert": "Yw=="}
    with pytest.raises(KubeError, match="VMI is not in Scheduled phase") as refusal:
        admin.request("PUT", f"{SUB}/virtualmachineinstances/small/sev/setupsession", session)
    assert refusal.value.status == 409


def test_a_user_without_the_right_is_refused(server: ApiServerUnderTest) -> None:
    bob = KubeClient.from_kubeconfig(server.write_kubeconfig("bob"))
    with pytest.raises(Forbidden):
        bob.request("PUT", f"{SUB}/virtualmachines/small/start", {})


class Console:
    """virtctl console in a terminal of its own."""

    def __init__(self, virtctl: Kubectl, vmi: str) -> None:
        self._terminal, other = pty.openpty()
        self._process = subprocess.Popen(
            [str(virtctl.path), "--kubeconfig", str(virtctl.kubeconfig), "console", vmi],
            stdin=other, stdout=other, stderr=other, start_new_session=True,
        )  # fmt: skip
        os.close(other)
        self._seen = b""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        try:
            while data := os.read(self._terminal, 4096):
                self._seen += data
        except OSError:
            return  # The other end is closed.

    def write(self, data: bytes) -> None:
        # virtctl reads its terminal only once the stream is there.
        self.expect(b"Successfully connected")
        os.write(self._terminal, data)

    def expect(self, data: bytes) -> None:
        try:
            wait_until(lambda: data in self._seen, "seen on the terminal")
        except AssertionError as error:
            raise AssertionError(f"{data!r} did not come, only {self._seen!r}") from error

    def __enter__(self) -> Console:
        return self

    def __exit__(self, *error: object) -> None:
        self._process.terminate()
        self._process.wait(10)
        os.close(self._terminal)

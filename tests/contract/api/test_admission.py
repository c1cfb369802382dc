"""Admission as an API server calls it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kvedge.api.registration.admission_manifest import validating_webhooks
from kvedge.kube.errors import Forbidden, Invalid, KubeError, NotFound
from kvedge.kube.kube_client import KubeClient
from kvedge.resources.codec import JsonObject
from kvedge.resources.role_users import HANDLER_GROUP, handler_user
from tests.contract.api.conftest import remove
from tests.support.api_servers import ApiServerUnderTest, Kubectl
from tests.support.builders import SMOKE, put, small_vmi, vm_of

pytestmark = [pytest.mark.contract, pytest.mark.usefixtures("webhooks_are_called")]
VMS = "/apis/kubevirt.io/v1/namespaces/default/virtualmachines"
VMIS = "/apis/kubevirt.io/v1/namespaces/default/virtualmachineinstances"
SECRET = ""


@pytest.fixture
def vmi(admin: KubeClient) -> Iterator[JsonObject]:
    yield admin.request("POST", VMIS, small_vmi())
    remove(admin, f"{VMIS}/small")


def handler(server: ApiServerUnderTest, node: str) -> KubeClient:
    return KubeClient.from_kubeconfig(server.write_kubeconfig(handler_user(node), [HANDLER_GROUP]))


def merge(client: KubeClient, body: JsonObject) -> JsonObject:
    return client.request("PATCH", f"{VMIS}/small", body, None, "application/merge-patch+json")


def test_the_controller_brings_volumes_that_come_and_go_and_changes_no_other(
    controller: KubeClient, vmi: JsonObject
) -> None:
    volumes, disks = vmi["spec"]["volumes"], vmi["spec"]["domain"]["devices"]["disks"]
    hot = {"name": "data", "persistentVolumeClaim": {"claimName": "data", "hotpluggable": True}}
    coming = {"spec": {"volumes": [*volumes, hot]}}
    with pytest.raises(Invalid, match="disk data does not exist"):
        merge(controller, coming)
    with pytest.raises(Invalid, match="Number of permanent volumes has changed"):
        merge(controller, {"spec": {"volumes": [], "domain": {"devices": {"disks": []}}}})
    coming["spec"]["domain"] = {"devices": {"disks": [*disks, {"name": "data", "disk": {"bus": "scsi"}}]}}
    assert len(merge(controller, coming)["spec"]["volumes"]) == 2
    gone = merge(controller, {"spec": vmi["spec"]})
    assert gone["spec"]["volumes"] == volumes


def test_the_manifest_of_a_real_user_is_applied_as_written(kubectl: Kubectl, admin: KubeClient) -> None:
    done = kubectl.try_run("apply", "-f", str(SMOKE))
    assert (done.returncode, done.stdout) == (0, "virtualmachine.kubevirt.io/kubevirt-smoke-fedora created\n")
    assert "spec.running is deprecated, please use spec.runStrategy instead." in done.stderr
    again = kubectl.run("apply", "-f", str(SMOKE))
    assert again == "virtualmachine.kubevirt.io/kubevirt-smoke-fedora unchanged\n"
    remove(admin, f"{VMS}/kubevirt-smoke-fedora")


def test_kubectl_shows_each_cause_and_nothing_is_made(kubectl: Kubectl, admin: KubeClient) -> None:
    text = SMOKE.read_text().replace("cores: 1", "cores: 1\n          treads: 2").replace("type: q35", "type: abacus")
    done = kubectl.try_run("apply", "-f", "-", text=text)
    assert done.returncode == 1
    assert '* spec.template.spec.domain.cpu.treads: unknown field; did you mean "threads"?\n' in done.stderr
    assert "* spec.template.spec.domain.machine.type: is not supported: abacus" in done.stderr
    with pytest.raises(NotFound):
        admin.request("GET", f"{VMS}/kubevirt-smoke-fedora")


def test_a_field_is_named_once(kubectl: Kubectl) -> None:
    text = SMOKE.read_text().replace("type: q35", "type: abacus")
    text = text.replace("cores: 1", "cores: 1\n          treads: 2\n        launchSecurity: {sev: {}}")
    done = kubectl.try_run("apply", "-f", "-", text=text)
    told = [line for line in done.stderr.splitlines() if line.startswith("* ")]
    assert len(told) == 3, done.stderr
    for line in told:
        field = line[2:].partition(": ")[0]
        assert line.count(field) == 1


@pytest.mark.parametrize("amount", [222222222.22, "222222222.22"])
def test_quantities_are_numbers_or_text(admin: KubeClient, amount: float | str) -> None:
    vm = vm_of(small_vmi())
    put(vm, "spec.template.spec.domain.resources", {"requests": {"memory": amount, "cpu": 0.1}})
    made = admin.request("POST", VMS, vm)
    remove(admin, f"{VMS}/{made['metadata']['name']}")
    assert made["spec"]["template"]["spec"]["domain"]["resources"]["requests"] == {"memory": amount, "cpu": 0.1}


@pytest.mark.parametrize("amount", [True, {"a": 1}, [1], "much", -1.5])
def test_what_is_no_quantity_is_refused_with_its_field(admin: KubeClient, amount: object) -> None:
    vm = vm_of(small_vmi())
    put(vm, "spec.template.spec.domain.resources", {"requests": {"memory": amount}})
    with pytest.raises(KubeError, match=r"spec\.template\.spec\.domain\.resources\.requests"):
        admin.request("POST", VMS, vm)


def test_causes_come_with_their_fields(admin: KubeClient) -> None:
    vm = vm_of(small_vmi())
    put(vm, "spec.template.spec.domain.devices.gpus", [{"name": "g"}])
    put(vm, "spec.template.spec.domain.devices.disks[0].cache", "turbo")
    with pytest.raises(Invalid) as refusal:
        admin.request("POST", VMS, vm)
    assert {cause.field for cause in refusal.value.causes} == {
        "spec.template.spec.domain.devices.gpus[0].deviceName",
        "spec.template.spec.domain.devices.disks[0].cache",
    }


def test_a_vmi_gets_its_defaults_and_its_first_phase(vmi: JsonObject) -> None:
    assert vmi["status"]["phase"] == "Pending"
    assert vmi["metadata"]["finalizers"] == ["kubevirt.io/foregroundDeleteVirtualMachine"]
    cpu = {"cores": 1, "sockets": 1, "threads": 1, "maxSockets": 4, "model": "host-model"}
    assert vmi["spec"]["domain"]["cpu"] == cpu


def test_probes_enter_with_their_numbers(admin: KubeClient) -> None:
    probes = {
        "readinessProbe": {"httpGet": {"port": 8080, "httpHeaders": [{"name": "X-A", "value": "b"}]}},
        "livenessProbe": {"exec": {"command": ["test", "-e", "/run/alive"]}, "periodSeconds": 30},
    }
    made = admin.request("POST", VMIS, small_vmi(**probes))["spec"]
    remove(admin, f"{VMIS}/small")
    numbers = {"timeoutSeconds": 1, "successThreshold": 1, "failureThreshold": 3}
    page = {**probes["readinessProbe"]["httpGet"], "path": "/", "scheme": "HTTP"}
    assert made["readinessProbe"] == {"httpGet": page, "periodSeconds": 10, **numbers}
    assert made["livenessProbe"] == {**probes["livenessProbe"], **numbers}


def test_probes_that_no_pod_can_have_are_refused_in_a_vm(admin: KubeClient) -> None:
    vm = vm_of(small_vmi())
    put(vm, "spec.template.spec.readinessProbe", {"httpGet": {"port": 0}, "guestAgentPing": {}, "failureTreshold": 1})
    put(vm, "spec.template.spec.livenessProbe", {"periodSeconds": -1})
    with pytest.raises(Invalid) as refusal:
        admin.request("POST", VMS, vm)
    at = "spec.template.spec"
    assert {cause.field for cause in refusal.value.causes} == {
        f"{at}.readinessProbe",
        f"{at}.readinessProbe.failureTreshold",
        f"{at}.readinessProbe.httpGet.port",
        f"{at}.livenessProbe",
        f"{at}.livenessProbe.periodSeconds",
    }
    assert f"{at}.readinessProbe must have exactly one probe type set" in str(refusal.value)


@pytest.mark.parametrize(
    ("memory", "message"),
    [
        ({"guest": "512Mi", "maxGuest": "2Gi"}, "only available for VMs with at least 1Gi of guest memory"),
        ({"guest": "2Gi", "maxGuest": "1Gi"}, "Guest memory is greater than the configured maxGuest memory"),
        ({"guest": "1025Mi", "maxGuest": "2Gi"}, "Guest memory must be 2Mi aligned"),
    ],
)
def test_room_for_memory_that_a_guest_cannot_have_is_refused(
    admin: KubeClient, memory: JsonObject, message: str
) -> None:
    vm = vm_of(small_vmi())
    put(vm, "spec.template.spec.domain.memory", memory)
    with pytest.raises(Invalid, match=message) as refusal:
        admin.request("POST", VMS, vm)
    assert {cause.field for cause in refusal.value.causes} == {"spec.template.spec.domain.memory.maxGuest"}


def test_memory_does_not_change_while_a_guest_moves(controller: KubeClient, vmi: JsonObject) -> None:
    merge(controller, {"spec": {"domain": {"memory": {"guest": "512Mi"}}}})
    merge(controller, {"status": {"migrationState": {"migrationUid": "m", "sourceNode": "a", "targetNode": "b"}}})
    with pytest.raises(Invalid, match="memory hotplug is not allowed while VMI is migrating"):
        merge(controller, {"spec": {"domain": {"memory": {"guest": "1Gi"}}}})


def test_a_user_does_not_change_the_spec_of_a_vmi(admin: KubeClient, vmi: JsonObject) -> None:
    with pytest.raises(Invalid, match="update of VMI object is restricted"):
        merge(admin, {"spec": {"domain": {"cpu": {"cores": 2}}}})


def test_a_user_who_writes_a_status_changes_nothing(admin: KubeClient, vmi: JsonObject) -> None:
    assert merge(admin, {"status": {"phase": "Running", "nodeName": "evil"}})["status"] == vmi["status"]


def test_the_controller_writes_a_status(controller: KubeClient, vmi: JsonObject) -> None:
    assert merge(controller, {"status": {"phase": "Scheduling"}})["status"]["phase"] == "Scheduling"


def test_a_handler_writes_the_vmis_of_its_own_node_only(
    server: ApiServerUnderTest, controller: KubeClient, vmi: JsonObject
) -> None:
    merge(controller, {"status": {"phase": "Scheduled", "nodeName": "node1"}})
    mine = handler(server, "node1")
    other = handler(server, "node2")
    assert merge(mine, {"status": {"phase": "Running"}})["status"]["phase"] == "Running"
    # The embedded server's authorizer knows this rule, too, and comes first; a kube-apiserver has it as a policy.
    with pytest.raises((Invalid, Forbidden)):
        merge(other, {"status": {"phase": "Failed"}})
    with pytest.raises((Invalid, Forbidden), match="another node"):
        merge(mine, {"status": {"nodeName": "node2"}})


def test_a_deleted_webhook_comes_back(admin: KubeClient, api_role: object) -> None:
    document = validating_webhooks(b"", SECRET)
    admin.request("DELETE", document.path)
    api_role.refresh()  # the next round, without waiting for it
    there = admin.request("GET", document.path)
    assert [hook["name"] for hook in there["webhooks"]] == [hook["name"] for hook in document.body["webhooks"]]


def test_registering_again_writes_nothing(admin: KubeClient, api_role: object) -> None:
    document = validating_webhooks(b"", SECRET)

    def writes_nothing() -> bool:
        before = admin.request("GET", document.path)
        api_role.refresh()
        return admin.request("GET", document.path) == before

    # Secret parts of paths change with each hour.
    assert writes_nothing() or writes_nothing()

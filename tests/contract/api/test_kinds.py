"""What kubectl shows of our kinds: explanations, columns, short names, categories, warnings."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from kvedge.kube.errors import Invalid
from kvedge.kube.kube_client import KubeClient
from tests.contract.api.conftest import remove
from tests.support.api_servers import Kubectl
from tests.support.builders import small_vmi, vm_of
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.contract, pytest.mark.usefixtures("webhooks_are_called")]
VMS = "/apis/kubevirt.io/v1/namespaces/default/virtualmachines"
VMIS = "/apis/kubevirt.io/v1/namespaces/default/virtualmachineinstances"
MERGE = "application/merge-patch+json"


@pytest.fixture(scope="module")
def shown(admin: KubeClient, controller: KubeClient) -> Iterator[None]:
    """A VM, and a VMI that runs."""
    vm = vm_of(small_vmi(), runStrategy="Halted")
    vm["metadata"]["name"] = "shown"
    admin.request("POST", VMS, vm)
    vmi = small_vmi()
    vmi["metadata"]["name"] = "shown"
    controller.request("POST", VMIS, vmi)
    conditions = [{"type": "Ready", "status": "True"}, {"type": "LiveMigratable", "status": "False"}]
    interfaces = [{"name": "default", "ipAddress": "10.0.0.9"}]
    status = {"phase": "Running", "nodeName": "box", "conditions": conditions, "interfaces": interfaces}
    controller.request("PATCH", f"{VMIS}/shown", {"status": status}, None, MERGE)
    yield
    remove(admin, f"{VMS}/shown")
    remove(admin, f"{VMIS}/shown")


@pytest.mark.parametrize(
    ("field", "words"),
    [
        ("vm", ["A virtual machine: what should run", "spec", "status"]),
        ("vm.spec", ["runStrategy", "Always, RerunOnFailure (again after a crash)", "template"]),
        ("vm.spec.template.spec.domain.devices", ["interfaces", "NICs; each is called like its network."]),
        ("vm.status", ["printableStatus", "All of it in one word: Stopped, Starting"]),
        ("vmi.spec.domain.cpu", ["cores", "Cores per socket.", "Topology and model"]),
        ("vmi.spec.domain.cpu.model", ["host-model, host-passthrough"]),
        ("vmi.status", ["phase", "Where it is: Pending, Scheduling", "guestOSInfo"]),
        ("vmi.status.interfaces", ["infoSource", "Who says so: domain, guest-agent"]),
        ("kubevirt.spec", ["configuration"]),
    ],
)
def test_kubectl_explains_every_field(kubectl: Kubectl, field: str, words: list[str]) -> None:
    # The server publishes a new schema a moment after it has taken it.
    def explained() -> bool:
        answer = " ".join(kubectl.try_run("explain", field).stdout.split())
        return all(word in answer for word in words)

    wait_until(explained, f"kubectl explains {field}")
    assert "<no description>" not in kubectl.run("explain", field)


@pytest.mark.parametrize("name", ["vm", "vms", "virtualmachine", "virtualmachines.kubevirt.io"])
def test_a_vm_has_its_names_and_columns(kubectl: Kubectl, shown: None, name: str) -> None:
    head, line = kubectl.run("get", name, "shown").splitlines()
    assert head.split() == ["NAME", "AGE", "STATUS", "READY"]
    assert line.split()[2] == "Stopped"


@pytest.mark.parametrize("name", ["vmi", "vmis", "virtualmachineinstance"])
def test_a_vmi_has_its_names_and_columns(kubectl: Kubectl, shown: None, name: str) -> None:
    head, line = kubectl.run("get", name, "shown").splitlines()
    assert head.split() == ["NAME", "AGE", "PHASE", "IP", "NODENAME", "READY"]
    assert line.split()[2:] == ["Running", "10.0.0.9", "box", "True"]


def test_a_wide_table_has_more_of_a_vmi(kubectl: Kubectl, shown: None) -> None:
    head, line = kubectl.run("get", "vmi", "shown", "-o", "wide").splitlines()
    assert head.split()[-2:] == ["LIVE-MIGRATABLE", "PAUSED"]
    assert "False" in line


def test_all_contains_our_kinds(kubectl: Kubectl, shown: None) -> None:
    names = kubectl.run("get", "all", "-o", "name").split()
    assert {"virtualmachine.kubevirt.io/shown", "virtualmachineinstance.kubevirt.io/shown"} <= set(names)


def test_the_old_version_is_served_with_a_warning(kubectl: Kubectl, shown: None) -> None:
    done = kubectl.try_run("get", "virtualmachineinstances.v1alpha3.kubevirt.io", "shown", "-o", "json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["apiVersion"] == "kubevirt.io/v1alpha3"
    assert "kubevirt.io/v1alpha3 is now deprecated and will be removed in a future release." in done.stderr


def test_what_the_old_version_writes_is_judged_as_well(kubectl: Kubectl) -> None:
    vm = vm_of(small_vmi(domain__devices__gpus=[{"name": "g"}]))
    vm["apiVersion"] = "kubevirt.io/v1alpha3"
    done = kubectl.try_run("create", "--validate=false", "-f", "-", text=json.dumps(vm))
    assert done.returncode == 1
    assert "spec.template.spec.domain.devices.gpus" in done.stderr


def test_a_vms_status_is_written_by_its_subresource_only(kubectl: Kubectl, admin: KubeClient, shown: None) -> None:
    said = {"status": {"printableStatus": "Running"}, "metadata": {"labels": {"a": "b"}}}
    changed = admin.request("PATCH", f"{VMS}/shown", said, None, MERGE)
    assert (changed["metadata"]["labels"], changed["status"]["printableStatus"]) == ({"a": "b"}, "Stopped")
    changed = admin.request("PATCH", f"{VMS}/shown/status", {"spec": {"runStrategy": "Always"}, **said}, None, MERGE)
    assert (changed["spec"]["runStrategy"], changed["status"]["printableStatus"]) == ("Halted", "Running")


def test_a_users_word_about_a_vmis_status_changes_nothing(admin: KubeClient, shown: None) -> None:
    said = {"status": {"phase": "Failed", "nodeName": "elsewhere"}, "metadata": {"labels": {"a": "b"}}}
    changed = admin.request("PATCH", f"{VMIS}/shown", said, None, MERGE)
    assert changed["metadata"]["labels"] == {"a": "b"}
    assert (changed["status"]["phase"], changed["status"]["nodeName"]) == ("Running", "box")


def test_nor_while_the_vmi_is_on_its_way_out(admin: KubeClient, controller: KubeClient) -> None:
    vmi = small_vmi()
    vmi["metadata"]["name"] = "leaving"
    controller.request("POST", VMIS, vmi)
    controller.request("PATCH", f"{VMIS}/leaving", {"status": {"phase": "Running", "nodeName": "box"}}, None, MERGE)
    admin.request("DELETE", f"{VMIS}/leaving")
    changed = admin.request("PATCH", f"{VMIS}/leaving", {"status": {"phase": "Failed"}}, None, MERGE)
    assert (changed["status"]["phase"], "deletionTimestamp" in changed["metadata"]) == ("Running", True)
    with pytest.raises(Invalid, match="update of VMI object is restricted"):
        admin.request("PATCH", f"{VMIS}/leaving", {"spec": {"hostname": "other"}}, None, MERGE)
    labels = {"metadata": {"labels": {"kubevirt.io/nodeName": "other"}}}
    with pytest.raises(Invalid, match=r"reserved kubevirt\.io/ labels"):
        admin.request("PATCH", f"{VMIS}/leaving", labels, None, MERGE)
    admin.request("PATCH", f"{VMIS}/leaving", {"metadata": {"finalizers": None}}, None, MERGE)


def test_a_user_is_told_what_of_a_vmi_cannot_be_changed(kubectl: Kubectl, shown: None) -> None:
    patch = json.dumps({"spec": {"terminationGracePeriodSeconds": 1}})
    done = kubectl.try_run("patch", "vmi", "shown", "--type=merge", "-p", patch)
    assert done.returncode == 1
    assert "update of VMI object is restricted" in done.stderr
    done = kubectl.try_run("label", "vmi", "shown", "kubevirt.io/nodeName=elsewhere")
    assert "modification of the following reserved kubevirt.io/ labels on a VMI object is prohibited" in done.stderr

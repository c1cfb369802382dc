"""The KubeVirt object on an API server: admission, what kubectl shows and explains, and what VMs get from it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kvedge.api.api_service import ApiRole
from kvedge.kube.errors import Invalid, KubeError
from kvedge.kube.kube_client import KubeClient
from kvedge.resources.codec import JsonObject
from kvedge.resources.names import SYSTEM_NAMESPACE
from tests.contract.api.conftest import remove
from tests.support.api_servers import Kubectl
from tests.support.builders import small_vmi, vm_of
from tests.support.edits import edit
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.contract, pytest.mark.usefixtures("webhooks_are_called")]
KUBEVIRTS = f"/apis/kubevirt.io/v1/namespaces/{SYSTEM_NAMESPACE}/kubevirts"
OBJECT = f"{KUBEVIRTS}/kubevirt"
VMIS = "/apis/kubevirt.io/v1/namespaces/default/virtualmachineinstances"
VMS = "/apis/kubevirt.io/v1/namespaces/default/virtualmachines"

Configure = Callable[..., None]


def document(name: str = "kubevirt", **spec: Any) -> JsonObject:
    return {"apiVersion": "kubevirt.io/v1", "kind": "KubeVirt", "metadata": {"name": name}, "spec": spec}


@pytest.fixture
def kubevirt(admin: KubeClient) -> Iterator[None]:
    admin.request("POST", KUBEVIRTS, document())
    yield
    admin.request("DELETE", OBJECT)


@pytest.fixture
def configure(admin: KubeClient, api_role: ApiRole, kubevirt: None) -> Configure:
    """Replace the configuration, and wait until the api role works by it."""

    def replace(**configuration: Any) -> None:
        written = edit(admin, OBJECT, lambda found: found.update(spec={"configuration": configuration}))
        generation = written["metadata"]["generation"]
        follower = api_role.configuration
        wait_until(lambda: follower.in_force.generation == generation, "the api role follows")

    return replace


def dry_run(admin: KubeClient, vmi: JsonObject) -> JsonObject:
    made: JsonObject = admin.request("POST", VMIS, vmi, {"dryRun": "All"})
    return made["spec"]


def test_a_second_object_is_refused_in_kubevirts_words(admin: KubeClient, kubevirt: None) -> None:
    with pytest.raises(KubeError, match="Kubevirt is already created") as refused:
        admin.request("POST", KUBEVIRTS, document("another"))
    assert refused.value.status == 400


def test_a_value_that_cannot_be_used_is_refused_with_its_field(admin: KubeClient, kubevirt: None) -> None:
    body = {"spec": {"configuration": {"network": {"defaultNetworkInterface": "slirp"}, "cpuModel": "a b"}}}
    with pytest.raises(Invalid) as refused:
        admin.request("PATCH", OBJECT, body, None, "application/merge-patch+json")
    assert {cause.field for cause in refused.value.causes} == {
        "spec.configuration.network.defaultNetworkInterface",
        "spec.configuration.cpuModel",
    }


def test_an_unknown_key_is_kept_and_kubectl_prints_the_warning(kubectl: Kubectl, admin: KubeClient) -> None:
    manifest = document(configuration={"cpuModell": "x", "machineType": "q35"})
    manifest["metadata"]["namespace"] = SYSTEM_NAMESPACE
    done = kubectl.try_run("apply", "-f", "-", text=json.dumps(manifest))
    kept = admin.request("GET", OBJECT)["spec"]["configuration"]
    admin.request("DELETE", OBJECT)
    assert done.returncode == 0, done.stderr
    assert 'Warning: unknown field "spec.configuration.cpuModell"; did you mean "cpuModel"?' in done.stderr
    assert kept == {"cpuModell": "x", "machineType": "q35"}


def test_kubectl_lists_it_by_its_short_names_and_explains_its_fields(kubectl: Kubectl, kubevirt: None) -> None:
    for name in ("kv", "kvs", "kubevirt"):
        header, row = kubectl.run("get", name, "-n", SYSTEM_NAMESPACE).splitlines()
        assert (header.split(), row.split()[0]) == (["NAME", "AGE", "PHASE"], "kubevirt")

    def explained() -> bool:
        answer = kubectl.try_run("explain", "kubevirt.spec.configuration").stdout
        return "machineType" in answer and "The machine type of VMs that name none" in answer

    wait_until(explained, "kubectl explains the configuration")


def test_new_vms_get_the_defaults_that_it_names(admin: KubeClient, configure: Configure) -> None:
    assert dry_run(admin, small_vmi())["domain"]["cpu"]["model"] == "host-model"
    configure(
        cpuModel="Nehalem",
        cpuRequest="300m",
        machineType="pc-q35-7.2",
        evictionStrategy="LiveMigrateIfPossible",
        virtualMachineOptions={"disableSerialConsoleLog": {}},
    )
    spec = dry_run(admin, small_vmi())
    assert spec["domain"]["machine"]["type"] == "pc-q35-7.2"
    assert spec["domain"]["cpu"]["model"] == "Nehalem"
    assert spec["domain"]["resources"]["requests"]["cpu"] == "300m"
    assert spec["domain"]["devices"]["logSerialConsole"] is False
    assert spec["evictionStrategy"] == "LiveMigrateIfPossible"


def test_machines_and_networks_that_it_does_not_permit_are_refused(admin: KubeClient, configure: Configure) -> None:
    configure(emulatedMachines=["pc-q35-7*"], machineType="pc-q35-7.2")
    with pytest.raises(Invalid, match=r"is not supported: q35 \(allowed values: \[pc-q35-7\*\]\)"):
        dry_run(admin, small_vmi(domain__machine={"type": "q35"}))
    configure(network={"permitBridgeInterfaceOnPodNetwork": False})
    with pytest.raises(Invalid, match="Bridge on pod network configuration is not enabled under kubevirt-config"):
        dry_run(admin, small_vmi())
    configure()
    dry_run(admin, small_vmi())


def test_a_delete_that_vms_shall_block_is_refused_while_there_are_vms(admin: KubeClient, configure: Configure) -> None:
    vm = vm_of(small_vmi(), runStrategy="Halted")
    vm["metadata"]["name"] = "stays"
    admin.request("POST", VMS, vm)
    body = {"spec": {"uninstallStrategy": "BlockUninstallIfWorkloadsExist"}}
    admin.request("PATCH", OBJECT, body, None, "application/merge-patch+json")
    with pytest.raises(KubeError, match="since there are still Virtual Machines present"):
        admin.request("DELETE", OBJECT)
    remove(admin, f"{VMS}/stays")


USB = {"resourceName": "kubevirt.io/storage", "selectors": [{"vendor": "46f4", "product": "0001", "serial": "A1"}]}


def with_stick(resource: str = "kubevirt.io/storage") -> JsonObject:
    return small_vmi(domain__devices__hostDevices=[{"name": "stick", "deviceName": resource}])


def test_devices_are_given_to_vms_where_they_are_permitted(admin: KubeClient, configure: Configure) -> None:
    with pytest.raises(Invalid, match="Host Devices feature gate is not enabled in kubevirt-config"):
        dry_run(admin, with_stick())
    gate = {"featureGates": ["HostDevices"]}
    configure(permittedHostDevices={"usb": [USB]}, developerConfiguration=gate)
    assert dry_run(admin, with_stick())["domain"]["devices"]["hostDevices"][0]["name"] == "stick"
    with pytest.raises(Invalid) as refused:
        dry_run(admin, with_stick("kubevirt.io/other"))
    (cause,) = refused.value.causes
    assert cause.field == "spec.domain.devices.hostDevices[0].deviceName"
    assert cause.message == "HostDevice kubevirt.io/other is not permitted in permittedHostDevices configuration"


HOOKS = "hooks.kubevirt.io/hookSidecars"
SCRIPT = {"name": "my-config-map", "key": "my_script.sh", "hookPath": "/usr/bin/onDefineDomain"}


def hooked(*sidecars: JsonObject) -> JsonObject:
    made = small_vmi()
    made["metadata"]["annotations"] = {HOOKS: json.dumps(sidecars)}
    return made


def test_hook_sidecars_enter_with_their_gate_and_stay_as_they_are(admin: KubeClient, configure: Configure) -> None:
    by_image = {"args": ["--version", "v1alpha2"], "image": "registry:5000/kubevirt/example-hook-sidecar:devel"}
    by_script = {"args": ["--version", "v1alpha2"], "configMap": SCRIPT}
    with pytest.raises(Invalid, match="sidecar feature gate is not enabled in kubevirt-config"):
        dry_run(admin, hooked(by_image))
    configure(developerConfiguration={"featureGates": ["Sidecar"]})
    for sidecar in (by_image, by_script):
        dry_run(admin, hooked(sidecar))
    with pytest.raises(Invalid) as refused:
        dry_run(admin, hooked(by_image, {"configMap": {**SCRIPT, "hookPath": "/usr/bin/qemu"}}))
    (cause,) = refused.value.causes
    assert cause.field == f"metadata.annotations[{HOOKS}]"
    assert "[1].configMap.hookPath must be /usr/bin/onDefineDomain or /usr/bin/preCloudInitIso" in cause.message
    made = admin.request("POST", VMIS, hooked(by_image))
    path = f"{VMIS}/{made['metadata']['name']}"
    try:
        body = {"metadata": {"annotations": {HOOKS: "[]"}}}
        with pytest.raises(Invalid, match="update of VMI object is restricted"):
            admin.request("PATCH", path, body, None, "application/merge-patch+json")
    finally:
        remove(admin, path)


def test_the_servers_keep_what_kvedge_selects_usb_devices_by(admin: KubeClient, configure: Configure) -> None:
    configure(permittedHostDevices={"usb": [USB]})
    kept = admin.request("GET", OBJECT)["spec"]["configuration"]["permittedHostDevices"]
    assert kept == {"usb": [USB]}


def test_a_device_that_no_selector_can_mean_is_refused_by_field(admin: KubeClient, kubevirt: None) -> None:
    wrong = {"pciVendorSelector": "nvidia", "resourceName": "nvidia.com/t4"}

    def write(found: JsonObject) -> None:
        found["spec"] = {"configuration": {"permittedHostDevices": {"pciHostDevices": [wrong]}}}

    with pytest.raises(Invalid, match=r"pciHostDevices\[0\]\.pciVendorSelector: 'nvidia' is no vendor:product"):
        edit(admin, OBJECT, write)


def test_guests_have_room_for_memory_where_changes_are_rolled_out_live(admin: KubeClient, configure: Configure) -> None:
    vmi = small_vmi()
    vmi["spec"]["domain"]["memory"] = {"guest": "1Gi"}
    assert dry_run(admin, vmi)["domain"]["memory"] == {"guest": "1Gi", "maxGuest": "4Gi"}
    configure(vmRolloutStrategy="Stage")
    assert "maxGuest" not in dry_run(admin, vmi)["domain"]["memory"]
    configure(vmRolloutStrategy="LiveUpdate", liveUpdateConfiguration={"maxGuest": "6Gi"})
    assert dry_run(admin, vmi)["domain"]["memory"] == {"guest": "1Gi", "maxGuest": "6Gi"}
    vmi["spec"]["domain"]["memory"] = {"guest": "512Mi"}
    assert dry_run(admin, vmi)["domain"]["memory"] == {"guest": "512Mi"}

"""Instance types and preferences by the webhooks and subresources, against a real API server or the embedded one."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import yaml

from kvedge.kube.errors import Invalid, KubeError, NotFound
from kvedge.kube.kube_client import KubeClient
from kvedge.resources.codec import JsonObject
from kvedge.resources.types.vm import VirtualMachine
from tests.contract.api.conftest import remove
from tests.support.api_servers import ApiServerUnderTest, Kubectl

pytestmark = [pytest.mark.contract, pytest.mark.usefixtures("webhooks_are_called")]
GROUP = "/apis/instancetype.kubevirt.io/v1beta1"
VMS = VirtualMachine.KIND.path("default")
CALLS = "/apis/subresources.kubevirt.io/v1/namespaces/default"
DRY = {"dryRun": "All"}
Make = Callable[..., str]


def document(kind: str, name: str, spec: JsonObject) -> JsonObject:
    return {"apiVersion": "instancetype.kubevirt.io/v1beta1", "kind": kind, "metadata": {"name": name}, "spec": spec}


def vm(name: str = "typed", *, domain: JsonObject | None = None, volumes: list[Any] | None = None, **spec: Any) -> Any:
    template = {"spec": {"domain": {"devices": {}, **(domain or {})}, "volumes": volumes or []}}
    return {
        "apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachine",
        "metadata": {"name": name},
        "spec": {"runStrategy": "Halted", "template": template, **spec},
    }


@pytest.fixture
def virtctl(server: ApiServerUnderTest) -> Kubectl:
    """KubeVirt's own client, unchanged, as an admin."""
    return Kubectl(server.write_kubeconfig("admin", ["system:masters"]), "virtctl")


@pytest.fixture
def make(admin: KubeClient) -> Iterator[Make]:
    """Makes cluster-wide types and preferences, and takes them away again."""
    made = []

    def make(kind: str, name: str, spec: JsonObject) -> str:
        path = f"{GROUP}/{kind.lower()}s"
        admin.request("POST", path, document(kind, name, spec))
        made.append(f"{path}/{name}")
        return name

    yield make
    for path in made:
        with contextlib.suppress(NotFound):
            remove(admin, path)


@pytest.fixture
def small(make: Make) -> str:
    return make("VirtualMachineClusterInstancetype", "small", {"cpu": {"guest": 2}, "memory": {"guest": "1Gi"}})


def refusal(admin: KubeClient, document: JsonObject) -> list[tuple[str, str]]:
    with pytest.raises(Invalid) as refused:
        admin.request("POST", VMS, document, DRY)
    return [(cause.field, cause.message) for cause in refused.value.causes]


@pytest.mark.parametrize(
    ("kind", "spec", "field", "words"),
    [
        (
            "VirtualMachineInstancetype",
            {"cpu": {"guest": 1}, "memory": {"guest": "1Gi", "overcommitPercent": 101}},
            "spec.memory.overcommitPercent",
            "must be in range between 0 and 100.",
        ),
        (
            "VirtualMachineInstancetype",
            {"cpu": {"guest": 1, "maxSocket": 3}, "memory": {"guest": "1Gi"}},
            "spec.cpu.maxSocket",
            'did you mean "maxSockets"?',
        ),
        (
            "VirtualMachinePreference",
            {"cpu": {"preferredCPUTopology": "pyramid"}},
            "spec.cpu.preferredCPUTopology",
            "unknown preferredCPUTopology pyramid",
        ),
    ],
    ids=["a range", "a typo", "a topology"],
)
def test_what_cannot_be_used_is_refused_with_its_field(
    admin: KubeClient, kind: str, spec: JsonObject, field: str, words: str
) -> None:
    path = f"{GROUP}/namespaces/default/{kind.lower()}s"
    with pytest.raises(Invalid) as refused:
        admin.request("POST", path, document(kind, "bad", spec), DRY)
    assert any(cause.field == field and words in cause.message for cause in refused.value.causes), refused.value.causes


def test_short_names_and_warnings(kubectl: Kubectl, make: Make) -> None:
    make("VirtualMachineClusterPreference", "old", {"cpu": {"preferredCPUTopology": "preferCores"}})
    assert kubectl.run("get", "vmcp", "old", "-o", "name").strip().endswith("/old")
    text = json.dumps(document("VirtualMachinePreference", "p", {"cpu": {"preferredCPUTopology": "preferCores"}}))
    told = kubectl.try_run("apply", "-f", "-", "--dry-run=server", text=text)
    assert "PreferredCPUTopology preferCores is deprecated" in told.stderr


def test_a_vm_must_not_say_what_its_type_says(admin: KubeClient, small: str) -> None:
    cpu = "spec.template.spec.domain.cpu.sockets"
    memory = "spec.template.spec.domain.memory.guest"
    found = refusal(admin, vm(instancetype={"name": small}, domain={"cpu": {"sockets": 1}, "memory": {"guest": "1Gi"}}))
    assert found == [
        (cpu, f"VM field(s) {cpu} conflicts with selected instance type"),
        (memory, f"VM field(s) {memory} conflicts with selected instance type"),
    ]


def test_a_vm_without_them_enters_and_its_template_stays_as_it_was(admin: KubeClient, small: str) -> None:
    made = admin.request("POST", VMS, vm(instancetype={"name": small}), DRY)
    assert "cpu" not in made["spec"]["template"]["spec"]["domain"]
    assert made["spec"]["instancetype"] == {"name": small}


def test_what_kvedge_does_not_have_is_refused_with_where_it_comes_from(
    admin: KubeClient, make: Make, small: str
) -> None:
    clock = {"preferredClockOffset": {"utc": {}}, "preferredTimer": {"pit": {"frequency": 1}}}
    name = make("VirtualMachineClusterPreference", "ticking", {"clock": clock})
    ((field, text),) = refusal(admin, vm(instancetype={"name": small}, preference={"name": name}))
    assert field == "spec.template.spec.domain.clock.timer.pit.frequency"
    assert "not supported by kvedge" in text
    assert "it comes with the VM's instance type or preference" in text


def test_requirements_are_checked(admin: KubeClient, make: Make, small: str) -> None:
    name = make("VirtualMachineClusterPreference", "large", {"requirements": {"memory": {"guest": "2Gi"}}})
    found = refusal(admin, vm(instancetype={"name": small}, preference={"name": name}))
    text = "insufficient Memory resources of 1Gi provided by instance type, preference requires 2Gi"
    assert found == [("spec.instancetype", f"failure checking preference requirements: {text}")]


def test_a_type_that_is_not_there_keeps_no_vm_out_and_is_told(kubectl: Kubectl) -> None:
    text = json.dumps(vm("early", instancetype={"name": "none.such"}))
    done = kubectl.try_run("apply", "--dry-run=server", "-f", "-", text=text)
    assert done.returncode == 0, done.stderr
    assert 'virtualmachineclusterinstancetypes.instancetype.kubevirt.io "none.such" not found' in done.stderr


@pytest.mark.parametrize(
    ("matcher", "field", "words"),
    [
        ({}, "spec.instancetype", "Either Name or InferFromVolume should be provided within the InstancetypeMatcher"),
        (
            {"name": "a", "inferFromVolume": "root"},
            "spec.instancetype.name",
            "Name already set, should be cleared before setting inferFromVolume",
        ),
        (
            {"name": "a", "inferFromVolumeFailurePolicy": "Hope"},
            "spec.instancetype.inferFromVolumeFailurePolicy",
            "Invalid value 'Hope' for InferFromVolumeFailurePolicy",
        ),
        ({"name": "a", "kind": "Pod"}, "spec.instancetype.kind", "got unexpected kind in InstancetypeMatcher: Pod"),
    ],
    ids=["nothing", "both", "a policy", "a kind"],
)
def test_a_matcher_says_one_thing(admin: KubeClient, matcher: JsonObject, field: str, words: str) -> None:
    found = refusal(admin, vm(instancetype=matcher))
    assert any(where == field and words in text for where, text in found), found


def test_a_preference_gives_the_platform_when_a_vm_enters(admin: KubeClient, make: Make) -> None:
    preference = {
        "machine": {"preferredMachineType": "pc"},
        "volumes": {"preferredStorageClassName": "fast"},
    }
    name = make("VirtualMachineClusterPreference", "platform", preference)
    template = {
        "metadata": {"name": "disk"},
        "spec": {"source": {"blank": {}}, "storage": {"resources": {"requests": {"storage": "1Gi"}}}},
    }
    volumes = [{"name": "root", "dataVolume": {"name": "disk"}}]
    wanted = vm(
        preference={"name": name},
        domain={"memory": {"guest": "64Mi"}},
        volumes=volumes,
        dataVolumeTemplates=[template],
    )
    made = admin.request("POST", VMS, wanted, DRY)["spec"]
    assert made["template"]["spec"]["domain"]["machine"] == {"type": "pc"}
    assert made["dataVolumeTemplates"][0]["spec"]["storage"]["storageClassName"] == "fast"


@pytest.fixture
def claims(admin: KubeClient) -> Iterator[None]:
    """A claim that names a type and a preference, and one that names nothing."""
    path = "/api/v1/namespaces/default/persistentvolumeclaims"
    labels = {
        "instancetype.kubevirt.io/default-instancetype": "small",
        "instancetype.kubevirt.io/default-preference": "penguin",
        "instancetype.kubevirt.io/default-preference-kind": "VirtualMachinePreference",
    }
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}}
    for name, given in (("telling", labels), ("silent", {})):
        body = {"metadata": {"name": name, "labels": given}, "spec": spec}
        admin.request("POST", path, {"apiVersion": "v1", "kind": "PersistentVolumeClaim", **body})
    yield
    for name in ("telling", "silent"):
        remove(admin, f"{path}/{name}")


def inferring(claim: str, policy: str | None = None, **domain: Any) -> JsonObject:
    matcher = {"inferFromVolume": "root", **({"inferFromVolumeFailurePolicy": policy} if policy else {})}
    volumes = [{"name": "root", "persistentVolumeClaim": {"claimName": claim}}]
    return vm("inferred", instancetype=matcher, preference=dict(matcher), volumes=volumes, domain=domain)  # type: ignore[no-any-return]


@pytest.mark.usefixtures("claims")
def test_types_are_read_from_a_volume(admin: KubeClient, small: str) -> None:
    made = admin.request("POST", VMS, inferring("telling"), DRY)["spec"]
    assert made["instancetype"] == {"name": small}
    assert made["preference"] == {"name": "penguin", "kind": "VirtualMachinePreference"}
    silent = admin.request("POST", VMS, inferring("silent", "Ignore", memory={"guest": "64Mi"}), DRY)["spec"]
    assert "instancetype" not in silent
    assert silent["template"]["spec"]["domain"]["memory"] == {"guest": "64Mi"}
    with_memory = inferring("telling", "Ignore", memory={"guest": "64Mi"})
    assert "memory" not in admin.request("POST", VMS, with_memory, DRY)["spec"]["template"]["spec"]["domain"]


@pytest.mark.usefixtures("claims", "small")
@pytest.mark.parametrize(
    ("claim", "words"),
    [
        ("silent", "unable to find required instancetype.kubevirt.io/default-instancetype label on the volume"),
        ("missing", 'persistentvolumeclaims "missing" not found'),
    ],
)
def test_a_volume_that_says_nothing_refuses_the_vm(admin: KubeClient, claim: str, words: str) -> None:
    with pytest.raises(KubeError) as refused:
        admin.request("POST", VMS, inferring(claim), DRY)
    assert (refused.value.status, words in refused.value.message) == (400, True), refused.value


def test_a_vm_is_expanded(admin: KubeClient, virtctl: Kubectl, make: Make, small: str) -> None:
    name = make(
        "VirtualMachineClusterPreference",
        "penguin",
        {"devices": {"preferredDiskBus": "virtio"}, "cpu": {"preferredCPUTopology": "cores"}},
    )
    wanted = vm(
        "expanded",
        instancetype={"name": small},
        preference={"name": name},
        volumes=[{"name": "root", "emptyDisk": {"capacity": "1Mi"}}],
    )
    sent = admin.request("PUT", f"{CALLS}/expand-vm-spec", wanted)["spec"]
    admin.request("POST", VMS, wanted)
    try:
        stored = yaml.safe_load(virtctl.run("expand", "--vm", "expanded"))["spec"]
    finally:
        remove(admin, f"{VMS}/expanded")
    for found in (sent, stored):
        assert not {"instancetype", "preference"} & set(found)
        domain = found["template"]["spec"]["domain"]
        assert {name: domain["cpu"][name] for name in ("cores", "sockets", "threads")} == {
            "cores": 2,
            "sockets": 1,
            "threads": 1,
        }
        assert domain["memory"]["guest"] == "1Gi"
        assert domain["devices"]["disks"] == [{"name": "root", "disk": {"bus": "virtio"}}]
        # Room comes with the mark that a new VM gets: one from before keeps its machine.
        assert ("maxSockets" in domain["cpu"]) == (found is stored)


def test_what_conflicts_is_not_expanded(admin: KubeClient, small: str) -> None:
    with pytest.raises(KubeError) as refused:
        admin.request(
            "PUT",
            f"{CALLS}/expand-vm-spec",
            vm(instancetype={"name": small}, domain={"memory": {"guest": "1Gi"}}),
        )
    assert refused.value.status == 400
    assert [cause.field for cause in refused.value.causes] == ["spec.template.spec.domain.memory.guest"]


@pytest.mark.parametrize(
    "arguments",
    [
        ("instancetype", "--cpu", "2", "--memory", "256Mi", "--name", "made", "--iothreadspolicy", "auto"),
        ("instancetype", "--cpu", "2", "--memory", "256Mi", "--name", "made", "--namespaced"),
        ("preference", "--name", "made", "--cpu-topology", "spread", "--volume-storage-class", "fast"),
        ("preference", "--name", "made", "--machine-type", "q35", "--namespaced"),
        ("vm", "--name", "made", "--instancetype", "small", "--preference", "virtualmachinepreference/mine"),
        ("vm", "--name", "made", "--memory", "256Mi", "--infer-preference=false"),
        ("vm", "--name", "made", "--volume-containerdisk", "src:example.com/disk:1"),
    ],
    ids=lambda arguments: " ".join(arguments),
)
@pytest.mark.usefixtures("small")
def test_what_virtctl_makes_is_applied(virtctl: Kubectl, kubectl: Kubectl, arguments: tuple[str, ...]) -> None:
    text = virtctl.run("create", *arguments)
    done = kubectl.try_run("apply", "--dry-run=server", "-f", "-", text=text)
    assert done.returncode == 0, f"{text}\n{done.stderr}"

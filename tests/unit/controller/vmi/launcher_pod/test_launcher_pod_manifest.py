# Tests: kvedge/controller/vmi/launcher_pod/hook_containers.py
"""The launcher Pod that is rendered for a VMI."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvedge.controller.vmi.launcher_pod.launcher_pod_manifest import hostname, launcher_pod
from kvedge.controller.vmi.launcher_pod.launcher_pod_volumes import launcher_volumes
from kvedge.resources.codec import JsonObject, decode, encode
from kvedge.resources.configuration.support_containers import CONTAINER_DISK, SIDECAR
from kvedge.resources.types.core import ResourceRequirements
from kvedge.resources.types.devices import Interface
from kvedge.resources.types.guest_nics import interface_mac
from kvedge.resources.types.pod_networks import NETWORKS, pod_nic
from kvedge.resources.types.vmi import VirtualMachineInstance, VirtualMachineInstanceSpec
from kvedge.resources.types.volumes import MultusNetwork, Network
from tests.support.builders import CONFIG, a_vmi, vmi_with
from tests.support.golden.pod_cases import GoldenPod, golden_pods
from tests.support.values import replace

CASES = golden_pods()


def disk_containers(spec: JsonObject) -> list[JsonObject]:
    return spec.get("initContainers", [])


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_vmi_becomes_its_golden_pod(case: GoldenPod):
    assert case.rendered == case.expected


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_volume_is_mounted_once_and_parents_come_before_children(case: GoldenPod):
    spec = case.rendered["spec"]
    paths = [mount["mountPath"] for mount in spec["containers"][0]["volumeMounts"]]
    names = [mount["name"] for mount in spec["containers"][0]["volumeMounts"]]
    devices = [device["name"] for device in spec["containers"][0].get("volumeDevices", [])]
    volumes = [volume["name"] for volume in spec["volumes"]]
    mounted = [name for name in volumes if name not in devices]
    assert names == mounted[: len(names)]
    others = [*disk_containers(spec), *spec["containers"][1:]]
    of_others = {mount["name"] for container in others for mount in container["volumeMounts"]}
    assert set(mounted[len(names) :]) <= of_others
    assert len(set(paths)) == len(paths)
    for index, path in enumerate(paths):
        assert not any(path.startswith(f"{later}/") for later in paths[index + 1 :])


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_nothing_of_the_host_is_writable(case: GoldenPod):
    spec = case.rendered["spec"]
    from_host = {volume["name"] for volume in spec["volumes"] if "hostPath" in volume}
    containers = [*spec["containers"], *disk_containers(spec)]
    mounts = [mount for item in containers for mount in item["volumeMounts"] if mount["name"] in from_host]
    assert mounts
    assert all(mount["readOnly"] for mount in mounts)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_no_container_has_a_privilege_and_the_pod_no_token(case: GoldenPod):
    spec = case.rendered["spec"]
    for container in [*spec["containers"], *disk_containers(spec)]:
        security = container["securityContext"]
        # Without root no process has it: it is a word to the filter of system calls.
        added = {"add": ["SYS_NICE"]} if case.name == "dedicated-cpus" and container["name"] == "compute" else {}
        assert security["capabilities"] == {"drop": ["ALL"], **added}
        assert not security["allowPrivilegeEscalation"]
        assert security["runAsUser"] == 107
    assert spec["securityContext"]["runAsUser"] == 107
    assert spec["automountServiceAccountToken"] is False


def test_the_golden_cases_use_every_field_that_the_manifest_can_set():
    used: set[str] = set()
    for case in CASES:
        used |= set(case.rendered["spec"]) | set(case.rendered["spec"]["containers"][0])
    rendered_by_others = {"nodeName", "serviceAccountName", "hostNetwork"}
    fields = {field.encode_name for field in msgspec.structs.fields(type(launcher_pod(a_vmi(), CONFIG).spec))}
    assert fields - rendered_by_others <= used


@given(st.from_regex(r"[a-z0-9]([-a-z0-9.]{0,100}[a-z0-9])?", fullmatch=True).filter(lambda name: ".." not in name))
def test_names_and_labels_fit_kubernetes_rules_whatever_the_vmi_is_called(name: str):
    vmi = VirtualMachineInstance()
    vmi.metadata.name, vmi.metadata.uid = name, "some-uid"
    pod = launcher_pod(vmi, CONFIG)
    assert len(pod.metadata.name) <= 63
    assert all(len(value) <= 63 for value in pod.metadata.labels.values())
    assert not hostname(vmi).endswith("-")
    assert "." not in hostname(vmi)


def test_labels_of_long_names_stay_apart():
    one, two = a_vmi(), a_vmi()
    one.metadata.name, two.metadata.name = "a" * 70 + "1", "a" * 70 + "2"
    labels = [launcher_pod(vmi, CONFIG).metadata.labels["vmi.kubevirt.io/id"] for vmi in (one, two)]
    assert labels[0] != labels[1]


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("registry:5000/disk", "Always"),
        ("registry:5000/disk:latest", "Always"),
        ("registry:5000/disk:1.0", "IfNotPresent"),
        ("disk@sha256:00", "IfNotPresent"),
    ],
)
def test_an_image_without_a_pull_policy_is_pulled_as_kubernetes_does(image, policy):
    vmi = a_vmi()
    vmi.spec = msgspec.convert({"volumes": [{"name": "d", "containerDisk": {"image": image}}]}, type(vmi.spec))
    last = launcher_volumes(vmi, CONFIG, {})[-1]
    assert encode(last.volume)["image"] == {"reference": image, "pullPolicy": policy}


def of_images(architecture: str, *, image_volumes: bool) -> JsonObject:
    vmi = a_vmi()
    document = {
        "architecture": architecture,
        "volumes": [
            {"name": "seed", "cloudInitNoCloud": {"userData": "#cloud-config"}},
            {"name": "root", "containerDisk": {"image": "registry/root:1", "imagePullSecret": "login"}},
        ],
    }
    vmi.spec = msgspec.convert(document, type(vmi.spec))
    return encode(launcher_pod(vmi, replace(CONFIG, image_volumes=image_volumes)))["spec"]


def test_launcher_and_disk_container_share_an_empty_volume_where_the_image_would_be():
    with_volume, with_container = (of_images("amd64", image_volumes=able) for able in (True, False))
    assert "initContainers" not in with_volume
    [container] = with_container["initContainers"]
    assert (container["name"], container["image"], container["restartPolicy"]) == (
        "volumeroot",
        "registry/root:1",
        "Always",
    )
    [of_launcher] = [item for item in with_volume["containers"][0]["volumeMounts"] if item["name"] == "volumeroot"]
    assert of_launcher in with_container["containers"][0]["volumeMounts"]
    assert of_launcher in container["volumeMounts"]
    assert {"name": "volumeroot", "emptyDir": {}} in with_container["volumes"]
    assert with_volume["imagePullSecrets"] == with_container["imagePullSecrets"] == [{"name": "login"}]


def test_only_amd64_has_its_program_loader_in_lib64():
    paths = {
        architecture: [
            mount["mountPath"]
            for mount in of_images(architecture, image_volumes=False)["initContainers"][0]["volumeMounts"]
        ]
        for architecture in ("amd64", "arm64")
    }
    assert paths["amd64"][:3] == ["/usr", "/lib", "/lib64"]
    assert "/lib64" not in paths["arm64"]


def test_a_vmi_without_images_has_no_trace_of_disk_containers():
    pod = launcher_pod(a_vmi(), replace(CONFIG, image_volumes=False))
    assert pod == launcher_pod(a_vmi(), CONFIG)


def test_no_vm_is_sent_to_a_node_that_takes_none():
    vmi = a_vmi()
    vmi.spec.node_selector = {"kubevirt.io/schedulable": "false", "kubernetes.io/arch": "s390x", "zone": "a"}
    wanted = {"kubevirt.io/schedulable": "true", "kubernetes.io/arch": "amd64", "zone": "a"}
    assert launcher_pod(vmi, CONFIG).spec.node_selector == wanted


@pytest.mark.parametrize(
    "name",
    [
        "container.apparmor.security.beta.kubernetes.io/compute",
        "container.seccomp.security.alpha.kubernetes.io/compute",
        "seccomp.security.alpha.kubernetes.io/pod",
        "io.kubernetes.cri-o.userns-mode",
        "io.kubernetes.cri-o.Devices",
        "io.kubernetes.cri.untrusted-workload",
        "cpu-load-balancing.crio.io",
        "irq-load-balancing.crio.io/compute",
        "io.katacontainers.config.hypervisor.kernel",
        "k8s.v1.cni.cncf.io/networks",
        "kubevirt.io/network-info",
        "v1.multus-cni.io/default-network",
        "cni.projectcalico.org/ipAddrsNoIpam",
        "ovn.kubernetes.io/ip_address",
    ],
)
def test_who_makes_a_vm_says_nothing_of_its_pods_confinement_and_networks(name: str):
    vmi = a_vmi()
    vmi.metadata.annotations = {name: "x"}
    assert name not in launcher_pod(vmi, CONFIG).metadata.annotations


@pytest.mark.parametrize(
    "name",
    [
        "sidecar.istio.io/inject",
        "kubernetes.io/egress-bandwidth",
        "cluster-autoscaler.kubernetes.io/safe-to-evict",
        "vm.kubevirt.io/os",
        "note",
    ],
)
def test_other_annotations_of_a_vm_are_its_pods(name: str):
    vmi = a_vmi()
    vmi.metadata.annotations = {name: "x"}
    assert launcher_pod(vmi, CONFIG).metadata.annotations[name] == "x"


@pytest.mark.parametrize(("devices", "knows"), [({"downwardMetrics": {}}, True), ({}, False)], ids=["metrics", "none"])
def test_the_launcher_of_a_guest_that_reads_metrics_knows_its_node(devices: JsonObject, knows: bool):
    vmi = a_vmi()
    vmi.spec = decode(VirtualMachineInstanceSpec, {"domain": {"devices": devices, "memory": {"guest": "64Mi"}}})
    (container,) = launcher_pod(vmi, CONFIG).spec.containers
    assert [item.value_from for item in container.env if item.name == "NODE_NAME"] == (
        [{"fieldRef": {"fieldPath": "spec.nodeName"}}] if knows else []
    )


def test_what_an_image_says_of_its_environment_means_nothing_to_the_hosts_shell():
    [container] = of_images("amd64", image_volumes=False)["initContainers"]
    assert container["command"][:3] == ["/usr/bin/env", "-i", "/usr/bin/sh"]
    # The program loader comes before `env` does.
    cleared = [item["name"] for item in container["env"] if not item.get("value")]
    assert {"LD_AUDIT", "LD_LIBRARY_PATH", "LD_PRELOAD"} <= set(cleared)


def test_a_vmi_on_another_network_has_its_pod_join_it():
    vmi = a_vmi()
    vmi.spec.networks.append(Network(name="lan", multus=MultusNetwork(network_name="red")))
    vmi.spec.domain.devices.interfaces.append(Interface(name="lan", bridge={}))
    # What a user says of the Pod's networks is not the last word.
    vmi.metadata.annotations = {NETWORKS: "site/blue"}
    asked = json.loads(launcher_pod(vmi, CONFIG).metadata.annotations[NETWORKS])
    assert [(item["namespace"], item["name"], item["interface"]) for item in asked] == [
        ("default", "red", pod_nic("lan"))
    ]
    assert asked[0]["mac"] == interface_mac(vmi, vmi.spec.domain.devices.interfaces[-1])


def test_a_port_and_a_name_that_two_interfaces_have_is_the_pods_once():
    """A server refuses a Pod with a name twice, and takes a port that is there twice for one."""
    vmi = a_vmi()
    ports = (
        [{"name": "http", "port": 80}, {"name": "dns", "port": 53, "protocol": "UDP"}, {"port": 22}],
        [
            {"name": "http", "port": 8080},
            {"name": "web", "port": 80, "protocol": "TCP"},
            {"name": "dns", "port": 53},
            {"name": "ssh", "port": 22},
        ],
    )
    vmi.spec.domain.devices.interfaces = [
        msgspec.convert({"name": f"nic{index}", "bridge": {}, "ports": each}, Interface)
        for index, each in enumerate(ports)
    ]
    made = launcher_pod(vmi, CONFIG).spec.containers[0].ports
    assert [(each.name, each.container_port, each.protocol) for each in made] == [
        ("http", 80, "TCP"),
        ("dns", 53, "UDP"),
        ("ssh", 22, "TCP"),
        ("", 8080, "TCP"),
        ("", 53, "TCP"),
    ]


@pytest.mark.parametrize(
    ("kind", "names"),
    [(CONTAINER_DISK, ("kernel", "volume")), (SIDECAR, ("hook-sidecar-",))],
    ids=["container disks", "sidecars"],
)
def test_the_kubevirt_object_says_what_containers_beside_the_guests_may_use(kind: str, names: tuple[str, ...]):
    told = ResourceRequirements(requests={"cpu": "33m"}, limits={"memory": "333Mi"})
    found = 0
    for case in (each for each in CASES if each.migration is None):
        pod = launcher_pod(case.vmi, replace(case.config, support={kind: told}), case.claims)
        compute, *others = pod.spec.containers
        for container in [*others, *pod.spec.init_containers]:
            is_told = container.resources.limits.get("memory") == "333Mi"
            assert is_told == container.name.startswith(names)
            found += is_told
        assert compute.resources.limits.get("memory") != "333Mi"
    assert found


@pytest.mark.parametrize(
    ("model", "keeps_away"), [(None, True), ("", True), ("host-model", True), ("host-passthrough", False), ("x", False)]
)
def test_where_models_are_given_up_no_guest_begins_with_one_as_its_nodes(
    model: str | None, *, keeps_away: bool
) -> None:
    vmi = vmi_with({"domain": {} if model is None else {"cpu": {"model": model}}})
    lacking = {"key": "node-labeller.kubevirt.io/obsolete-host-model", "operator": "DoesNotExist"}
    found = launcher_pod(vmi, replace(CONFIG, gives_up_models=True)).spec.affinity
    assert (str(lacking) in str(found)) is keeps_away
    assert launcher_pod(vmi, CONFIG).spec.affinity is None

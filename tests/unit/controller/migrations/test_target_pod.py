"""The Pod that a guest comes to: what it has of its launcher's, and what is its own."""

from __future__ import annotations

from typing import Any

import pytest

from kvedge.controller.migrations.target_pod import target_pod
from kvedge.controller.vmi.launcher_pod.launcher_pod_manifest import launcher_pod
from kvedge.controller.vmi.launcher_pod.memory_overhead import INCOMING_DAEMON
from kvedge.resources.codec import decode, encode
from kvedge.resources.launcher_pod_names import launcher_pod_name
from kvedge.resources.meta import ObjectMeta
from kvedge.resources.names import MEMORY_OVERHEAD, MIGRATION_TARGET_NODE
from kvedge.resources.types.core import ContainerStatus, Pod
from kvedge.resources.types.migrations import (
    VirtualMachineInstanceMigration,
    VirtualMachineInstanceMigrationSpec,
)
from kvedge.resources.types.vmi import MemoryStatus, VirtualMachineInstance
from kvedge.resources.values.quantities import parse_bytes
from tests.support.builders import CONFIG, VMI_UID, a_pod, a_vmi, patched
from tests.support.migrating import MIGRATION_UID
from tests.support.values import replace

DIGEST = f"sha256:{'a' * 64}"


def a_guest(spec: dict[str, Any] | None = None) -> VirtualMachineInstance:
    return decode(VirtualMachineInstance, patched(encode(a_vmi("Running")), {"spec": spec or {}}))


def made(
    vmi: VirtualMachineInstance, source: Pod | None = None, added: dict[str, str] | None = None, **more: Any
) -> Pod:
    migration = VirtualMachineInstanceMigration(
        metadata=ObjectMeta(name="move", namespace="default", uid=MIGRATION_UID),
        spec=VirtualMachineInstanceMigrationSpec(vmi_name="web", added_node_selector=added or {}),
    )
    config = more.pop("config", CONFIG)
    return target_pod(vmi, migration, source or a_pod(vmi, "Running", "node-1"), config, {}, **more)


def test_it_is_the_launchers_pod_with_a_launcher_that_waits_and_a_name_of_its_own():
    vmi = a_guest()
    vmi.metadata.labels = {"app": "web", MIGRATION_TARGET_NODE: "node-9"}
    pod, launcher = made(vmi), launcher_pod(vmi, CONFIG)
    assert pod.metadata.name == launcher_pod_name(vmi, MIGRATION_UID)
    assert pod.metadata.name != launcher.metadata.name
    assert pod.metadata.owner_references == launcher.metadata.owner_references
    assert pod.metadata.labels == {**launcher.metadata.labels, "kubevirt.io/migrationJobUID": MIGRATION_UID}
    assert MIGRATION_TARGET_NODE not in pod.metadata.labels
    assert pod.metadata.annotations["kubevirt.io/migrationJobName"] == "move"
    assert pod.spec.containers[0].command == [*launcher.spec.containers[0].command, "--incoming", MIGRATION_UID]
    assert pod.spec.volumes == launcher.spec.volumes


def test_it_never_comes_to_a_node_where_the_vmi_has_a_pod_and_keeps_what_the_user_asked():
    term = {
        "labelSelector": {"matchLabels": {"kubevirt.io/created-by": VMI_UID}},
        "topologyKey": "kubernetes.io/hostname",
    }
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    assert made(a_guest()).spec.affinity == {"podAntiAffinity": {required: [term]}}
    own = {"labelSelector": {"matchLabels": {"app": "db"}}, "topologyKey": "zone"}
    affinity = {"podAntiAffinity": {required: [own]}, "podAffinity": {"x": []}}
    assert made(a_guest({"affinity": affinity})).spec.affinity == {
        "podAntiAffinity": {required: [own, term]},
        "podAffinity": {"x": []},
    }


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        pytest.param(None, [{"matchExpressions": ["avoid"]}], id="nothing asked"),
        pytest.param(
            [{"matchExpressions": ["a"]}, {"matchFields": ["b"]}],
            [{"matchExpressions": ["a", "avoid"]}, {"matchFields": ["b"], "matchExpressions": ["avoid"]}],
            id="every alternative",
        ),
        pytest.param([{}], [{}], id="a term that matches nothing stays so"),
    ],
)
def test_nodes_of_another_version_are_avoided(asked, expected):
    avoid = {"key": "kubernetes.io/hostname", "operator": "NotIn", "values": ["node-2", "node-3"]}
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    node = {} if asked is None else {"affinity": {"nodeAffinity": {required: {"nodeSelectorTerms": asked}}}}
    affinity = made(a_guest(node), avoided={"node-3", "node-2"}).spec.affinity
    assert affinity is not None
    found = affinity["nodeAffinity"][required]["nodeSelectorTerms"]
    said = [
        {key: ["avoid" if item == avoid else item for item in value] for key, value in term.items()} for term in found
    ]
    assert said == expected


def cpu_wishes(pod: Pod) -> list[tuple[str, int]]:
    terms = pod.spec.affinity["nodeAffinity"].get("preferredDuringSchedulingIgnoredDuringExecution", [])
    return [(term["preference"]["matchExpressions"][0]["key"], term["weight"]) for term in terms]


NODE_OF_ONE_CPU = {
    "host-model-cpu.node.kubevirt.io/Icelake": "true",
    "cpu-model.node.kubevirt.io/Nehalem": "true",
    "kubernetes.io/hostname": "n",
}


@pytest.mark.parametrize("model", [None, "", "host-model", "host-passthrough"])
def test_a_guest_with_its_nodes_cpu_goes_rather_to_one_that_has_it_too(model: str | None) -> None:
    vmi = a_guest() if model is None else a_guest({"domain": {"cpu": {"model": model}}})
    own = {"weight": 3, "preference": {"matchExpressions": [{"key": "mine", "operator": "Exists"}]}}
    vmi.spec.affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [own]}}
    pod = made(vmi, source_labels=NODE_OF_ONE_CPU, avoided=["old"])
    same, able = "host-model-cpu.node.kubevirt.io/Icelake", "cpu-model.node.kubevirt.io/Icelake"
    assert cpu_wishes(pod) == [("mine", 3), (same, 40), (able, 40)]
    # The wish is none of the demands.
    required = pod.spec.affinity["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert (
        required
        == made(vmi, avoided=["old"]).spec.affinity["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    )
    demanded = {} if model == "host-passthrough" else {"cpu-model-migration.node.kubevirt.io/Icelake": "true"}
    assert pod.spec.node_selector == made(vmi).spec.node_selector | demanded


def test_a_guest_with_a_cpu_of_its_own_and_one_of_a_node_that_says_nothing_wish_for_none() -> None:
    named = a_guest({"domain": {"cpu": {"model": "Nehalem"}}})
    for pod in (made(named, source_labels=NODE_OF_ONE_CPU), made(a_guest(), source_labels={"a": "b"})):
        assert "nodeAffinity" not in pod.spec.affinity


def test_a_selector_that_the_migration_adds_yields_to_the_vmis_own():
    pod = made(
        a_guest({"nodeSelector": {"zone": "a"}}), added={"zone": "b", "rack": "1", "kubevirt.io/schedulable": "x"}
    )
    assert pod.spec.node_selector["zone"] == "a"
    assert pod.spec.node_selector["rack"] == "1"
    assert pod.spec.node_selector["kubevirt.io/schedulable"] == "true"


def test_it_asks_for_the_memory_of_libvirts_daemon_as_well():
    vmi = a_guest({"domain": {"resources": {"requests": {"memory": "64Mi"}, "limits": {"memory": "128Mi"}}}})
    pod, launcher = made(vmi), launcher_pod(vmi, CONFIG)
    for kind in ("requests", "limits"):
        asked, before = (getattr(each.spec.containers[0].resources, kind)["memory"] for each in (pod, launcher))
        assert int(asked) == int(before) + INCOMING_DAEMON
    before, after = (int(each.metadata.annotations[MEMORY_OVERHEAD]) for each in (launcher, pod))
    assert after == before + INCOMING_DAEMON
    vmi.spec.domain.resources.overcommit_guest_overhead = True
    requests = made(vmi).spec.containers[0].resources.requests
    assert requests["memory"] == launcher_pod(vmi, CONFIG).spec.containers[0].resources.requests["memory"]


@pytest.mark.parametrize(
    ("image", "image_id", "expected"),
    [
        pytest.param("reg:5000/a/os:1", f"reg:5000/a/os@{DIGEST}", f"reg:5000/a/os@{DIGEST}", id="tag"),
        pytest.param("reg:5000/os", f"docker-pullable://reg:5000/os@{DIGEST}", f"reg:5000/os@{DIGEST}", id="docker"),
        pytest.param("os:1", DIGEST, "os:1", id="from an archive"),
        pytest.param("os:1", "reg/os@sha256:short", "os:1", id="no digest"),
        pytest.param("os:1", "", "os:1", id="not told"),
        pytest.param(f"os@sha256:{'b' * 64}", f"os@{DIGEST}", f"os@sha256:{'b' * 64}", id="pinned by the user"),
    ],
)
def test_images_are_those_that_the_source_runs(image, image_id, expected):
    volumes = [{"name": "root", "containerDisk": {"image": image}}]
    vmi = a_guest({"volumes": volumes})
    config = replace(CONFIG, image_volumes=False)
    source = launcher_pod(vmi, config)
    source.status.init_container_statuses = [
        ContainerStatus(name="volumeroot", ready=True, restart_count=0, image=image, image_id=image_id)
    ]
    pod = made(vmi, source, config=config)
    assert [container.image for container in pod.spec.init_containers] == [expected]
    mounted = made(vmi, source)
    assert [volume.image.reference for volume in mounted.spec.volumes if volume.image is not None] == [expected]


def test_a_guest_that_has_not_given_memory_back_comes_to_a_pod_with_all_of_it():
    domain = {
        "cpu": {"sockets": 1, "cores": 1, "threads": 1},
        "memory": {"guest": "2Gi", "maxGuest": "8Gi"},
        "resources": {"requests": {"memory": "2Gi"}, "limits": {"memory": "2Gi"}},
    }
    vmi = a_guest({"domain": domain})
    given_back = made(vmi).spec.containers[0].resources
    vmi.status.memory = MemoryStatus(guest_at_boot="1Gi", guest_current="4Gi", guest_requested="2Gi")
    resources = made(vmi).spec.containers[0].resources
    for large, small in ((resources.requests, given_back.requests), (resources.limits, given_back.limits)):
        assert parse_bytes(large["memory"]) - parse_bytes(small["memory"]) >= 2 << 30
    vmi.status.memory.guest_current = "2Gi"
    assert made(vmi).spec.containers[0].resources == given_back

"""Container disks and devices on a real cluster: from the image, through kubelet and runtime, to the launcher."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvedge.controller.kubevirt.image_volume_rules import unable_nodes
from kvedge.resources.meta import condition
from kvedge.resources.names import DEVICE_KVM
from kvedge.resources.types.core import Node
from tests.support.box import small_vm
from tests.support.cluster.any_cluster import Cluster
from tests.support.cluster.guest_image import write_guest_image
from tests.support.cluster.kvedge_cluster import LocalCluster
from tests.support.cluster.machine_node import PAUSE
from tests.support.small_images import directory, file, layer, oci_archive
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(500)]

TREE = "/run/kubevirt-image-volume/disk_0"


def test_the_launcher_has_the_image_s_files_in_a_way_that_the_nodes_can(cluster: Cluster) -> None:
    cluster.apply(small_vm("carried", cluster.image))
    vmi = cluster.wait_phase("carried", "Running")
    (pod,) = cluster.pods(vmi)
    if unable_nodes(cluster.client.list(Node)):
        (container,) = pod.spec.init_containers
        assert (container.name, container.image, container.restart_policy) == ("volumesystem", cluster.image, "Always")
    else:
        assert pod.spec.init_containers == []
        (image,) = [volume.image for volume in pod.spec.volumes if volume.image is not None]
        assert image.reference == cluster.image
    mounted = [line.split() for line in cluster.in_launcher(pod, "/usr/bin/cat", "/proc/self/mountinfo").splitlines()]
    of_tree = [fields for fields in mounted if fields[4] == TREE]
    assert "ro" in of_tree[-1][5].split(",")
    assert cluster.in_launcher(pod, "/usr/bin/ls", f"{TREE}/disk").split() == ["disk.qcow2"]
    cluster.wait_answer("carried")
    cluster.remove_vm("carried")


def test_an_image_that_nobody_has_is_said_and_the_vm_runs_once_its_nodes_have_it(own_cluster: LocalCluster) -> None:
    # Nobody is asked for it: there is no registry on a node's loopback.
    image = "localhost:1/late:1"
    own_cluster.apply(small_vm("late", image))

    def complaint() -> str:
        found = own_cluster.vmi("late")
        told = condition(found.status.conditions, "Synchronized") if found is not None else None
        return told.message if told is not None and told.status == "False" else ""

    assert image in wait_until(complaint, "the VMI says what it waits for", 120, 0.2)
    # The VM follows its VMI.
    pulls = ("ErrImagePull", "ImagePullBackOff")
    wait_until(lambda: own_cluster.vm("late").status.printable_status in pulls, "the VM says that it pulls", 60, 0.2)
    archive = own_cluster.directory / "late.tar"
    write_guest_image(archive, image)
    for node in own_cluster.nodes.values():
        node.import_image(archive)
    own_cluster.wait_phase("late", "Running")
    own_cluster.remove_vm("late")


def test_a_launcher_s_devices_are_its_user_s_from_its_start(cluster: Cluster) -> None:
    cluster.apply(small_vm("owner", cluster.image))
    vmi = cluster.wait_phase("owner", "Running")
    (pod,) = cluster.pods(vmi)
    seen = cluster.kubectl("exec", pod.metadata.name, "--", "/usr/bin/stat", "-c", "%u:%g %a %t:%T", "/dev/net/tun")
    assert seen.stdout.split() == ["107:107", "660", "a:c8"]
    cluster.remove_vm("owner")


@pytest.mark.skipif(not Path("/dev/kvm").exists(), reason="/dev/kvm is not here")
def test_kvm_is_given_to_who_asks_for_it_as_the_launcher_s_user_s(own_cluster: LocalCluster) -> None:
    """Whether guests run on it does not matter: the kubelet hands out a node, and takes it away again."""
    cluster, look = own_cluster, "jsonpath={.status.allocatable.devices\\.kubevirt\\.io/kvm}"
    cluster.restart_kvedge("n2", "kvm")
    try:
        wait_until(lambda: cluster.kubectl("get", "node", "n2", "-o", look).stdout not in {"", "0"}, "n2 offers KVM")
        wanted = {"limits": {DEVICE_KVM: "1"}}
        command = ["/bin/busybox", "stat", "-c", "%u:%g %a %t:%T", "/dev/kvm"]
        container = {"name": "c", "image": PAUSE, "imagePullPolicy": "Never", "command": command, "resources": wanted}
        spec = {"restartPolicy": "Never", "nodeName": "n2", "containers": [container]}
        cluster.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "asks"}, "spec": spec})
        cluster.kubectl("wait", "pod/asks", "--for=jsonpath={.status.phase}=Succeeded", "--timeout=90s")
        assert cluster.kubectl("logs", "asks").stdout.split() == ["107:107", "660", "a:e8"]
        cluster.kubectl("delete", "pod", "asks")
    finally:
        cluster.restart_kvedge("n2")
    wait_until(lambda: cluster.kubectl("get", "node", "n2", "-o", look).stdout in {"", "0"}, "it offers none any more")
    wait_until(lambda: cluster.is_schedulable("n2"), "n2 takes VMs", 120)


def test_a_pod_is_over_when_its_guest_is_though_the_disk_s_container_goes_on_until_then(cluster: Cluster) -> None:
    cluster.apply(small_vm("once", cluster.image, "Once"))
    vmi = cluster.wait_phase("once", "Running")
    (pod,) = cluster.pods(vmi)
    cluster.wait_answer("once")
    cluster.cli("stop", "once", check=False)

    def ended() -> bool:
        found = [item.status.phase for item in cluster.pods(vmi) if item.metadata.uid == pod.metadata.uid]
        return found in ([], ["Succeeded"])

    wait_until(ended, "the Pod is over", 60, 0.2)
    cluster.remove_vm("once")


@pytest.mark.parametrize(
    ("files", "mode", "words"),
    [
        (("a.img", "b.img"), 0o644, "more than one file found in folder /disk, only one disk is allowed"),
        (("a.img",), 0o600, "disk file /disk/a.img is not readable by user 107"),
    ],
    ids=["two disks", "root's own disk"],
)
def test_an_image_without_a_disk_is_said_with_what_is_wrong(
    own_cluster: LocalCluster, files: tuple[str, ...], mode: int, words: str
) -> None:
    image = f"kvedge.local/no-disk:{mode:o}"
    archive = own_cluster.directory / "no-disk.tar"
    found = layer([directory("disk", 0o755), *(file(f"disk/{name}", b"a" * 512, mode) for name in files)])
    oci_archive(archive, [found], {}, image, zipped=False)
    for node in own_cluster.nodes.values():
        node.import_image(archive)
    own_cluster.apply(small_vm("twofold", image, "Manual"))
    own_cluster.cli("start", "twofold")
    vmi = own_cluster.wait_phase("twofold", "Failed")
    assert words in vmi.status.reason
    own_cluster.remove_vm("twofold")


def test_nothing_of_a_disk_is_mounted_on_the_node_and_its_pod_leaves_no_directory(own_cluster: LocalCluster) -> None:
    own_cluster.apply(small_vm("traceless", own_cluster.image))
    vmi = own_cluster.wait_phase("traceless", "Running")
    (pod,) = own_cluster.pods(vmi)
    node = own_cluster.node_of(vmi)
    volumes = f"/var/lib/kubelet/pods/{pod.metadata.uid}/volumes/kubernetes.io~empty-dir/volumesystem"
    assert volumes not in node.run("cat", "/proc/self/mountinfo")
    own_cluster.remove_vm("traceless")
    wait_until(lambda: node.run("ls", "/var/lib/kubelet/pods").split().count(pod.metadata.uid) == 0, "the Pod is gone")


def test_plugins_come_back_to_a_kubelet_that_removed_their_sockets(own_cluster: LocalCluster) -> None:
    name, node = next(iter(own_cluster.nodes.items()))

    def registrations() -> int:
        return node.log("kubelet").count(
            'registration request from device plugin with resource" resourceName="devices.'
        )

    before = registrations()
    assert before >= 2
    # The kubelet itself removes its plugins' sockets when it starts.
    with own_cluster.without(name, "kubelet"):
        pass
    wait_until(lambda: registrations() >= before + 2, "the plugins are registered again", 60, 0.2)
    wait_until(lambda: own_cluster.is_ready(name), "the node is ready", 90, 0.5)
    own_cluster.apply(small_vm("after", own_cluster.image, nodeSelector={"kubernetes.io/hostname": name}))
    own_cluster.wait_phase("after", "Running")
    own_cluster.remove_vm("after")

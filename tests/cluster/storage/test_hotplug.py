"""Disks that come and go while a guest runs, on real kubelets: files of k3s's own storage, devices of static volumes.

One guest on one node for all of it; each test leaves it with the two disks that the first one has given it, until the
last takes them away.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from kvedge.resources.codec import JsonObject
from kvedge.resources.meta import condition
from kvedge.resources.types.data_volumes import DataVolume
from kvedge.runtime.linux.loop_devices import attach_loop, detach_loop
from tests.support.cluster.kvedge_cluster import LocalCluster
from tests.support.hotplug_guest import HotplugGuest, a_claim, blank_volume, hotplug_vm
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900), pytest.mark.incremental]

NAME = "plugged"
NODE = "n2"
DEVICES = "static-devices"


@pytest.fixture(scope="module")
def device(local_path: LocalCluster) -> Iterator[Path]:
    """A block device of a node, offered as a volume."""
    image = local_path.directory / "device.img"
    image.touch()
    os.truncate(image, 64 << 20)
    found = attach_loop(image)
    local_path.apply(device_class(), device_volume(found))
    yield found
    local_path.kubectl("delete", "pv,storageclass", DEVICES, "--wait=false")
    detach_loop(found)


def device_class() -> JsonObject:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": DEVICES},
        "provisioner": "kubernetes.io/no-provisioner",
        "volumeBindingMode": "WaitForFirstConsumer",
    }


def device_volume(device: Path) -> JsonObject:
    here = {"key": "kubernetes.io/hostname", "operator": "In", "values": [NODE]}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": DEVICES},
        "spec": {
            "capacity": {"storage": "64Mi"},
            "accessModes": ["ReadWriteOnce"],
            "volumeMode": "Block",
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": DEVICES,
            "local": {"path": str(device)},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}},
        },
    }


@pytest.fixture(scope="module")
def guest(local_path: LocalCluster, device: Path) -> Iterator[HotplugGuest]:
    cluster = local_path
    cluster.apply(a_claim("file"), a_claim("later"))
    cluster.apply(a_claim("device", volumeMode="Block", storageClassName=DEVICES))
    # Nothing of the VM itself says where it is to run: its disks will.
    others = [name for name in cluster.nodes if name != NODE]
    with cluster.cordoned(*others):
        cluster.apply(hotplug_vm(NAME, cluster.image))
        cluster.wait_phase(NAME, "Running")
    found = HotplugGuest(cluster, NAME)
    found.wait_answer()
    yield found
    cluster.remove_vm(NAME)
    cluster.kubectl("delete", "pvc", "file", "later", "device")


def test_a_file_and_a_device_come_to_a_guest_that_reads_what_it_writes(guest: HotplugGuest) -> None:
    guest.add("file", "--serial", "File-1")
    guest.write_spec(device={"persistentVolumeClaim": {"claimName": "device"}})
    guest.wait_ready("file", "device", seconds=90)
    for serial in ("File-1", "device"):
        guest.write(serial, f"hello {serial}")
    both_are_there(guest)


def test_a_data_volume_that_waits_for_its_first_consumer_is_filled_and_comes(
    guest: HotplugGuest, local_path: LocalCluster
) -> None:
    local_path.apply(blank_volume("blank"))
    guest.add("blank")
    guest.wait_ready("file", "device", "blank", seconds=120)
    assert local_path.client.get(DataVolume, "default", "blank").status.phase == "Succeeded"
    guest.write("blank", "hello blank")
    guest.remove("blank")
    guest.wait_ready("file", "device", seconds=90)
    local_path.kubectl("delete", "datavolume", "blank")


def both_are_there(guest: HotplugGuest) -> None:
    for serial in ("File-1", "device"):
        assert guest.read(serial, 12) == f"hello {serial}"


def comes_and_goes(guest: HotplugGuest) -> None:
    """One more disk, and away with it: who brings disks is at work."""
    guest.add("later")
    guest.wait_ready("file", "device", "later", seconds=90)
    guest.write("later", "hello later")
    guest.remove("later")
    guest.wait_ready("file", "device", seconds=90)
    wait_until(lambda: len(guest.attachments()) == 2, "its attachment Pod is gone")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=["asked", "killed"])
def test_a_handler_that_is_replaced_finds_them_and_goes_on(
    guest: HotplugGuest, local_path: LocalCluster, number: signal.Signals
) -> None:
    with local_path.without(NODE, "kvedge", number):
        both_are_there(guest)
        # What is asked for meanwhile comes when it is back.
        guest.add("later")
    guest.wait_ready("file", "device", "later", seconds=120)
    guest.remove("later")
    guest.wait_ready("file", "device", seconds=90)
    both_are_there(guest)


def test_a_kubelet_that_is_killed_leaves_them_alone(guest: HotplugGuest, local_path: LocalCluster) -> None:
    pods = {pod.metadata.uid for pod in guest.attachments()}
    with local_path.without(NODE, "kubelet", signal.SIGKILL):
        both_are_there(guest)
    wait_until(lambda: local_path.is_ready(NODE), "the node is ready", 90, 0.5)
    comes_and_goes(guest)
    both_are_there(guest)
    assert {pod.metadata.uid for pod in guest.attachments()} == pods


def test_an_attachment_pod_that_is_evicted_is_made_again_and_the_guest_keeps_its_disk(
    guest: HotplugGuest, local_path: LocalCluster
) -> None:
    before = {pod.metadata.uid for pod in guest.attachments()}
    local_path.kubectl("delete", "pods", "-l", "kubevirt.io=hotplug-disk", "--wait=false")

    def others() -> bool:
        pods = guest.attachments()
        return len(pods) == 2 and all(pod.metadata.uid not in before and pod.status.phase == "Running" for pod in pods)

    wait_until(others, "two other attachment Pods run", 90)
    both_are_there(guest)
    comes_and_goes(guest)
    both_are_there(guest)


def test_a_drained_nodes_guest_comes_back_with_its_disks(guest: HotplugGuest, local_path: LocalCluster) -> None:
    before = guest.vmi()
    drain = ("drain", NODE, "--ignore-daemonsets", "--force", "--delete-emptydir-data", "--timeout=120s")
    # Other tests of this cluster need it.
    with local_path.cordoned(NODE):
        local_path.kubectl(*drain, "--pod-selector=kubevirt.io in (virt-launcher, hotplug-disk)")
        wait_until(lambda: not guest.attachments(), "no attachment Pod is left", 60)
        wait_until(lambda: waits_for_its_node(local_path), "the guest waits for the node that has its disks", 90)
    assert local_path.wait_new_run(before).status.node_name == NODE
    guest.wait_answer()
    guest.wait_ready("file", "device", seconds=90)
    both_are_there(guest)


def waits_for_its_node(cluster: LocalCluster) -> bool:
    """The launcher does not go where its disks cannot follow."""
    vmi = cluster.vmi(NAME)
    found = None if vmi is None else condition(vmi.status.conditions, "PodScheduled")
    return found is not None and (found.status, found.reason) == ("False", "Unschedulable")


def test_what_was_given_is_taken_back(guest: HotplugGuest) -> None:
    guest.remove("file")
    guest.write_spec(device=None)
    guest.wait_ready(seconds=90)
    assert guest.run("ls -d /sys/block/sd* 2>/dev/null; true") == ""
    wait_until(lambda: not guest.attachments(), "no attachment Pod is left")

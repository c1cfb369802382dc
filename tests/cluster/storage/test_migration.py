"""A guest moves between two real kubelets' nodes, and never runs twice, whatever is killed on the way.

One guest for all of it, with one disk that was plugged in: each test leaves it running on some node.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

from kvedge.kube.errors import NotFound
from kvedge.resources.codec import JsonObject
from kvedge.resources.meta import Condition, condition
from kvedge.resources.names import CREATED_BY, LAUNCHER_GID, MIGRATION_TARGET_NODE, NODE_NAME, SYSTEM_NAMESPACE
from kvedge.resources.types.migrations import VirtualMachineInstanceMigration
from tests.support.box import processes, small_vm
from tests.support.cluster.counting_guest import CountingGuest, counting_vm, migration, slow_policy
from tests.support.cluster.kvedge_cluster import SERVER, LocalCluster
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(500), pytest.mark.incremental]

NAME = "mover"
SLOWLY = "slowly"


@contextmanager
def claimed(cluster: LocalCluster, name: str, mode: str) -> Iterator[None]:
    """A directory of this machine, which is on all nodes, as a volume, and a claim that has it."""
    directory = cluster.directory / name
    directory.mkdir()
    # As a provisioner leaves it for the Pod's group.
    os.chown(directory, 0, LAUNCHER_GID)
    directory.chmod(0o770)
    common: JsonObject = {"accessModes": [mode], "storageClassName": ""}
    size = {"storage": "64Mi"}
    place = {"hostPath": {"path": str(directory)}, "claimRef": {"namespace": cluster.namespace, "name": name}}
    wanted = {"resources": {"requests": size}, "volumeName": name}
    cluster.apply(
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": name},
            "spec": {**common, "capacity": size, **place},
        },
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": name},
            "spec": {**common, **wanted},
        },
    )
    try:
        yield
    finally:
        # A claim that a Pod still has stays until that Pod is gone.
        cluster.kubectl("delete", "pvc", name, "--timeout=60s", check=False)
        cluster.kubectl("delete", "pv", name, "--timeout=60s")
        shutil.rmtree(directory)


def set_unsafe(cluster: LocalCluster, wanted: bool | None) -> None:
    patch = {"spec": {"configuration": {"migrations": {"unsafeMigrationOverride": wanted}}}}
    where = ("kubevirt", "kubevirt", "--namespace", SYSTEM_NAMESPACE)
    cluster.kubectl("patch", *where, "--type=merge", "--patch", json.dumps(patch))


@pytest.fixture(scope="module")
def guest(own_machine: None, cluster: LocalCluster) -> Iterator[CountingGuest]:
    """It counts on the node that is not the server; nothing of the VM itself says where it is to run."""
    with claimed(cluster, "common", "ReadWriteMany"), claimed(cluster, "plugged", "ReadWriteMany"):
        # libvirt does not know of this machine's file system that all nodes have it.
        set_unsafe(cluster, True)
        try:
            with cluster.cordoned(SERVER):
                cluster.apply(counting_vm(NAME, cluster.image, "common"))
                cluster.wait_phase(NAME, "Running")
            guest = CountingGuest(cluster, NAME)
            with guest.log_on(guest.node) as log:
                wait_until(lambda: len(log.counts()) > 1, "the guest counts", 90, 0.2)
            guest.plug("plugged")
            yield guest
        finally:
            cluster.remove_vm(NAME)
            set_unsafe(cluster, None)


@pytest.fixture(autouse=True)
def moves_end(guest: CountingGuest) -> Iterator[None]:
    """A test that fails on the way leaves no migration that the next one would have to wait for."""
    yield
    guest.end_migrations()


@pytest.fixture
def slowly(guest: CountingGuest) -> Iterator[CountingGuest]:
    """A migration takes a minute."""
    guest.cluster.apply(slow_policy(SLOWLY))
    yield guest
    guest.cluster.kubectl("delete", "migrationpolicy", SLOWLY)


def move(guest: CountingGuest, name: str) -> None:
    """Move it to the other node, and check all that is said of it."""
    source, target = guest.node, guest.other_node
    before, before_volumes = guest.vmi, guest.plugged()
    with guest.log_on(source) as old:
        asked = guest.migrate(name)
        done = guest.wait_migration(name, "Succeeded", "Failed")
        assert done.status.phase == "Succeeded", guest.cluster.told(NAME)
        with guest.log_on(target) as new:
            wait_until(lambda: len(new.counts()) > 1, f"it counts on {target}", 60)
            left, came = old.counts()[-1], new.counts()[0]
    # A line that was half written in one log and half in the other is in neither.
    assert came - left in (1, 2)
    guest.wait_only_on(target)
    vmi = guest.vmi
    assert (vmi.metadata.uid, vmi.status.phase) == (before.metadata.uid, "Running")
    assert vmi.metadata.labels[NODE_NAME] == target
    assert MIGRATION_TARGET_NODE not in vmi.metadata.labels
    pods = guest.pods()
    state = vmi.status.migration_state
    assert state is not None
    assert (state.migration_uid, state.completed, state.failed) == (asked.metadata.uid, True, False)
    assert (state.source_node, state.target_node) == (source, target)
    assert (state.source_pod, state.target_pod) == (pods[source].metadata.name, pods[target].metadata.name)
    assert state.mode == "PreCopy"
    assert state.start_timestamp
    assert state.end_timestamp
    assert state.start_timestamp <= state.end_timestamp
    wait_until(lambda: pods_end(guest, source), "the source's Pod has ended well", 60, 0.2)
    uid = pods[target].metadata.uid
    wait_until(lambda: guest.vmi.status.active_pods == {uid: target}, "the source's Pod is not active", 60, 0.2)
    address = pods[target].status.pod_ip
    wait_until(lambda: guest.vmi.status.interfaces[0].ip_address == address, "the Pod's address is told", 60, 0.2)
    found = guest.migration(name).status.migration_state
    assert found is not None
    assert (found.migration_uid, found.completed) == (state.migration_uid, True)
    wait_until(lambda: guest.cluster.vm(NAME).status.ready, "the VM is ready", 30, 0.2)
    given = state.target_attachment_pods
    assert given.keys() == before_volumes.keys()
    assert set(given.values()).isdisjoint(uid for _, uid in before_volumes.values())
    has_all = {name: ("Ready", uid) for name, uid in given.items()}
    wait_until(lambda: guest.plugged() == has_all, "its volumes are told to be on the target", 30, 0.2)
    wait_until(lambda: guest.attachments() == [target] * len(given), "the source's attachment Pods are gone", 60, 0.2)


def can_move(cluster: LocalCluster, name: str) -> Condition | None:
    found = cluster.vmi(name)
    return None if found is None else condition(found.status.conditions, "LiveMigratable")


def pods_end(guest: CountingGuest, node: str) -> bool:
    return guest.pods()[node].status.phase == "Succeeded"


def begin(guest: CountingGuest, name: str) -> None:
    """A migration that is under way, and will be for a while."""
    guest.migrate(name)
    guest.wait_migration(name, "Running")
    wait_until(lambda: len(guest.qemus()) == 2, "the guest is on its way", 30)


def stays(guest: CountingGuest, node: str) -> None:
    """It runs where it was, and nowhere else; the target is no longer told."""
    guest.wait_only_on(node)
    guest.wait_counts_on()
    wait_until(lambda: MIGRATION_TARGET_NODE not in guest.vmi.metadata.labels, "nothing comes any more", 60, 0.2)
    state = guest.vmi.status.migration_state
    assert state is not None
    assert (state.completed, state.failed) == (True, True)
    assert state.failure_reason
    assert guest.plugged().keys() == {"plugged"}
    wait_until(lambda: guest.attachments() == [node], "the claim is held on the guest's node alone", 60, 0.2)


def count_in(cluster: LocalCluster, claim: str) -> int:
    """What the guest has written to a disk, as this machine's file system has it."""
    with (cluster.directory / claim / "disk.img").open("rb") as image:
        return int(image.readline())


def test_a_guest_goes_to_the_other_node_and_back_with_all_its_disks(guest: CountingGuest) -> None:
    told = wait_until(lambda: can_move(guest.cluster, NAME), "whether it can move is told", 30, 0.2)
    assert told.status == "True", told
    move(guest, "there")
    guest.cluster.wait_answer(NAME, 20)
    written = count_in(guest.cluster, "plugged")
    wait_until(lambda: count_in(guest.cluster, "plugged") > written, "it writes to what was plugged in", 30, 0.2)
    with claimed(guest.cluster, "plugged-later", "ReadWriteMany"):
        guest.plug("plugged-later")
        move(guest, "back")
        guest.cluster.wait_answer(NAME, 20)
        guest.unplug("plugged-later")
    assert guest.attachments() == [guest.node]
    assert "count" in guest.cluster.cli("console", NAME, "--log").stdout
    guest.cluster.cli("pause", "vmi", NAME)
    guest.cluster.cli("unpause", "vmi", NAME)
    guest.wait_counts_on()


def test_a_migration_that_is_cancelled_leaves_the_guest_where_it_is(slowly: CountingGuest) -> None:
    guest = slowly
    node = guest.node
    begin(guest, "cancelled")
    wait_until(lambda: is_told_to_be_on_its_way(guest), "what is left is told", 30, 0.2)
    cancelled = guest.cluster.cli("migrate-cancel", NAME, "--wait")
    assert cancelled.stdout.splitlines()[-1] == f"VM {NAME} stays on {node}"
    wait_until(lambda: is_gone(guest, "cancelled"), "the migration is gone", 60, 0.2)
    stays(guest, node)
    state = guest.vmi.status.migration_state
    assert state is not None
    assert (state.abort_requested, state.abort_status) == (True, "Succeeded")


def is_told_to_be_on_its_way(guest: CountingGuest) -> bool:
    path = f"/apis/subresources.kubevirt.io/v1/namespaces/{guest.cluster.namespace}/virtualmachineinstances/{NAME}"
    found = guest.cluster.client.request("GET", f"{path}/migration")
    return bool(found["state"] == "Active" and 0 < found["leftBytes"] <= found["totalBytes"])


def is_gone(guest: CountingGuest, name: str) -> bool:
    try:
        guest.migration(name)
    except NotFound:
        return True
    return False


@pytest.mark.parametrize("program", ["QEMU", "Pod"])
def test_a_target_that_is_killed_on_the_way_leaves_the_guest_where_it_is(slowly: CountingGuest, program: str) -> None:
    guest = slowly
    node, name = guest.node, f"killed-{program.lower()}"
    begin(guest, name)
    uid = guest.migration(name).metadata.uid
    # With its monitor, which is the first process of the container, all of them end.
    launchers = [pid for pid, command in processes() if uid in command]
    coming = guest.qemus_on(guest.other_node) if program == "QEMU" else launchers
    assert coming
    for pid in coming:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    guest.wait_migration(name, "Failed")
    stays(guest, node)


def test_a_source_s_handler_that_is_killed_on_the_way_leaves_one_guest(slowly: CountingGuest) -> None:
    guest = slowly
    node = guest.leave(SERVER)
    begin(guest, "unattended")
    with guest.cluster.without(node, "kvedge", signal.SIGKILL):
        pass
    ended = guest.wait_migration("unattended", "Succeeded", "Failed", seconds=120)
    # libvirt lets it go on at once when the way is cut.
    assert ended.status.phase == "Failed"
    stays(guest, node)


def test_a_guest_on_a_claim_of_one_node_is_refused(guest: CountingGuest) -> None:
    cluster = guest.cluster
    vm = small_vm("bound", cluster.image)
    spec = vm["spec"]["template"]["spec"]
    spec["domain"]["devices"]["interfaces"] = [{"name": "default", "masquerade": {}}]
    spec["volumes"] = [{"name": "system", "persistentVolumeClaim": {"claimName": "single"}}]
    with claimed(cluster, "single", "ReadWriteOnce"):
        cluster.apply(vm)
        try:
            cluster.wait_phase("bound", "Running")
            told = wait_until(lambda: can_move(cluster, "bound"), "whether it can move is told", 30, 0.2)
            assert (told.status, told.reason) == ("False", "DisksNotLiveMigratable")
            refused = cluster.kubectl("create", "-f", "-", text=json.dumps(migration("refused", "bound")), check=False)
            assert refused.returncode != 0
            assert "DisksNotLiveMigratable" in refused.stderr
            made = cluster.client.list(VirtualMachineInstanceMigration, cluster.namespace)
            assert "refused" not in {found.metadata.name for found in made}
        finally:
            cluster.remove_vm("bound")


def test_a_source_s_handler_that_is_killed_when_its_guest_has_just_left_tells_so_when_it_is_back(
    guest: CountingGuest,
) -> None:
    source, target = guest.leave(SERVER), guest.other_node
    guest.migrate("untold")
    wait_until(lambda: guest.qemus() == [target], "the guest has left", 60, 0.01)
    with guest.cluster.without(source, "kvedge", signal.SIGKILL):
        pass
    assert guest.wait_migration("untold", "Succeeded", "Failed", seconds=120).status.phase == "Succeeded"
    guest.wait_only_on(target)
    guest.wait_counts_on()


def test_a_node_that_is_drained_gives_its_guest_to_the_other_one(guest: CountingGuest) -> None:
    cluster, before = guest.cluster, guest.vmi
    source, target = guest.node, guest.other_node
    # It asks again each five seconds.
    options = ("--delete-emptydir-data", "--force", "--ignore-daemonsets", "--timeout=120s")
    with cluster.cordoned(source):
        cluster.kubectl("drain", source, "--pod-selector", f"{CREATED_BY}={before.metadata.uid}", *options)
    guest.wait_only_on(target)
    guest.wait_counts_on()
    assert guest.vmi.metadata.uid == before.metadata.uid
    wait_until(lambda: not guest.vmi.status.evacuation_node_name, "nothing is to leave any more", 30, 0.2)


def test_a_guest_that_has_moved_is_shut_down_like_any_other(guest: CountingGuest) -> None:
    source, target = guest.node, guest.other_node
    moved = guest.cluster.cli("migrate", NAME, "--wait")
    assert moved.stdout.splitlines()[-1].startswith(f"VM {NAME} moved from {source} to {target} in ")
    guest.wait_only_on(target)
    vmi = guest.vmi
    guest.cluster.cli("stop", NAME, "--wait")
    guest.cluster.wait_gone(NAME)
    assert guest.cluster.qemu_pids(vmi.metadata.uid) == []
    wait_until(lambda: guest.cluster.pods_of(NAME) == [], "no Pod is left", 60, 0.2)

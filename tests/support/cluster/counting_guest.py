"""A guest that counts, each second, in its memory and on its disks, and what is seen of it while it moves.

For a cluster whose nodes are this machine's: what the guest says is read from the log of its serial port, in its Pod's
volume.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from kvedge.kube.errors import NotFound
from kvedge.resources.codec import JsonObject
from kvedge.resources.disks.volume_facts import ATTACHMENT_APP
from kvedge.resources.types.core import Pod
from kvedge.resources.types.migrations import VirtualMachineInstanceMigration
from kvedge.resources.types.vmi import VirtualMachineInstance
from tests.support.box import small_vm
from tests.support.cluster.kvedge_cluster import LocalCluster
from tests.support.waiting import wait_until

# Says so when a disk does not hold what memory does: the empty disk, the claim, and one that is plugged in. It reads
# the first words alone: to look for the end of a line in an empty disk takes an emulated guest seconds.
_COUNTER = """
( n=0; while sleep 1; do
    for disk in vdb vdd sda; do
        [ -b /dev/$disk ] || { rm -f /run/written-$disk; continue; }
        found=$(head -c 32 /dev/$disk 2>/dev/null) || continue
        set -- $found
        [ ! -e /run/written-$disk ] || [ "$1" = $n ] || echo "WRONG $n on $disk" >/dev/console
        { echo $((n + 1)); } | dd of=/dev/$disk conv=fsync 2>/dev/null
        : >/run/written-$disk
    done
    n=$((n + 1)); echo "count $n" >/dev/console
done ) &
"""
# Of a guest that has no disks but its Pod's.
_PLAIN_COUNTER = '( n=0; while sleep 1; do n=$((n + 1)); echo "count $n" >/dev/console; done ) &\n'
_COUNT = re.compile(rb"count ([0-9]+)\r?\n")
_LABEL = {"moves": "slowly"}
_SLOWLY = "slowly"


def counting_vm(name: str, image: str, claim: str, first: str = "") -> JsonObject:
    """Masqueraded, on a container disk, with an empty disk, cloud-init's and a claim's.

    What the shell is to do `first` is done before it counts; the claim's disk is /dev/vdd.
    """
    made = small_vm(name, image)
    template = made["spec"]["template"]
    template["metadata"] = {"labels": dict(_LABEL)}
    spec = template["spec"]
    spec["evictionStrategy"] = "LiveMigrate"
    spec["domain"]["devices"]["interfaces"] = [{"name": "default", "masquerade": {}, "ports": [{"port": 80}]}]
    spec["domain"]["devices"]["disks"] += [
        {"name": disk, "disk": {"bus": "virtio"}} for disk in ("scratch", "seed", "shared")
    ]
    spec["volumes"] += [
        {"name": "scratch", "emptyDisk": {"capacity": "64Mi"}},
        {"name": "seed", "cloudInitNoCloud": {"userData": f"#!/bin/sh\n{first}{_COUNTER}"}},
        {"name": "shared", "persistentVolumeClaim": {"claimName": claim}},
    ]
    return made


def plain_counting_vm(name: str, image: str) -> JsonObject:
    """Masqueraded, on a container disk, with cloud-init's disk and no other one; it counts in its memory alone."""
    made = small_vm(name, image)
    template = made["spec"]["template"]
    template["metadata"] = {"labels": dict(_LABEL)}
    devices = template["spec"]["domain"]["devices"]
    devices["interfaces"] = [{"name": "default", "masquerade": {}}]
    devices["disks"].append({"name": "seed", "disk": {"bus": "virtio"}})
    seed = {"name": "seed", "cloudInitNoCloud": {"userData": f"#!/bin/sh\n{_PLAIN_COUNTER}"}}
    template["spec"]["volumes"].append(seed)
    return made


@contextmanager
def running_counter(cluster: LocalCluster, vm: JsonObject) -> Iterator[CountingGuest]:
    """The guest of this VM once it counts; the VM is gone at the end of the context."""
    name = vm["metadata"]["name"]
    cluster.apply(vm)
    try:
        cluster.wait_phase(name, "Running")
        guest = CountingGuest(cluster, name)
        guest.wait_counts()
        yield guest
    finally:
        cluster.remove_vm(name)


def slow_policy(name: str, rate: str = "1Mi") -> JsonObject:
    """A policy by which such a guest takes a minute to move: long enough to do something meanwhile."""
    return {
        "apiVersion": "migrations.kubevirt.io/v1alpha1",
        "kind": "MigrationPolicy",
        "metadata": {"name": name},
        "spec": {"bandwidthPerMigration": rate, "selectors": {"virtualMachineInstanceSelector": dict(_LABEL)}},
    }


class SerialLog:
    """What the guest says in one Pod; what it said stays, whatever becomes of the Pod."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("rb")

    def text(self) -> bytes:
        """All of it."""
        return os.pread(self._file.fileno(), 16 << 20, 0)

    def counts(self) -> list[int]:
        """The numbers in it, of which each is the one after the last."""
        text = self.text()
        assert b"WRONG" not in text, text[-1000:]
        # The guest's start may have written the beginning of a line.
        found = [int(number) for number in _COUNT.findall(text)]
        assert not found or found == list(range(found[0], found[-1] + 1)), (found, text[-4000:])
        return found

    def close(self) -> None:
        self._file.close()


@dataclass
class CountingGuest:
    """The guest of one VM, through all that it lives through."""

    cluster: LocalCluster
    name: str

    @property
    def vmi(self) -> VirtualMachineInstance:
        """As it is."""
        found = self.cluster.vmi(self.name)
        assert found is not None
        return found

    @property
    def node(self) -> str:
        """Where it is."""
        return self.vmi.status.node_name

    @property
    def other_node(self) -> str:
        """Where it is not."""
        (other,) = set(self.cluster.nodes) - {self.node}
        return other

    def pods(self) -> dict[str, Pod]:
        """Its Pods, by their nodes; the newest of each."""
        found = sorted(self.cluster.pods(self.vmi), key=lambda pod: pod.metadata.creation_timestamp or "")
        return {pod.spec.node_name: pod for pod in found}

    def attachments(self) -> list[str]:
        """The node of each Pod that holds a hotplugged volume."""
        selector = f"kubevirt.io={ATTACHMENT_APP}"
        pods = self.cluster.client.list(Pod, self.cluster.namespace, label_selector=selector)
        return sorted(pod.spec.node_name for pod in pods)

    def plugged(self) -> dict[str, tuple[str, str]]:
        """The phase of each hotplugged volume, and the UID of the Pod that holds it."""
        entries = self.vmi.status.volume_status
        return {
            entry.name: (entry.phase, entry.hotplug_volume.attach_pod_uid)
            for entry in entries
            if entry.hotplug_volume is not None
        }

    def plug(self, claim: str) -> None:
        """Add a claim while the guest runs, until the guest has it."""
        self.cluster.cli("addvolume", self.name, "--volume-name", claim)
        wait_until(lambda: self.plugged().get(claim, ("", ""))[0] == "Ready", f"the guest has {claim}", 60, 0.2)

    def unplug(self, claim: str) -> None:
        """Take a claim away, until nothing of it is left."""
        self.cluster.cli("removevolume", self.name, "--volume-name", claim)
        wait_until(lambda: claim not in self.plugged(), f"nothing of {claim} is left", 60, 0.2)

    def qemus_on(self, node: str) -> list[int]:
        """Its QEMUs on a node."""
        number = self.cluster.nodes[node].place.number
        return [pid for pid in self.cluster.qemu_pids(self.vmi.metadata.uid) if is_on(pid, number)]

    def qemus(self) -> list[str]:
        """The node of each QEMU that it has."""
        return [name for name in self.cluster.nodes for _ in self.qemus_on(name)]

    @contextmanager
    def log_on(self, node: str) -> Iterator[SerialLog]:
        """What it says on a node, once it has a log there."""
        pod = self.pods()[node]
        volumes = self.cluster.nodes[node].directory / "var/lib/kubelet/pods" / pod.metadata.uid / "volumes"
        path = volumes / "kubernetes.io~empty-dir/private" / self.vmi.metadata.uid / "virt-serial0-log"
        wait_until(path.exists, f"the guest's log on {node}")
        log = SerialLog(path)
        try:
            yield log
        finally:
            log.close()

    def wait_counts(self) -> None:
        """Until it counts where it is, after a start."""
        with self.log_on(self.node) as log:
            wait_until(lambda: len(log.counts()) > 1, "the guest counts", 120, 0.2)

    def wait_counts_on(self) -> None:
        """Until it has said two more numbers where it is: one may have been on its way."""
        with self.log_on(self.node) as log:
            begun = len(log.counts())
            try:
                wait_until(lambda: len(log.counts()) > begun + 1, f"{self.name} counts on", 30)
            except AssertionError as error:
                # A guest that has stopped says why, or that it has not.
                error.add_note(f"its last words: {log.text()[-4000:]!r}")
                raise

    def migrate(self, name: str) -> VirtualMachineInstanceMigration:
        """Ask for a migration, also when a test is tried again that has had one of this name."""

        def is_gone() -> bool:
            with suppress(NotFound):
                self.cluster.client.delete(VirtualMachineInstanceMigration, self.cluster.namespace, name)
                return False
            return True

        wait_until(is_gone, f"no migration {name} is left of another try", 30)
        self.cluster.apply(migration(name, self.name))
        return self.migration(name)

    @contextmanager
    def under_way(self, name: str) -> Iterator[None]:
        """A migration that takes half a minute, of which the guest is on its way.

        It is not slower than that: two of some thirty emulated guests that were on their way for more than a minute
        hung or booted anew once they were there. Why is not known; a test that sees it shows the guest's last words.
        """
        self.cluster.apply(slow_policy(_SLOWLY, "2560Ki"))
        try:
            self.migrate(name)
            self.wait_migration(name, "Running")
            wait_until(lambda: len(self.qemus()) == 2, "the guest is on its way", 30)
            yield
        finally:
            self.cluster.kubectl("delete", "migrationpolicy", _SLOWLY)

    def migration(self, name: str) -> VirtualMachineInstanceMigration:
        """As it is."""
        return self.cluster.client.get(VirtualMachineInstanceMigration, self.cluster.namespace, name)

    def wait_migration(self, name: str, *phases: str, seconds: float = 60.0) -> VirtualMachineInstanceMigration:
        """The migration once it has one of these phases."""

        def look() -> VirtualMachineInstanceMigration | None:
            found = self.migration(name)
            return found if found.status.phase in phases else None

        try:
            return wait_until(look, f"migration {name} is {' or '.join(phases)}", seconds)
        except AssertionError as error:
            found = self.cluster.kubectl("get", "vmim", name, "-o", "yaml", check=False).stdout
            raise AssertionError(f"{error}\n{found}\n{self.cluster.told(self.name)}") from error

    def end_migrations(self) -> None:
        """Withdraw what is still on its way, and wait until it is."""
        for found in self.open_migrations():
            self.cluster.kubectl("delete", "vmim", found.metadata.name, "--ignore-not-found", "--wait=false")
        wait_until(lambda: not self.open_migrations(), f"no migration of {self.name} is open")

    def open_migrations(self) -> list[VirtualMachineInstanceMigration]:
        """Those that have not ended."""
        return [found for found in self._all_migrations() if found.spec.vmi_name == self.name and not found.is_final]

    def _all_migrations(self) -> list[VirtualMachineInstanceMigration]:
        return self.cluster.client.list(VirtualMachineInstanceMigration, self.cluster.namespace)

    def leave(self, node: str) -> str:
        """Have it elsewhere than on this node, where a test that failed may have left it; the node where it is then."""
        if self.node == node:
            other, name = self.other_node, f"leaves-{len(self._all_migrations())}"
            self.migrate(name)
            self.wait_migration(name, "Succeeded")
            self.wait_only_on(other)
        return self.node

    def wait_only_on(self, node: str) -> None:
        """Until it has one QEMU, on this node, and no Pod runs but that one's."""

        def look() -> bool:
            running = [pod.spec.node_name for pod in self.cluster.pods(self.vmi) if pod.status.phase == "Running"]
            return (self.qemus(), running, self.node) == ([node], [node], node)

        wait_until(look, f"{self.name} is on {node} alone")


def migration(name: str, vmi: str) -> JsonObject:
    """The wish that a VMI moves."""
    return {
        "apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachineInstanceMigration",
        "metadata": {"name": name},
        "spec": {"vmiName": vmi},
    }


def is_on(pid: int, number: int) -> bool:
    """Whether a process belongs to the Pods of the node of this number."""
    try:
        return f"/kvt-{number}/" in Path(f"/proc/{pid}/cgroup").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False

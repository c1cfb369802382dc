"""A cluster of this machine's is put right between two tests, and what was wrong is told.

A test that fails halfway may leave a node without its kubelet, cut off, cordoned, or with a program that stands still:
every later test of the cluster would wait for it in vain. A test that passes leaves none of that: each ends what it
does to nodes, and so does each fixture. What is found after one has crashed, or was forgotten, and fails the next test.
Called by tests/cluster/conftest.py before each test. A look costs one request and a few files of /proc; what is mended
is waited for.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from kvedge.resources.codec import JsonObject
from kvedge.resources.types.core import Node
from kvedge.resources.types.vm import VirtualMachine
from tests.support.cluster.kvedge_cluster import LocalCluster
from tests.support.cluster.machine_node import MachineNode
from tests.support.waiting import wait_until

# In the order in which they are started.
PROGRAMS: Final = ("containerd", "kubelet", "kvedge")
# Taints that Kubernetes takes away by itself, once the node is well and uncordoned.
_ITS_OWN: Final = "node.kubernetes.io/"
# Those of this prefix that somebody else has set.
_GIVEN: Final = ("node.kubernetes.io/out-of-service",)
_TUN: Final = "devices.kubevirt.io/tun"
_WELL_SECONDS: Final = 60.0


class ClusterCare:
    """Of one cluster: what tests have left of it."""

    def __init__(self, cluster: LocalCluster) -> None:
        self._cluster = cluster
        # Whether a test has failed since the last look.
        self.is_suspect = False
        # Why nothing can be tried on it any more.
        self.is_lost = ""
        # A test that fails for what one before it has left, and the words; also when it is tried again.
        self._accused = ("", "")

    def prepare(self, test: str, earlier: str, *, is_next_module: bool) -> tuple[list[str], str]:
        """Put right what the tests up to `earlier` have left: each fault in words, and why `test` fails for it.

        It does when all of them have passed. AssertionError as `mend`.
        """
        was_suspect = self.is_suspect
        found = self.mend()
        if found and earlier and not was_suspect:
            self._accused = (test, f"left by a test that passed: {earlier}: {', '.join(found)}")
        if was_suspect and is_next_module:
            found += self.clear()
        accused, words = self._accused
        return found, words if accused == test else ""

    def mend(self) -> list[str]:
        """Put right what is wrong with nodes; each fault in words. AssertionError: they do not become well."""
        assert not self.is_lost, self.is_lost
        found = [fault for node in self._cluster.nodes.values() for fault in self._mend_machine(node)]
        found += [fault for document in self._nodes() for fault in self._mend_object(document)]
        if not found and not self.is_suspect:
            return []
        self.is_suspect = False
        with contextlib.suppress(AssertionError):
            self._wait_well()
            return found
        return [*found, *self._switch_again()]

    def clear(self) -> list[str]:
        """End the VMs that are there, in words: called where a module begins after one in which a test has failed."""
        names = [vm.metadata.name for vm in self._cluster.client.list(VirtualMachine, self._cluster.namespace)]
        for name in names:
            self._cluster.remove_vm(name)
        return [f"VM {name} was left over" for name in names]

    def _mend_machine(self, node: MachineNode) -> Iterator[str]:
        if not node.is_on:
            yield f"{node.name} was off"
            self._cluster.restart_node(node.name)
            return
        if not node.is_plugged_in:
            yield f"{node.name} was cut off"
            node.set_link("up")
        for program in PROGRAMS:
            if not node.is_running(program):
                yield f"{program} of {node.name} did not run"
                self._cluster.start(node.name, program)
            elif stopped := [pid for pid in (node.find(program), node.runner(program)) if is_stopped(pid)]:
                yield f"{program} of {node.name} stood still"
                for pid in stopped:
                    os.kill(pid, signal.SIGCONT)

    def _mend_object(self, document: JsonObject) -> Iterator[str]:
        name, spec = document["metadata"]["name"], document["spec"]
        if name not in self._cluster.nodes:
            return
        if spec.get("unschedulable"):
            yield f"{name} was cordoned"
            self._cluster.kubectl("uncordon", name)
        for taint in given_taints(spec.get("taints") or []):
            yield f"{name} was tainted with {taint}"
            self._cluster.kubectl("taint", "node", name, f"{taint}-", check=False)

    def _switch_again(self) -> Iterator[str]:
        """The last resort: cut the power of the nodes that are not well, and switch them on again."""
        for name in [name for name in self._cluster.nodes if not self._is_well(name)]:
            yield f"{name} did not become well, and was switched off and on"
            self._cluster.nodes[name].power_off()
            self._cluster.restart_node(name)
        try:
            self._wait_well()
        except AssertionError as error:
            self.is_lost = f"the cluster cannot be mended: {error}"
            raise

    def _wait_well(self) -> None:
        for name in self._cluster.nodes:
            wait_until(lambda name=name: self._is_well(name), f"{name} is well", _WELL_SECONDS, 0.5)  # type: ignore[misc]

    def _is_well(self, name: str) -> bool:
        return any(is_well(document) for document in self._nodes() if document["metadata"]["name"] == name)

    def _nodes(self) -> list[JsonObject]:
        found: list[JsonObject] = self._cluster.client.request("GET", Node.KIND.path())["items"]
        return found


def given_taints(taints: list[dict[str, Any]]) -> list[str]:
    """The taints, as kubectl names them, that neither Kubernetes nor a cordon has set."""
    keys = [f"{taint['key']}:{taint['effect']}" for taint in taints]
    return [key for key in keys if not key.startswith(_ITS_OWN) or key.startswith(_GIVEN)]


def is_well(node: JsonObject) -> bool:
    """Whether VMs may come to a node: ready, kvedge says so, and its devices are offered."""
    ready = any(each["type"] == "Ready" and each["status"] == "True" for each in node["status"].get("conditions", []))
    labels = node["metadata"].get("labels", {})
    offered = node["status"].get("allocatable", {}).get(_TUN, "0")
    return ready and labels.get("kubevirt.io/schedulable") == "true" and offered != "0"


def is_stopped(pid: int) -> bool:
    """Whether a process stands still, as SIGSTOP leaves it."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] == "T"

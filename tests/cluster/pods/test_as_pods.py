"""kvedge as Pods on a real kubelet and containerd: from an archive and k3s/ to a guest that answers, and the version
after it beside it. The tests stand in the order of a life.

They have a cluster of their own, and stand before the others that share one: a machine has room for one at a time.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import kvedge
from kvedge.resources.names import VERSION
from kvedge.resources.types.core import Node
from tests.support.altered_program import alter_program
from tests.support.box import processes, small_vm
from tests.support.built_program import built_program
from tests.support.cluster.pods_cluster import NODE, SYSTEM, PodsCluster
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900), pytest.mark.incremental]
# As long as the present one: they replace bytes. The first is not the built one's either, in the processes of which
# other tests look for what is still in use.
FIRST, LATER = "0.1.9", "0.2.0"


@pytest.fixture(scope="module")
def pods(own_machine: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PodsCluster]:
    cluster = PodsCluster.create_bare(tmp_path_factory.mktemp("c"))
    try:
        cluster.load(version(cluster, FIRST))
        yield cluster
    finally:
        cluster.remove()


def version(pods: PodsCluster, name: str) -> Path:
    """The program, of another version."""
    changes = {"lib/kvedge/__init__.pyc": (kvedge.__version__.encode(), name.encode())}
    return alter_program(built_program(), pods.directory / name, changes)


def launcher_pids(pods: PodsCluster, name: str) -> list[int]:
    """The launcher's processes of a VM."""
    uid = uid_of(pods, name)
    return [pid for pid, words in processes() if "launcher" in words[:2] and uid in " ".join(words)]


def tree_of(pid: int) -> str:
    """The unpacked version that a launcher has mounted, as the kernel says."""
    for line in Path(f"/proc/{pid}/mountinfo").read_text().splitlines():
        words = line.split()
        if words[4] == "/var/lib/kvedge/launcher":
            return re.findall(r"[0-9a-f]{64}", words[3])[0]
    raise AssertionError(f"{pid} has no program mounted")


def test_everything_comes_up_from_one_archive_and_plain_manifests(pods: PodsCluster) -> None:
    pods.apply_kvedge()
    for workload in ("ds/kvedge-handler", "deploy/kvedge-api", "deploy/kvedge-controller"):
        pods.rolled_out(workload)
    wait_until(lambda: pods.is_schedulable(NODE), "the node takes VMs", 120)
    assert pods.client.get(Node, "", NODE).metadata.annotations[VERSION] == FIRST
    # Asked for by the handler's account, and signed for the node that its token names.
    requests = pods.kubectl("get", "csr").stdout
    assert f"system:serviceaccount:{SYSTEM}:kvedge-handler" in requests
    assert "Approved,Issued" in requests


def test_a_guest_boots_and_answers_and_its_launcher_runs_from_a_path_without_a_version(pods: PodsCluster) -> None:
    pods.apply(small_vm("web", pods.image))
    pods.wait_phase("web", "Running")
    assert "Hello from web" in pods.wait_answer("web")
    (pid, *_) = launcher_pids(pods, "web")
    assert os.readlink(f"/proc/{pid}/exe") == "/var/lib/kvedge/launcher/kvedge"
    assert Path(pods.node.run("readlink", "/var/lib/kvedge/launcher").strip()).name == tree_of(pid)


def told_of_versions(pods: PodsCluster) -> str:
    """What the KubeVirt object says of its nodes' versions."""
    condition = "jsonpath={.status.conditions[?(@.type=='AllNodesOfThisVersion')]}"
    return pods.kubectl("get", "kubevirt", "kubevirt", "-n", SYSTEM, "-o", condition).stdout


def test_servers_of_the_next_minor_version_start_show_and_stop_guests_on_a_node_of_the_one_before(
    pods: PodsCluster,
) -> None:
    """The order of an upgrade."""
    pods.load(version(pods, LATER))
    for workload in ("deploy/kvedge-api", "deploy/kvedge-controller"):
        pods.kubectl("rollout", "restart", workload, "-n", SYSTEM)
        pods.rolled_out(workload)
    wait_until(lambda: f"{NODE} runs {FIRST}" in told_of_versions(pods), "the KubeVirt object names the node", 120)
    assert pods.client.get(Node, "", NODE).metadata.annotations[VERSION] == FIRST
    assert "Hello from web" in pods.wait_answer("web")
    pods.apply(small_vm("older", pods.image))
    pods.wait_phase("older", "Running")
    assert "Hello from older" in pods.wait_answer("older")
    assert "login:" in pods.cli("console", "older", "--log").stdout
    pods.cli("stop", "older", "--wait")
    pods.wait_gone("older")
    pods.remove_vm("older")


def test_the_next_version_of_the_handler_leaves_the_guest_and_its_launcher_as_they_are(pods: PodsCluster) -> None:
    (pid, *_) = launcher_pids(pods, "web")
    old, qemu = tree_of(pid), pods.qemu_pids(uid_of(pods, "web"))
    pods.kubectl("rollout", "restart", "ds/kvedge-handler", "-n", SYSTEM)
    pods.rolled_out("ds/kvedge-handler")
    new = wait_until(
        lambda: (name := Path(pods.node.run("readlink", "/var/lib/kvedge/launcher").strip()).name) != old and name,
        "the link names the later version",
        120,
    )
    assert (tree_of(pid), pods.qemu_pids(uid_of(pods, "web"))) == (old, qemu)
    trees = set(pods.node.run("ls", "/var/lib/kvedge/data").split())
    assert {old, new} <= trees
    assert "Hello from web" in pods.wait_answer("web")


def uid_of(pods: PodsCluster, name: str) -> str:
    vmi = pods.vmi(name)
    assert vmi is not None
    return vmi.metadata.uid


def test_a_guest_that_starts_now_runs_the_later_version(pods: PodsCluster) -> None:
    (pid, *_) = launcher_pids(pods, "web")
    pods.apply(small_vm("next", pods.image))
    pods.wait_phase("next", "Running")
    (later, *_) = launcher_pids(pods, "next")
    assert tree_of(later) != tree_of(pid)
    wait_until(lambda: '"status":"True"' in told_of_versions(pods), "all nodes are of one version", 120)
    assert pods.client.get(Node, "", NODE).metadata.annotations[VERSION] == LATER
    pods.remove_vm("next")
    pods.remove_vm("web")

"""A masqueraded guest in a cluster: its Pod is confined as any, and keeps the address that Kubernetes knows it by."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from ipaddress import ip_address

import pytest

from kvedge.resources.codec import JsonObject
from kvedge.resources.types.vmi import VirtualMachineInstance
from tests.support.box import small_vm
from tests.support.cluster.any_cluster import Cluster, ServiceEndpoint
from tests.support.cluster.kvedge_cluster import LocalCluster
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(500), pytest.mark.incremental]

NAME = "behind"
OWN = "10.0.2.2"


def masqueraded_vm(image: str) -> JsonObject:
    probe = {"httpGet": {"port": 80, "path": "/"}, "periodSeconds": 1, "failureThreshold": 2}
    vm = copy.deepcopy(small_vm(NAME, image, readinessProbe=probe))
    spec = vm["spec"]["template"]["spec"]
    spec["domain"]["devices"]["interfaces"] = [{"name": "default", "masquerade": {}, "ports": [{"port": 80}]}]
    return vm


@pytest.fixture(scope="module")
def behind(cluster: Cluster) -> Iterator[VirtualMachineInstance]:
    cluster.apply(masqueraded_vm(cluster.image))
    vmi = cluster.wait_phase(NAME, "Running")
    cluster.cli("expose", "vm", NAME, "--name", "behind", "--port", "8080", "--target-port", "80")
    yield vmi
    cluster.kubectl("delete", "service", "behind")
    cluster.remove_vm(NAME)


def test_the_kubelets_probe_reaches_a_masqueraded_guest_by_its_pods_address(
    cluster: Cluster, behind: VirtualMachineInstance
) -> None:
    (pod,) = cluster.pods(behind)
    address = pod.status.pod_ip
    behind_it = ServiceEndpoint(address, 80, ready=True, pod=pod.metadata.name)
    wait_until(lambda: cluster.endpoints("behind") == [behind_it], "the Pod's address is behind the Service", 240, 0.3)
    page = cluster.wait_answer(NAME)
    assert OWN in page
    assert address not in page
    nic = cluster.wait_phase(NAME, "Running").status.interfaces[0]
    assert (nic.ip_address, nic.ip_addresses) == (address, [address])
    assert ip_address(address).is_private


def test_a_handler_that_is_restarted_leaves_a_masqueraded_guest_as_it_is(
    own_cluster: LocalCluster, behind: VirtualMachineInstance
) -> None:
    own_cluster.wait_answer(NAME, 240)
    own_cluster.restart_kvedge(str(behind.status.node_name))
    assert OWN in own_cluster.wait_answer(NAME)
    after = own_cluster.wait_phase(NAME, "Running")
    assert after.metadata.uid == behind.metadata.uid
    assert after.status.interfaces[0].ip_address == own_cluster.pods(behind)[0].status.pod_ip

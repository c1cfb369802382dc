"""Services and NetworkPolicies in front of guests: whom they choose, and whether packets arrive.

This machine's own cluster has neither a kube-proxy nor a CNI that enforces policies. What these would tell the kernel
of a node is told it here, from nothing but the Service's EndpointSlices and the Pods that a policy chooses; so this
shows that a guest's traffic passes where Kubernetes' programs work on it, not the programs.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator

import pytest

from kvedge.resources.codec import JsonObject
from kvedge.resources.names import APP, VM_NAME
from kvedge.resources.types.core import Pod
from kvedge.resources.types.vmi import VirtualMachineInstance
from tests.support.box import small_vm
from tests.support.cluster.any_cluster import Cluster, ServiceEndpoint
from tests.support.cluster.kvedge_cluster import LocalCluster
from tests.support.cluster.machine_node import PAUSE, MachineNode
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(500), pytest.mark.incremental]

WEB, CALLER = "web", "caller"
HELLO = "Hello from web"
POLICY: JsonObject = {
    "apiVersion": "networking.k8s.io/v1",
    "kind": "NetworkPolicy",
    "metadata": {"name": "no-way-in"},
    "spec": {"podSelector": {"matchLabels": {VM_NAME: WEB}}, "policyTypes": ["Ingress"]},
}


@pytest.fixture(scope="module")
def web(cluster: Cluster) -> Iterator[VirtualMachineInstance]:
    """A VM whose page is there when the guest says so, on the node that is not the server, and a Service of it."""
    probe = {"httpGet": {"port": 80, "path": "/"}, "periodSeconds": 1, "failureThreshold": 2}
    place = {"kubernetes.io/hostname": "n2"} if isinstance(cluster, LocalCluster) else {}
    cluster.apply(small_vm(WEB, cluster.image, readinessProbe=probe, nodeSelector=place))
    vmi = cluster.wait_phase(WEB, "Running")
    cluster.cli("expose", "vm", WEB, "--name", "page", "--port", "8080", "--target-port", "80")
    yield vmi
    cluster.kubectl("delete", "service", "page")
    cluster.remove_vm(WEB)


def test_a_service_leads_to_the_guest_as_long_as_its_page_is_there(
    cluster: Cluster, web: VirtualMachineInstance
) -> None:
    (pod,) = cluster.pods(web)
    behind = ServiceEndpoint(pod.status.pod_ip, 80, ready=True, pod=pod.metadata.name)
    wait_until(lambda: cluster.endpoints("page") == [behind], "the guest's address is behind it", 150, 0.3)
    assert HELLO in cluster.wait_answer(WEB)
    # A guest that stands still answers nobody.
    cluster.cli("pause", "vmi", WEB)
    wait_until(lambda: not cluster.endpoints("page")[0].ready, "it is not sent to", 60, 0.3)
    cluster.cli("unpause", "vmi", WEB)
    wait_until(lambda: cluster.endpoints("page") == [behind], "it is sent to again", 60, 0.3)


def test_a_network_policy_for_a_vm_chooses_its_launcher_and_no_other_pod(
    cluster: Cluster, web: VirtualMachineInstance
) -> None:
    cluster.apply(POLICY)
    assert [pod.metadata.name for pod in chosen(cluster)] == [pod.metadata.name for pod in cluster.pods(web)]
    # As KubeVirt's users write them, too.
    (pod,) = cluster.pods(web)
    assert pod.metadata.labels[APP] == "virt-launcher"
    cluster.kubectl("delete", "networkpolicy", "no-way-in")


def chosen(cluster: Cluster) -> list[Pod]:
    """The Pods that the policy is about."""
    policy = json.loads(cluster.kubectl("get", "networkpolicy", "no-way-in", "--output", "json").stdout)
    selector = ",".join(f"{key}={value}" for key, value in policy["spec"]["podSelector"]["matchLabels"].items())
    return cluster.client.list(Pod, cluster.namespace, label_selector=selector)


@pytest.fixture
def caller(own_cluster: LocalCluster) -> Iterator[str]:
    """A Pod of another node than the guest's."""
    container = {"name": "main", "image": PAUSE, "imagePullPolicy": "Never"}
    spec = {"nodeName": "n1", "containers": [container], "terminationGracePeriodSeconds": 0}
    own_cluster.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": CALLER}, "spec": spec})
    own_cluster.kubectl("wait", "--for=condition=Ready", "pod", CALLER, "--timeout=60s")
    yield CALLER
    own_cluster.kubectl("delete", "pod", CALLER)


def fetched(cluster: Cluster, caller: str, address: str, port: int = 80) -> str:
    """What the Pod gets from an address; nothing, where nobody answers."""
    asks = f"printf 'GET / HTTP/1.0\\r\\n\\r\\n' | busybox nc -w 2 {address} {port}"
    return cluster.kubectl("exec", caller, "--", "/bin/sh", "-c", asks, check=False).stdout


@contextlib.contextmanager
def told(node: MachineNode, rules: str) -> Iterator[None]:
    """The node's kernel is told something, for a while."""
    file = node.directory / "told.nft"
    file.write_text(f"table ip kvt-told {{\n{rules}\n}}\n")
    node.run("nft", "-f", str(file))
    try:
        yield
    finally:
        node.run("nft", "delete", "table", "ip", "kvt-told")


def service_rules(cluster: Cluster) -> str:
    """What a kube-proxy makes of the Service: its address becomes that of the endpoint."""
    service = json.loads(cluster.kubectl("get", "service", "page", "--output", "json").stdout)["spec"]
    (port,) = service["ports"]
    (found,) = [entry for entry in cluster.endpoints("page") if entry.ready]
    to = f"ip daddr {service['clusterIP']} tcp dport {port['port']} dnat to {found.address}:{found.port}"
    return f"chain pods {{ type nat hook prerouting priority -100; {to}; }}"


def policy_rules(cluster: Cluster) -> str:
    """What a CNI makes of the policy: nothing new goes to the Pods that it is about."""
    drops = "; ".join(f"ip daddr {pod.status.pod_ip} ct state new drop" for pod in chosen(cluster))
    return f"chain ways {{ type filter hook forward priority 0; {drops}; }}"


def test_a_pod_of_another_node_reaches_the_guest_by_its_address_and_by_its_service(
    own_cluster: LocalCluster, web: VirtualMachineInstance, caller: str
) -> None:
    cluster = own_cluster
    wait_until(lambda: [entry.ready for entry in cluster.endpoints("page")] == [True], "it is sent to", 150, 0.3)
    (entry,) = cluster.endpoints("page")
    assert web.status.node_name != "n1"
    wait_until(lambda: HELLO in fetched(cluster, caller, entry.address), "the page is fetched", 20, 0.3)
    address = cluster.kubectl("get", "service", "page", "--output", "jsonpath={.spec.clusterIP}").stdout
    with told(cluster.nodes["n1"], service_rules(cluster)):
        wait_until(lambda: HELLO in fetched(cluster, caller, address, 8080), "the page is fetched", 20, 0.3)
    assert fetched(cluster, caller, address, 8080) == ""


def test_what_a_node_is_told_of_a_policy_stops_the_guest_s_traffic_and_what_it_forgets_does_not(
    own_cluster: LocalCluster, web: VirtualMachineInstance, caller: str
) -> None:
    cluster = own_cluster
    address = web.status.interfaces[0].ip_address
    wait_until(lambda: HELLO in fetched(cluster, caller, address), "the page is fetched", 150, 0.3)
    cluster.apply(POLICY)
    with told(cluster.node_of(web), policy_rules(cluster)):
        assert fetched(cluster, caller, address) == ""
    wait_until(lambda: HELLO in fetched(cluster, caller, address), "the page is fetched again", 20, 0.3)
    cluster.kubectl("delete", "networkpolicy", "no-way-in")

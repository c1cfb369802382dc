"""`kvedge install --role server|agent` on a host with a real systemd, as a node of a real API server's cluster.

The API server runs beside the host and is reached over a cable; kubelet, scheduler and controller manager there are
none: the Node is made by kubectl, and certificates are signed by the test. The tests stand in the order of a life.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from kvedge.kube.kube_client import KubeClient
from kvedge.resources.role_users import API_GROUP, API_USER
from kvedge.runtime.tls.certificate_requests import new_request
from tests.support.altered_program import alter_program
from tests.support.built_program import built_program
from tests.support.cluster_signer import ClusterSigner
from tests.support.kube_apiserver import RealApiServer, require_assets
from tests.support.systemd_host import SystemdHost, missing
from tests.support.waiting import wait_until

pytestmark = [
    pytest.mark.incremental,
    pytest.mark.machine,
    pytest.mark.timeout(400),
    pytest.mark.skipif(bool(missing()), reason=missing() or "everything is there"),
]

ADMIN = "etc/rancher/k3s/k3s.yaml"
KUBELET = "var/lib/rancher/k3s/agent/kubelet.kubeconfig"
MANIFEST = "var/lib/rancher/k3s/server/manifests/kvedge.yaml"
UNIT = "kvedge-node.service"
RENEWAL = "kvedge-renew.timer"
VM = """
apiVersion: kubevirt.io/v1
kind: VirtualMachine
metadata: {name: web, namespace: default}
spec:
  runStrategy: Halted
  template:
    spec:
      domain: {memory: {guest: 96Mi}, devices: {disks: [{name: root}]}}
      volumes: [{name: root, containerDisk: {image: "local/guest:1"}}]
"""


@dataclass
class Cluster:
    """An API server, and one host that is to be its node."""

    server: RealApiServer
    host: SystemdHost
    node: str
    address: str

    def kubectl(self, *arguments: str, text: str = "") -> str:
        command = [str(require_assets() / "kubectl"), "--kubeconfig", str(self.server.kubeconfig), *arguments]
        done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def get(self, *what: str) -> Any:
        return json.loads(self.kubectl("get", *what, "-o", "json"))

    def embedded_kubeconfig(self, path: Path | None = None) -> str:
        """One of the server's, the administrator's by default, with everything in it, as distributions write it."""
        document = yaml.safe_load((path or self.server.kubeconfig).read_text())
        for entry in (document["clusters"][0]["cluster"], document["users"][0]["user"]):
            for key in ("certificate-authority", "client-certificate", "client-key"):
                if key in entry:
                    entry[f"{key}-data"] = base64.b64encode(Path(entry.pop(key)).read_bytes()).decode()
        return str(yaml.safe_dump(document))

    def kubelet_kubeconfig(self, node: str) -> str:
        """What k3s leaves on a node for its kubelet."""
        return self.embedded_kubeconfig(self.server.write_kubeconfig(f"system:node:{node}", ["system:nodes"]))

    def place(self, path: str, text: str) -> None:
        (self.host.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.host.root / path).write_text(text)


def lay_cable(host: SystemdHost, number: int) -> tuple[str, str]:
    """Our address and the host's, of a network that only the two have (of those for documentation)."""
    ours, theirs = (f"198.51.100.{4 * (number % 60) + last}" for last in (1, 2))
    name = f"kvt{number % 100_000}"
    subprocess.run(
        ["ip", "link", "add", name, "type", "veth", "peer", "name", "lan0", "netns", str(host.leader)], check=True
    )
    subprocess.run(["ip", "addr", "add", f"{ours}/30", "dev", name], check=True)
    subprocess.run(["ip", "link", "set", name, "up"], check=True)
    host.run("ip", "addr", "add", f"{theirs}/30", "dev", "lan0")
    host.run("ip", "link", "set", "lan0", "up")
    return ours, theirs


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    require_assets()
    host = SystemdHost(tmp_path_factory.mktemp("host") / "h", f"kvedge-c{os.getpid() % 100_000}")
    server = RealApiServer(tmp_path_factory.mktemp("cluster"))
    try:
        host.make()
        (host.root / "root/kvedge").write_bytes(built_program().read_bytes())
        (host.root / "root/kvedge").chmod(0o755)
        host.boot()
        server.address, address = lay_cable(host, os.getpid())
        server.start()
        with ClusterSigner(KubeClient.from_kubeconfig(server.kubeconfig), server.authority):
            yield Cluster(server, host, host.out("uname", "-n").lower(), address)
    finally:
        # In this order: an API server waits for whoever still watches.
        host.remove()
        server.stop()


def make_node(cluster: Cluster) -> None:
    """What a kubelet would write."""
    document = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": cluster.node}}
    cluster.kubectl("create", "-f", "-", text=json.dumps(document))
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "as the test has it"}
    status = {"addresses": [{"type": "InternalIP", "address": cluster.address}], "conditions": [ready]}
    patch = json.dumps({"status": status})
    cluster.kubectl("patch", "node", cluster.node, "--subresource=status", "--type=merge", "-p", patch)


def set_kubelet_version(cluster: Cluster, version: str) -> None:
    patch = json.dumps({"status": {"nodeInfo": {"kubeletVersion": version}}})
    cluster.kubectl("patch", "node", cluster.node, "--subresource=status", "--type=merge", "-p", patch)


def main_pid(cluster: Cluster) -> str:
    return cluster.host.out("systemctl", "show", "--value", "--property=MainPID", UNIT)


def left_on_the_host(host: SystemdHost) -> str:
    return host.out("sh", "-c", "ls -d /etc/kvedge/* /usr/local/bin/* /etc/systemd/system/* /etc/modules-load.d/* || :")


def test_what_is_missing_is_told_before_anything_is_changed(cluster: Cluster) -> None:
    host, before = cluster.host, left_on_the_host(cluster.host)
    done = host.run("/root/kvedge", "install", "--role", "server", check=False)
    assert done.returncode == 5
    assert "no cluster's administrator is on this host" in done.stderr
    assert f"/{ADMIN}" in done.stderr
    done = host.run("/root/kvedge", "install", "--role", "agent", check=False)
    assert done.returncode == 2
    assert f"kvedge user role handler --node {cluster.node} --server" in done.stderr
    assert "/etc/kvedge/roles/handler" in done.stderr
    cluster.place(KUBELET, cluster.kubelet_kubeconfig("another"))
    done = host.run("/root/kvedge", "install", "--role", "agent", check=False)
    assert f"/{KUBELET} does not speak as node {cluster.node}" in done.stderr
    cluster.place(KUBELET, cluster.kubelet_kubeconfig(cluster.node))
    done = host.run("/root/kvedge", "install", "--role", "agent", check=False)
    assert done.returncode == 5
    assert "run `kvedge install --role server` on a server of the cluster first" in done.stderr
    cluster.place(ADMIN, cluster.embedded_kubeconfig())
    done = host.run("/root/kvedge", "install", "--role", "server", check=False)
    assert done.returncode == 3
    assert f"has no node {cluster.node}" in done.stderr
    make_node(cluster)
    set_kubelet_version(cluster, "v1.28.4+k3s1")
    done = host.run("/root/kvedge", "install", "--role", "server", check=False)
    assert done.returncode == 5
    assert f"the kubelet of {cluster.node} is Kubernetes v1.28.4+k3s1, and kvedge needs 1.30 or newer" in done.stderr
    set_kubelet_version(cluster, "v1.30.0+k3s1")
    assert left_on_the_host(host) == before


def test_a_server_is_installed_registered_and_healthy(cluster: Cluster) -> None:
    host = cluster.host
    host.run("mkdir", "-p", f"/{Path(MANIFEST).parent}")
    # There is no containerd: that the tool is asked is all that can be seen.
    cluster.place("usr/local/bin/k3s", '#!/bin/sh\necho "$@" >>/root/k3s.log\n')
    host.run("chmod", "755", "/usr/local/bin/k3s")
    planned = host.out("/root/kvedge", "install", "--role", "server", "--dry-run")
    assert "make /etc/kvedge/roles/" in planned
    assert not host.run("ls", "/etc/kvedge", check=False).stdout
    said = host.out("/root/kvedge", "install", "--role", "server")
    assert f"installed: server {cluster.node}" in said
    assert host.out("systemctl", "is-active", UNIT, "kvedge-guests.service") == "active\nactive"
    assert host.out("stat", "-c", "%a %U", "/etc/kvedge/roles").split() == ["700", "root"]
    modes = host.out("sh", "-c", "cd /etc/kvedge/roles && stat -c '%n %a' *").split("\n")
    # The handler speaks as its node.
    assert modes == ["api 600", "controller 600"]
    assert host.out("ls", "/var/lib/rancher/k3s/agent/images") == "kvedge-launcher.tar"
    head = host.out("cat", f"/{MANIFEST}").split("\n")
    assert head[0].startswith("# Written by `kvedge install --role server`")
    # As k3s would; the kinds are there by the api role.
    assert "kubevirt.kubevirt.io/kubevirt" in cluster.kubectl("apply", "-f", str(host.root / MANIFEST))
    assert cluster.get("priorityclass", "kubevirt-cluster-critical")["value"] == 1_000_000_000
    asked = host.out("cat", "/root/k3s.log").split("\n")
    assert "ctr images import /var/lib/rancher/k3s/agent/images/kvedge-launcher.tar" in asked
    assert "ctr images label kvedge.local/launcher:v1 io.cri-containerd.pinned=pinned" in asked
    status = host.out("kvedge", "status", "--strict")
    assert status.startswith("installed  server")
    assert status.endswith("healthy")
    config = host.out("kvedge", "show-config")
    assert f"{cluster.address}:8443" in config
    assert f"/{KUBELET}" in config
    assert "config.yaml.d/10-install.yaml" in config


def test_the_cluster_knows_its_kinds_webhooks_and_calls_and_the_node_its_labels(cluster: Cluster) -> None:
    cluster.kubectl("get", "validatingwebhookconfiguration/kvedge", "mutatingwebhookconfiguration/kvedge")
    cluster.kubectl("get", "validatingadmissionpolicy/kvedge-node-restriction")

    def available() -> bool:
        conditions = cluster.get("apiservice", "v1.subresources.kubevirt.io").get("status", {}).get("conditions", [])
        return any(item["type"] == "Available" and item["status"] == "True" for item in conditions)

    wait_until(available, "the APIService is available", 60)
    metadata = cluster.get("node", cluster.node)["metadata"]
    assert metadata["labels"]["kubevirt.io/schedulable"] == "true"
    assert metadata["annotations"]["kvedge.io/handler-address"] == f"{cluster.address}:8186"


def test_a_vm_is_admitted_with_defaults_and_a_wrong_one_refused(cluster: Cluster) -> None:
    cluster.kubectl("create", "-f", "-", text=VM)
    spec = cluster.get("vm", "web")["spec"]["template"]["spec"]
    assert spec["architecture"]
    assert spec["domain"]["machine"]["type"]
    with pytest.raises(AssertionError, match="must be greater than or equal to 0"):
        cluster.kubectl("create", "-f", "-", text=VM.replace("name: web", "name: bad").replace("96Mi", "'-1'"))
    # By the aggregated API, with the relay of the host behind it.
    cluster.kubectl("get", "--raw", "/apis/subresources.kubevirt.io/v1")


def test_a_second_run_changes_nothing_and_what_the_operator_decides_counts(cluster: Cluster) -> None:
    host, before = cluster.host, main_pid(cluster)
    said = host.out("/root/kvedge", "install")
    assert f"unchanged: server {cluster.node}" in said
    assert "certificate" not in said
    assert main_pid(cluster) == before
    host.run("sh", "-c", f"echo 'relay-address: {cluster.address}:9186' >> /etc/kvedge/config.yaml")
    assert "installed" in host.out("/root/kvedge", "upgrade")
    assert main_pid(cluster) != before
    wait_until(
        lambda: (
            cluster.get("node", cluster.node)["metadata"]["annotations"]["kvedge.io/handler-address"]
            == f"{cluster.address}:9186"
        ),
        "the node tells the relay's other address",
        30,
    )


def test_certificates_of_roles_are_renewed_by_a_timer_under_the_roles_that_run(cluster: Cluster) -> None:
    host, before = cluster.host, main_pid(cluster)
    assert host.out("systemctl", "is-active", RENEWAL) == "active"
    assert host.out("systemctl", "is-enabled", RENEWAL) == "enabled"
    key = host.out("sha256sum", "/etc/kvedge/roles/api")
    host.run("systemctl", "start", "kvedge-renew.service")
    assert host.out("sha256sum", "/etc/kvedge/roles/api") == key
    path = host.root / "etc/kvedge/roles/api"
    document = yaml.safe_load(path.read_text())
    asked = new_request(API_USER, [API_GROUP])
    ending = cluster.server.authority.certify(asked.request, timedelta(days=50))
    document["users"][0]["user"] = {
        "client-certificate-data": base64.b64encode(ending).decode(),
        "client-key-data": base64.b64encode(asked.key).decode(),
    }
    path.write_text(yaml.safe_dump(document))
    assert "run `kvedge user renew`" in host.out("kvedge", "status")
    host.run("systemctl", "start", "kvedge-renew.service")
    assert "/etc/kvedge/roles/api: kvedge:api, renewed" in host.journal("--unit=kvedge-renew.service", "--output=cat")
    assert host.out("stat", "-c", "%a", "/etc/kvedge/roles/api") == "600"
    wait_until(lambda: "new credentials are in use" in host.journal(f"--unit={UNIT}"), "the role has taken it up", 60)
    assert main_pid(cluster) == before
    host.run("systemctl", "stop", RENEWAL)
    assert f"{RENEWAL} is inactive" in host.out("kvedge", "status")
    host.run("systemctl", "start", RENEWAL)
    assert host.out("kvedge", "status", "--strict").endswith("healthy")


def test_an_upgrade_serves_the_cluster_with_the_new_version_and_keeps_credentials(cluster: Cluster) -> None:
    host = cluster.host
    alter_program(built_program(), host.root / "root/newer", {"lib/kvedge/__init__.pyc": (b"0.1.0", b"0.1.1")})
    key = host.out("sha256sum", "/etc/kvedge/roles/api")
    assert f"upgraded: server {cluster.node}" in host.out("/root/newer", "upgrade")
    assert "0.1.1" in host.out("kvedge", "version", "--client")
    assert host.out("kvedge", "status", "--strict").endswith("healthy")
    assert host.out("sha256sum", "/etc/kvedge/roles/api") == key


def assert_runs_only_a_handler(cluster: Cluster) -> None:
    status = cluster.host.out("kvedge", "status", "--strict")
    assert status.startswith("installed  agent")
    started = cluster.host.journal(f"--unit={UNIT}", "--output=cat", f"_PID={main_pid(cluster)}")
    assert "service=handler" in started
    assert "service=api" not in started
    assert "service=controller" not in started


def test_an_agent_needs_only_what_its_kubelet_has_to_run_a_handler(cluster: Cluster) -> None:
    host = cluster.host
    said = host.out("kvedge", "install", "--role", "agent")
    assert f"installed: agent {cluster.node}" in said
    # It was the last server: an APIService that nobody serves would keep namespaces from ending.
    assert "remove from the cluster /apis/apiregistration.k8s.io/v1/apiservices/v1.subresources.kubevirt.io" in said
    assert "Until kvedge runs on a server again, VMs cannot be created" in said
    assert "subresources.kubevirt" not in cluster.kubectl("get", "apiservices", "-o", "name")
    cluster.kubectl("get", "validatingwebhookconfiguration/kvedge")
    assert not host.run("ls", "/etc/kvedge/roles", check=False).stdout
    # Its distribution renews what it speaks with.
    assert host.run("systemctl", "is-active", RENEWAL, check=False).stdout.strip() == "inactive"
    # Nothing of a server's is left for its k3s to apply.
    assert host.out("ls", "-A", f"/{Path(MANIFEST).parent}") == ""
    assert_runs_only_a_handler(cluster)


def test_an_agent_that_is_newer_than_its_servers_waits_for_them(cluster: Cluster) -> None:
    host, before = cluster.host, left_on_the_host(cluster.host)
    told = cluster.get("kubevirt", "kubevirt", "-n", "kvedge-system")["status"]["operatorVersion"]
    set_servers_version(cluster, "v0.0.9")
    done = host.run("kvedge", "install", "--role", "agent", check=False)
    assert done.returncode == 5
    assert (
        "and the cluster's servers run 0.0.9: upgrade the servers first (--force installs all the same)" in done.stderr
    )
    assert left_on_the_host(host) == before
    host.out("kvedge", "install", "--role", "agent", "--force")
    set_servers_version(cluster, told)


def set_servers_version(cluster: Cluster, version: str) -> None:
    patch = json.dumps({"status": {"operatorVersion": version}})
    command = ("patch", "kubevirt", "kubevirt", "-n", "kvedge-system", "--subresource=status", "--type=merge")
    cluster.kubectl(*command, "-p", patch)


def marks_of_kvedge(cluster: Cluster) -> list[str]:
    """What the Node bears of ours."""
    metadata = cluster.get("node", cluster.node)["metadata"]
    marks = [*metadata.get("labels", {}), *metadata.get("annotations", {})]
    return [mark for mark in marks if "kubevirt.io/" in mark or "kvedge.io/" in mark]


def test_a_node_that_becomes_a_box_leaves_its_cluster(cluster: Cluster) -> None:
    host = cluster.host
    assert marks_of_kvedge(cluster)
    planned = host.out("kvedge", "install", "--role", "standalone", "--dry-run")
    assert planned.splitlines()[-1] == f"take node {cluster.node} out of its cluster"
    assert marks_of_kvedge(cluster)
    said = host.out("kvedge", "install", "--role", "standalone")
    assert f"remove from the cluster what kvedge says of node {cluster.node}" in said
    assert "installed: kubeconfig /etc/kvedge/kubeconfig" in said
    assert marks_of_kvedge(cluster) == []
    assert host.out("tail", "-n1", "/root/k3s.log") == "ctr images remove kvedge.local/launcher:v1"
    assert host.out("ls", "-A", "/var/lib/rancher/k3s/agent/images") == ""
    assert host.out("kvedge", "status", "--strict").startswith("installed  standalone")


def test_a_box_becomes_a_node_again(cluster: Cluster) -> None:
    assert f"installed: agent {cluster.node}" in cluster.host.out("kvedge", "install", "--role", "agent")
    # A box's API would be asked instead of the cluster's.
    assert cluster.host.run("ls", "/etc/kvedge/kubeconfig", check=False).stdout == ""
    wait_until(lambda: "kubevirt.io/schedulable" in marks_of_kvedge(cluster), "its handler has spoken")
    assert_runs_only_a_handler(cluster)


def test_an_agent_may_have_a_kubeconfig_that_a_server_has_made(cluster: Cluster) -> None:
    host = cluster.host
    host.run("mkdir", "-p", "/etc/kvedge/roles")
    command = f"/root/kvedge user role handler --node {cluster.node} --server https://{cluster.server.address}"
    host.run("sh", "-c", f"{command}:{cluster.server.port} --output /etc/kvedge/roles/handler --force")
    assert f"installed: agent {cluster.node}" in host.out("kvedge", "install", "--role", "agent")
    assert host.out("ls", "/etc/kvedge/roles") == "handler"
    assert_runs_only_a_handler(cluster)


def test_uninstalling_leaves_nothing_on_the_host_and_in_the_cluster_only_vms(cluster: Cluster) -> None:
    host = cluster.host
    said = host.out("kvedge", "uninstall", "--purge")
    assert f"remove from the cluster what kvedge says of node {cluster.node}" in said
    assert marks_of_kvedge(cluster) == []
    assert "kept in the cluster: the kinds and their VMs" in said
    assert host.out("tail", "-n1", "/root/k3s.log") == "ctr images remove kvedge.local/launcher:v1"
    assert "kvedge" not in left_on_the_host(host)
    assert not host.run("ls", "/etc/kvedge", "/var/lib/rancher/k3s/agent/images", check=False).stdout.split("\n")[1:-1]
    assert host.out("ls", "-A", "/var/lib/kvedge") == ""
    for kind in ("validatingwebhookconfigurations", "mutatingwebhookconfigurations", "validatingadmissionpolicies"):
        assert cluster.get(kind)["items"] == []
    kinds = ("apiservices", "clusterroles", "clusterrolebindings")
    found = [item for kind in kinds for item in cluster.get(kind)["items"]]
    # The server itself has an APIService for each group of the kinds that stay: it names no Service.
    names = [item["metadata"]["name"] for item in found if "spec" not in item or item["spec"].get("service")]
    assert not [name for name in names if "kvedge" in name or "subresources.kubevirt" in name]
    assert cluster.get("vm", "web")["metadata"]["name"] == "web"

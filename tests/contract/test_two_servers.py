"""Several servers of one cluster, each with an api role in a process of its own, on a real kube-apiserver.

One that hangs, dies or leaves takes no more calls, and one that comes back does; with the last one the aggregated API
goes, which would keep every namespace from ending.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from kvedge.api.registration.presence_plan import HEARTBEAT
from kvedge.appliance.cluster.cluster_leave import leave, leave_node
from kvedge.kube.errors import KubeError, NotFound
from kvedge.kube.kube_client import KubeClient
from kvedge.kube.patches import MergePatch
from kvedge.resources.meta import ObjectMeta
from kvedge.resources.names import HEARTBEAT as NODE_HEARTBEAT
from kvedge.resources.names import SCHEDULABLE
from kvedge.resources.role_users import API_GROUP, API_USER, HANDLER_GROUP, NODES_GROUP, handler_user
from kvedge.resources.types.core import Node
from tests.support.builders import small_vmi, vm_of
from tests.support.either_server import lone_server
from tests.support.kube_apiserver import RealApiServer, reachable_address
from tests.support.ports import free_port
from tests.support.role_rights import give_roles_their_rights
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.contract, pytest.mark.timeout(240)]
VMS = "/apis/kubevirt.io/v1/namespaces/default/virtualmachines"
SLICES = "/apis/discovery.k8s.io/v1/namespaces/kvedge-system/endpointslices"
ENDPOINTS = "/api/v1/namespaces/kvedge-system/endpoints/kvedge-api"
API_SERVICE = "/apis/apiregistration.k8s.io/v1/apiservices/v1.subresources.kubevirt.io"
WEBHOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/kvedge"
RIGHTS = "/apis/rbac.authorization.k8s.io/v1/clusterroles/kvedge:api"
# A call that is sent to nobody waits for its webhook's time; a role is silent for 20 s until it is taken out.
GONE_SECONDS = 45.0
# A program's start on a machine that does much else.
START_SECONDS = 90.0


@dataclass
class ApiProcess:
    """`kvedge api` of one server."""

    node: str
    port: int
    kubeconfig: Path
    directory: Path
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        address = f"{reachable_address()}:{self.port}"
        command = [sys.executable, "-m", "kvedge", "api", "--kubeconfig", str(self.kubeconfig)]
        command += ["--api-address", address, "--node-name", self.node, "--data-dir", str(self.directory)]
        with (self.directory / f"{self.node}.log").open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log)

    def hear(self, number: signal.Signals) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def end(self, number: signal.Signals = signal.SIGTERM) -> None:
        if self.process is not None:
            self.process.send_signal(number)
            # One that was stopped would not hear anything else.
            self.process.send_signal(signal.SIGCONT)
            self.process.wait(30)
            self.process = None

    @property
    def log(self) -> str:
        return (self.directory / f"{self.node}.log").read_text()


@dataclass
class Cluster:
    server: RealApiServer
    admin: KubeClient
    one: ApiProcess
    two: ApiProcess

    def ports(self) -> list[int]:
        """Where calls are sent to, which slices and Endpoints must agree about."""
        slices = self.admin.request("GET", SLICES)["items"]
        found = sorted(entry["port"] for item in slices for entry in item["ports"])
        subsets = self._endpoints().get("subsets") or []
        told = sorted(
            entry["port"] for subset in subsets for entry in subset["ports"] for _ in subset.get("addresses") or ()
        )
        return found if found == told else []

    def _endpoints(self) -> dict[str, Any]:
        try:
            found: dict[str, Any] = self.admin.request("GET", ENDPOINTS)
        except NotFound:
            return {}
        return found

    def wait_for(self, *servers: ApiProcess, seconds: float = START_SECONDS) -> None:
        wanted = sorted(server.port for server in servers)
        wait_until(lambda: self.ports() == wanted, f"calls are sent to {wanted}", seconds)

    def takes(self, count: int = 1) -> bool:
        """Whether so many VMs are admitted one after the other."""
        return all(self._takes() for _ in range(count))

    def _takes(self) -> bool:
        try:
            self.admin.request("POST", VMS, vm_of(small_vmi(), runStrategy="Halted"), {"dryRun": "All"})
        except KubeError:
            return False
        return True

    def has(self, path: str) -> bool:
        try:
            self.admin.request("GET", path)
        except NotFound:
            return False
        return True


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    directory = tmp_path_factory.mktemp("servers")
    # Names that are alike for longer than an object's name is of them.
    alike = "server-of-a-rack-with-a-very-long-name-indeed"
    with lone_server(directory) as (server, admin):
        give_roles_their_rights(admin)
        kubeconfig = server.write_kubeconfig(API_USER, [API_GROUP])
        one, two = (ApiProcess(f"{alike}-{number}", free_port(), kubeconfig, directory) for number in (1, 2))
        try:
            yield Cluster(server, admin, one, two)
        finally:
            for process in (one, two):
                process.end(signal.SIGKILL)


@pytest.fixture
def both(cluster: Cluster) -> Cluster:
    """Two servers that both take calls."""
    for server in (cluster.one, cluster.two):
        if server.process is None:
            server.start()
    cluster.wait_for(cluster.one, cluster.two)
    wait_until(lambda: cluster.takes(5), "VMs are admitted", START_SECONDS)
    return cluster


def test_a_server_that_is_alone_writes_no_heartbeats_and_two_see_each_others(cluster: Cluster) -> None:
    cluster.one.start()
    cluster.wait_for(cluster.one)
    wait_until(cluster.takes, "VMs are admitted", START_SECONDS)

    def beats() -> set[str]:
        items = cluster.admin.request("GET", SLICES)["items"]
        return {item["metadata"]["annotations"][HEARTBEAT] for item in items}

    before, until = beats(), time.monotonic() + 12
    wait_until(lambda: time.monotonic() > until or beats() != before, "two rounds have passed")
    assert beats() == before
    cluster.two.start()
    cluster.wait_for(cluster.one, cluster.two)
    first = beats()
    wait_until(lambda: not beats() & first, "both have written another")
    # Nobody writes Endpoints in turn.
    version = cluster.admin.request("GET", ENDPOINTS)["metadata"]["resourceVersion"]
    second = beats()
    wait_until(lambda: not beats() & second, "both have written another")
    assert cluster.admin.request("GET", ENDPOINTS)["metadata"]["resourceVersion"] == version


def test_a_server_that_is_killed_gets_no_calls_and_gets_them_when_it_is_back(both: Cluster) -> None:
    both.two.end(signal.SIGKILL)
    both.wait_for(both.one, seconds=GONE_SECONDS)
    wait_until(lambda: both.takes(10), "all VMs are admitted")
    both.two.start()
    both.wait_for(both.one, both.two)


def test_a_server_that_hangs_gets_no_calls_and_gets_them_at_once_when_it_goes_on(both: Cluster) -> None:
    both.two.hear(signal.SIGSTOP)
    # Meanwhile calls to it wait for their time, and others go on.
    both.wait_for(both.one, seconds=GONE_SECONDS)
    wait_until(lambda: both.takes(10), "all VMs are admitted", GONE_SECONDS)
    both.two.hear(signal.SIGCONT)
    both.wait_for(both.one, both.two)
    assert both.takes(10)


def test_no_call_is_lost_when_a_server_leaves_in_order_and_comes_back(both: Cluster) -> None:
    both.two.hear(signal.SIGTERM)
    process, refused = both.two.process, 0
    assert process is not None
    until = time.monotonic() + START_SECONDS
    while process.poll() is None and time.monotonic() < until:
        refused += not both.takes()
    assert process.wait(START_SECONDS) == 0
    both.two.process = None
    assert both.ports() == [both.one.port]
    both.two.start()
    until = time.monotonic() + START_SECONDS
    while both.ports() != sorted([both.one.port, both.two.port]) and time.monotonic() < until:
        refused += not both.takes()
    assert refused == 0
    assert both.takes(10)


def test_the_last_server_that_leaves_stays_an_endpoint_as_it_may_only_be_restarted(both: Cluster) -> None:
    both.two.end()
    both.wait_for(both.one, seconds=10)
    both.one.end()
    assert both.ports() == [both.one.port]
    begun = time.monotonic()
    assert not both.takes()
    assert time.monotonic() - begun < 9
    both.one.start()
    wait_until(both.takes, "it takes calls again", START_SECONDS)


def test_uninstalling_one_of_two_servers_leaves_the_cluster_as_it_is(
    both: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    both.two.end(signal.SIGKILL)
    leave(both.admin, both.two.node, print, purge=True)
    said = capsys.readouterr().out
    assert f"as it serves on {both.one.node[:31]}" in said
    assert both.has(API_SERVICE)
    assert both.has(WEBHOOKS)
    # It could not do so itself.
    both.wait_for(both.one, seconds=GONE_SECONDS)
    assert both.takes(5)


def test_with_the_last_server_the_aggregated_api_goes_and_writes_of_vms_are_refused_at_once(
    both: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    both.two.end(signal.SIGKILL)
    both.one.end()
    leave(both.admin, both.one.node, print, purge=False)
    said = capsys.readouterr().out
    assert f"remove from the cluster {API_SERVICE}" in said
    assert "VMs cannot be created, changed or started" in said
    assert f"No answer came from {both.two.node[:31]}" in said
    assert not both.has(API_SERVICE)
    assert not both.has(ENDPOINTS)
    assert both.admin.request("GET", SLICES)["items"] == []
    assert both.has(WEBHOOKS)
    begun = time.monotonic()
    with pytest.raises(KubeError, match="no endpoints available for service"):
        both.admin.request("POST", VMS, vm_of(small_vmi(), runStrategy="Halted"), {"dryRun": "All"})
    assert time.monotonic() - begun < 9


def test_a_server_that_comes_back_brings_all_of_it_back(both: Cluster) -> None:
    assert both.has(API_SERVICE)
    assert both.takes(5)


def test_a_purge_leaves_agents_what_they_run_by_and_takes_it_out_once_they_are_gone(
    both: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    admin, own, other = both.admin, both.one.node, both.two.node
    # One handler runs; hosts that are down have said so, and so has the other server's.
    for name, schedulable in {"agent-1": "true", "agent-2": "false", other: "false", own: "false"}.items():
        marks = ObjectMeta(name=name, labels={SCHEDULABLE: schedulable}, annotations={NODE_HEARTBEAT: "of its handler"})
        admin.create(Node(metadata=marks))
    # In order: the endpoint of the first goes with it.
    for server in (both.two, both.one):
        server.end()
    leave(admin, own, print, purge=True)
    assert f"as kvedge is on agent-1, agent-2, {other}, or was not uninstalled there:" in capsys.readouterr().out
    assert (both.has(API_SERVICE), both.has(WEBHOOKS), both.has(RIGHTS)) == (False, True, True)

    # Each that is uninstalled takes its own mark off, by what its handler spoke with.
    agent = both.server.write_kubeconfig(handler_user("agent-1"), [HANDLER_GROUP])
    told: list[str] = []
    left: list[str] = []
    nodes = [agent, both.server.write_kubeconfig(f"system:node:{other}", [NODES_GROUP])]
    leave_node(nodes, other, told.append, left.append)
    leave_node([agent], "agent-1", told.append, left.append)
    leave_node([agent], "agent-2", told.append, left.append)
    assert told == [f"remove from the cluster what kvedge says of node {n}" for n in (other, "agent-1")]
    assert len(left) == 1
    assert "as an administrator: kubectl label node agent-2 kubevirt.io/schedulable-" in left[0]
    assert admin.get(Node, "", "agent-1").metadata.annotations == {}
    leave(admin, own, print, purge=True)
    assert "as kvedge is on agent-2, or was not" in capsys.readouterr().out
    # As told: that one will not come back.
    admin.patch(Node, "", "agent-2", MergePatch({"metadata": {"labels": {SCHEDULABLE: None}}}))
    leave(admin, own, print, purge=True)
    said = capsys.readouterr().out
    assert f"remove from the cluster {WEBHOOKS}" in said
    assert "kept in the cluster: the kinds and their VMs" in said
    assert (both.has(API_SERVICE), both.has(WEBHOOKS), both.has(RIGHTS)) == (False, False, False)

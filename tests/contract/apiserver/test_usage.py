"""What a node and its Pods use, from a meter of the node agent's to a real `kubectl top`; embedded only, as there is no
metrics-server here.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from kvedge.standalone.apiserver.access.pki import Subject
from kvedge.standalone.apiserver.api_server import ApiServerConfig, EmbeddedApi
from kvedge.standalone.apiserver.routes.usage_source import MeasuredUsage, NoUsage, Usage
from tests.contract.apiserver.conftest import load_pair
from tests.support.api_client import ApiClient
from tests.support.api_servers import Kubectl
from tests.support.widgets import pod, pods

pytestmark = pytest.mark.contract
METRICS = "/apis/metrics.k8s.io/v1beta1"
NODES = "/api/v1/nodes"
NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


class PlayedMeter:
    """Stands for the node agent: it measures what the test tells it to."""

    def __init__(self) -> None:
        self.pods: dict[str, Usage] = {}
        self.problem = ""

    def measure_usage(self) -> MeasuredUsage:
        if self.problem:
            raise NoUsage(self.problem)
        return MeasuredUsage("box", NOW, 1.5, Usage(500_000_000, 1 << 30), self.pods)


@pytest.fixture
def meter() -> PlayedMeter:
    return PlayedMeter()


@pytest.fixture
def api(tmp_path: Path, meter: PlayedMeter) -> Iterator[EmbeddedApi]:
    api = EmbeddedApi(ApiServerConfig(tmp_path, port=0), usage_source=meter)
    api.start()
    yield api
    api.stop()


@pytest.fixture
def box(tmp_path: Path, api: EmbeddedApi, meter: PlayedMeter) -> Iterator[ApiClient]:
    """An administrator of an API with this meter, a Node and three Pods, two of which run."""
    context = ssl.create_default_context(cadata=api.pki.servers.certificate_pem.decode())
    pair = api.pki.clients.issue_client(Subject("admin", ("system:masters",)))
    load_pair(context, tmp_path, pair.certificate, pair.key)
    admin = ApiClient(api.address, context)
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "box"}}
    admin.made(NODES, node)
    size = {"status": {"allocatable": {"cpu": "2", "memory": "4Gi"}, "capacity": {"cpu": "2", "memory": "4Gi"}}}
    admin.patch(f"{NODES}/box/status", size)
    for name, used in (("web", Usage(250_000_000, 64 << 20)), ("db", Usage(1_000_000, 1 << 20)), ("idle", None)):
        document = pod(name, nodeName="box")
        document["metadata"]["labels"] = {"app": name}
        made = admin.made(pods("default"), document)
        if used is not None:
            meter.pods[made["metadata"]["uid"]] = used
    yield admin
    admin.close()


@pytest.fixture
def kubectl(api: EmbeddedApi, box: ApiClient, tmp_path: Path) -> Kubectl:
    path = tmp_path / "kubeconfig"
    api.write_kubeconfig(path, "admin", ["system:masters"])
    return Kubectl(path)


def test_top_shows_nodes_and_pods(kubectl: Kubectl) -> None:
    assert kubectl.run("top", "node", "--no-headers").split() == ["box", "500m", "25%", "1024Mi", "25%"]
    lines = kubectl.run("top", "pod", "--no-headers").splitlines()
    assert [line.split() for line in lines] == [["db", "1m", "1Mi"], ["web", "250m", "64Mi"]]
    assert kubectl.run("top", "pod", "-l", "app=web", "--no-headers").split() == ["web", "250m", "64Mi"]
    assert kubectl.run("top", "pod", "db", "--containers", "--no-headers").split() == ["db", "main", "1m", "1Mi"]


def test_tables_have_the_figures_and_pods_are_still_pods(kubectl: Kubectl) -> None:
    assert kubectl.run("get", "pods.metrics.k8s.io", "web", "--no-headers").split() == [
        "web",
        "250000000n",
        "65536Ki",
        "1.500s",
    ]
    assert kubectl.run("get", "nodes.metrics.k8s.io", "--no-headers").split()[:2] == ["box", "500000000n"]
    assert kubectl.run("get", "pods", "-o", "name").split() == ["pod/db", "pod/idle", "pod/web"]


def test_figures_are_as_kubernetes_writes_them(box: ApiClient) -> None:
    found = box.get(f"{METRICS}/namespaces/default/pods/web").json
    assert found["metadata"] == {
        "name": "web",
        "namespace": "default",
        "labels": {"app": "web"},
        "creationTimestamp": "2026-01-02T03:04:05Z",
    }
    del found["metadata"]
    assert found == {
        "kind": "PodMetrics",
        "apiVersion": "metrics.k8s.io/v1beta1",
        "timestamp": "2026-01-02T03:04:05Z",
        "window": "1.500s",
        "containers": [{"name": "main", "usage": {"cpu": "250000000n", "memory": "65536Ki"}}],
    }
    answer = box.get(f"{METRICS}/pods", fieldSelector="metadata.name=db").json
    assert (answer["kind"], [each["metadata"]["name"] for each in answer["items"]]) == ("PodMetricsList", ["db"])
    assert box.get(f"{METRICS}/nodes/box").json["usage"] == {"cpu": "500000000n", "memory": "1048576Ki"}


@pytest.mark.parametrize(
    ("path", "query", "status"),
    [
        ("namespaces/default/pods/idle", {}, 404),
        ("namespaces/default/pods/gone", {}, 404),
        ("nodes/other", {}, 404),
        ("pods", {"watch": "1"}, 405),
        ("pods", {"fieldSelector": "spec.nodeName=box"}, 400),
        ("secrets", {}, 404),
    ],
)
def test_what_is_not_measured_is_refused(box: ApiClient, path: str, query: dict[str, str], status: int) -> None:
    assert box.get(f"{METRICS}/{path}", **query).status == status


def test_as_long_as_nothing_can_be_measured_it_is_said_why(box: ApiClient, meter: PlayedMeter) -> None:
    meter.problem = "the node agent is still starting; try again"
    answer = box.get(f"{METRICS}/nodes")
    assert (answer.status, answer.json["message"]) == (503, meter.problem)


def test_nobody_writes_figures(box: ApiClient) -> None:
    assert box.post(f"{METRICS}/nodes", {"metadata": {"name": "x"}}).status == 405


def test_a_viewer_of_a_namespace_sees_its_pods_and_no_node(api: EmbeddedApi, box: ApiClient, tmp_path: Path) -> None:
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "views"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "ann"}],
    }
    box.made("/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings", binding)
    api.write_kubeconfig(tmp_path / "ann", "ann", [])
    ann = Kubectl(tmp_path / "ann")
    assert ann.run("top", "pod", "--no-headers").split()[:3] == ["db", "1m", "1Mi"]
    refused = ann.try_run("top", "node")
    assert refused.returncode == 1
    assert "forbidden" in refused.stderr

"""What the cluster tests say of a cluster on which they cannot run, before they start anything there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kvedge.kube.kube_client import KubeClient
from kvedge.kube.patches import MergePatch
from kvedge.resources.meta import ObjectMeta
from kvedge.resources.names import SCHEDULABLE, VERSION
from kvedge.resources.types.core import Namespace, Node
from tests.support.cluster.foreign_cluster import UnfitError, described, foreign_cluster, given_kubeconfig
from tests.support.either_server import install_kinds, lone_server
from tests.support.kube_apiserver import RealApiServer

# In the order of the tests: each brings what the one before it has missed.
pytestmark = pytest.mark.contract


@pytest.fixture(scope="module")
def lone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[RealApiServer, KubeClient]]:
    with lone_server(tmp_path_factory.mktemp("server")) as both:
        yield both


@pytest.fixture(scope="module")
def server(lone: tuple[RealApiServer, KubeClient]) -> RealApiServer:
    return lone[0]


@pytest.fixture(scope="module")
def admin(lone: tuple[RealApiServer, KubeClient]) -> KubeClient:
    return lone[1]


def refusal(server: RealApiServer, directory: Path, image: str = "") -> str:
    with pytest.raises(UnfitError) as caught, foreign_cluster(str(server.kubeconfig), image, directory):
        pytest.fail("it was taken")
    return str(caught.value)


def test_it_is_named_by_context_and_server(server, tmp_path):
    nowhere = tmp_path / "nowhere"
    assert described(f"{nowhere}:{server.kubeconfig}") == f"c (https://127.0.0.1:{server.port})"


def test_one_without_kvedge(server, tmp_path):
    assert "kvedge is not installed there" in refusal(server, tmp_path)


def test_one_with_kvedges_kinds_and_no_node_of_kvedges(server, admin, tmp_path):
    install_kinds(admin)
    admin.create(Node(metadata=ObjectMeta(name="n1", labels={SCHEDULABLE: "true"})))
    assert "no node of the cluster has kvedge" in refusal(server, tmp_path)


def test_one_whose_only_node_is_cordoned(server, admin, tmp_path):
    admin.patch(Node, "", "n1", MergePatch({"metadata": {"annotations": {VERSION: "0.1.0"}}}))
    admin.patch(Node, "", "n1", MergePatch({"spec": {"unschedulable": True}}))
    assert "no node takes VMs now (label kubevirt.io/schedulable=true, not cordoned) of n1" in refusal(server, tmp_path)


def test_one_whose_nodes_lack_the_guests_image(server, admin, tmp_path):
    admin.patch(Node, "", "n1", MergePatch({"spec": {"unschedulable": None}}))
    assert "n1: without the image kvedge.local/test-guest:1" in refusal(server, tmp_path)


def test_one_that_fits_is_used_in_a_namespace_that_goes_with_the_tests(server, admin, tmp_path):
    # Without Kubernetes' controllers nobody empties a namespace: it is not waited for.
    with foreign_cluster(str(server.kubeconfig), "registry/disk:1", tmp_path, removal_seconds=1) as cluster:
        assert cluster.image == "registry/disk:1"
        labels = admin.get(Namespace, "", cluster.namespace).metadata.labels
        assert labels["pod-security.kubernetes.io/enforce"] == "privileged"
        assert cluster.kubectl("config", "view", "-o", "jsonpath={..namespace}").stdout == cluster.namespace
    assert admin.get(Namespace, "", cluster.namespace).metadata.deletion_timestamp


def test_a_kubeconfig_in_the_environment_counts_for_those_alone_who_ask_for_these_tests(monkeypatch):
    monkeypatch.setenv("KUBECONFIG", "/somebody/s")
    asked = (["tests"], ["tests/unit", "-k", "cluster"], ["tests/cluster"], ["tests/cluster/test_vm_life.py::test"])
    monkeypatch.chdir(Path(__file__).parents[2])
    assert [given_kubeconfig(arguments) for arguments in asked] == ["", "", "/somebody/s", "/somebody/s"]

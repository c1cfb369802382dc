"""The cluster under test: the one that $KUBECONFIG names, with kvedge on it, or one of this machine's own.

Set KVEDGE_TEST_IMAGE to a container disk that the nodes of such a cluster have or can pull, and KVEDGE_TEST_CONTAINERD
to the directory of another containerd than the distribution's for the nodes of one of this machine's own.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cluster.control_plane import missing_programs
from tests.support.cluster.kvedge_cluster import GUEST_IMAGE, Cluster, LocalCluster
from tests.support.cluster.machine_node import missing_runtime


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster with kvedge."""
    if given := os.environ.get("KUBECONFIG", ""):
        yield Cluster(Path(given), os.environ.get("KVEDGE_TEST_IMAGE", GUEST_IMAGE))
        return
    if missing := missing_programs() + missing_runtime():
        pytest.skip(f"needs KUBECONFIG, or on this machine {', '.join(missing)}")
    containerd = Path(os.environ.get("KVEDGE_TEST_CONTAINERD", "/usr/bin"))
    local = LocalCluster.create(tmp_path_factory.mktemp("c"), 2, containerd)
    yield local
    local.remove()


@pytest.fixture
def own_cluster(cluster: Cluster) -> LocalCluster:
    """The cluster, if its machines are ours to break."""
    if not isinstance(cluster, LocalCluster):
        pytest.skip("breaks machines: not done to the cluster of $KUBECONFIG")
    return cluster

"""The suite against a cluster that it has not made: this machine's own, as a second run of pytest sees it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kvedge.resources.types.core import Namespace
from tests.support.cluster.kvedge_cluster import LocalCluster

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]

ROOT = Path(__file__).resolve().parents[2]
LIFE = "tests/cluster/test_vm_life.py"
# A boot, an answer and a stop; a guest that is killed from within its Pod; what only an owner may do.
CHOSEN = ("boots", "killed and Manual", "refused")


def second_run(cluster: LocalCluster, directory: Path, *arguments: str, image: str = "") -> tuple[int, str]:
    """Another pytest, which knows of the cluster by its kubeconfig alone."""
    environment = {**os.environ, "KUBECONFIG": str(cluster.kubeconfig), "KVEDGE_TEST_IMAGE": image}
    command = [sys.executable, "-m", "pytest", "-q", "-ra", f"--basetemp={directory}", *arguments]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=500, check=False)
    return done.returncode, done.stdout + done.stderr


def test_the_suite_runs_on_a_cluster_that_it_has_not_made_and_leaves_nothing_there(
    own_cluster: LocalCluster, tmp_path: Path
) -> None:
    before = {item.metadata.name for item in own_cluster.client.list(Namespace)}
    keywords = " or ".join(f"({item})" for item in CHOSEN)
    code, said = second_run(own_cluster, tmp_path / "second", LIFE, "-k", keywords)
    assert code == 0, said
    assert "2 passed, 1 skipped" in said
    assert "cluster: that of $KUBECONFIG, c (https://10." in said
    assert {item.metadata.name for item in own_cluster.client.list(Namespace)} == before


def test_a_cluster_whose_nodes_take_no_vm_is_refused_with_their_names(
    own_cluster: LocalCluster, tmp_path: Path
) -> None:
    names = sorted(own_cluster.nodes)
    with own_cluster.cordoned(*names):
        code, said = second_run(own_cluster, tmp_path / "second", LIFE, "-k", "boots", image="any/image:1")
    assert code == 1
    assert f"no node takes VMs now (label kubevirt.io/schedulable=true, not cordoned) of {', '.join(names)}" in said

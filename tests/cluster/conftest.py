"""The cluster under test: the one that $KUBECONFIG names, with kvedge on it, or one of this machine's own.

That of $KUBECONFIG is taken only where these tests were asked for by name (`pytest tests/cluster`, or a file of it).
Set KVEDGE_TEST_IMAGE to a container disk that the nodes of such a cluster can pull, unless they have the tests' own
(see tests/support/cluster/guest_image.py), and KVEDGE_TEST_CONTAINERD to the directory of another containerd than the
distribution's for the nodes of one of this machine's own.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from tests.support.altered_program import alter_program
from tests.support.built_program import built_program
from tests.support.cluster.any_cluster import Cluster
from tests.support.cluster.control_plane import missing_programs
from tests.support.cluster.foreign_cluster import UnfitError, described, foreign_cluster, given_kubeconfig
from tests.support.cluster.kvedge_cluster import LocalCluster
from tests.support.cluster.local_path import CLASS, LocalPathProvisioner, missing_provisioner
from tests.support.cluster.machine_node import missing_runtime
from tests.support.cluster.mending import ClusterCare

# Of the version's documentation: the same program, with other bytes.
AS_GOOD = (b"costs nothing", b"costs no time")
CARE = pytest.StashKey[ClusterCare]()
LAST_FILE = pytest.StashKey[Path]()
LAST_TEST = pytest.StashKey[str]()


@pytest.fixture(scope="session")
def given(request: pytest.FixtureRequest) -> str:
    """$KUBECONFIG, if it is to be used; or nothing."""
    return given_kubeconfig(request.config.args)


@pytest.fixture(scope="session")
def own_machine(given: str) -> None:
    """Skips where a cluster of somebody else's is tested, or where none can be made on this machine."""
    if given:
        pytest.skip("breaks machines: not done to the cluster of $KUBECONFIG")
    if missing := missing_programs() + missing_runtime():
        pytest.skip(f"needs KUBECONFIG and these tests asked for by name, or on this machine {', '.join(missing)}")


# No longer than its tests: its nodes take a part of the machine as long as they are there.
@pytest.fixture(scope="package")
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, given: str) -> Iterator[Cluster]:
    """A cluster with kvedge."""
    if given:
        directory, image = tmp_path_factory.mktemp("c"), os.environ.get("KVEDGE_TEST_IMAGE", "")
        try:
            with foreign_cluster(given, image, directory) as found:
                say(request, f"cluster: that of $KUBECONFIG, {described(given)}, namespace {found.namespace}")
                yield found
        except UnfitError as error:
            pytest.fail(f"the cluster of $KUBECONFIG: {error}", pytrace=False)
        return
    request.getfixturevalue("own_machine")
    containerd = Path(os.environ.get("KVEDGE_TEST_CONTAINERD", "/usr/bin"))
    # The agent runs the one file, and not the very one of which other tests look for what is still in use.
    directory = tmp_path_factory.mktemp("c")
    agent = alter_program(built_program(), directory / "kvedge", {"lib/kvedge/__init__.pyc": AS_GOOD})
    local = LocalCluster.create(directory, 2, containerd, {"n2": [str(agent)]})
    request.config.stash[CARE] = ClusterCare(local)
    yield local
    del request.config.stash[CARE]
    local.remove()


# Before the test's own fixtures, those of its module among them.
@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Called by pytest before each test: what the tests before have left of this machine's cluster is put right.

    What is left although they have passed fails this one.
    """
    earlier = item.config.stash.get(LAST_TEST, "")
    item.config.stash[LAST_TEST] = item.nodeid
    care = item.config.stash.get(CARE, None)
    if care is None:
        return
    is_next_module = item.config.stash.get(LAST_FILE, item.path) != item.path
    item.config.stash[LAST_FILE] = item.path
    found, words = care.prepare(item.nodeid, earlier, is_next_module=is_next_module)
    # tests/conftest.py shows them at the end of the run.
    item.user_properties += [("mended", fault) for fault in found]
    if words:
        pytest.fail(words, pytrace=False)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Called by pytest after each part of a test."""
    report = yield
    care = item.config.stash.get(CARE, None)
    if care is not None and report.failed:
        care.is_suspect = True
    return report


def say(request: pytest.FixtureRequest, words: str) -> None:
    """Tell whoever runs the tests, also when they pass."""
    with request.config.pluginmanager.get_plugin("capturemanager").global_and_fixture_disabled():
        print(f"\n{words}", flush=True)


@pytest.fixture
def own_cluster(own_machine: None, cluster: Cluster) -> LocalCluster:
    """The cluster, if its machines are ours to break."""
    assert isinstance(cluster, LocalCluster)
    return cluster


@pytest.fixture(scope="module")
def local_path(request: pytest.FixtureRequest) -> Iterator[LocalCluster]:
    """The cluster with k3s's own storage, its default class: the real local-path-provisioner."""
    request.getfixturevalue("own_machine")
    if missing := missing_provisioner():
        pytest.skip(f"needs {', '.join(missing)}")
    cluster = request.getfixturevalue("cluster")
    provisioner = LocalPathProvisioner(cluster)
    provisioner.start()
    yield cluster
    provisioner.stop()
    cluster.kubectl("delete", "storageclass", CLASS)

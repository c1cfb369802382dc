"""A real API server takes every manifest in k3s/ as it is, in the order in which the README there applies them."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.support.either_server import lone_server
from tests.support.kube_apiserver import RealApiServer, require_assets

pytestmark = pytest.mark.contract
K3S = Path(__file__).parents[2] / "k3s"
FILES = ("rbac", "crds", "priority-classes.yaml", "kubevirt.yaml", "deployment.yaml", "daemonset.yaml")

# For those who have the Prometheus Operator, whose kinds no server here knows.
MONITORING = K3S / "monitoring" / "prometheus.yaml"
# By file: the kinds that are the Operator's.
OPERATORS = {
    "prometheus.yaml": ["ScrapeConfig", "ScrapeConfig"],
    "service-monitor.yaml": ["ServiceMonitor"],
    "alarm-rules.yaml": ["PrometheusRule"],
    "kubevirt-alerts.yaml": ["PrometheusRule"],
    "recording-rules.yaml": ["PrometheusRule"],
}
# For Grafana.
DASHBOARDS = {"dashboard-vms.json", "dashboard-control-plane.json"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealApiServer]:
    # As every distribution starts it.
    with lone_server(tmp_path_factory.mktemp("server"), "--allow-privileged=true") as (server, _):
        yield server


def kubectl(server: RealApiServer, *arguments: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
    command = [str(require_assets() / "kubectl"), "--kubeconfig", str(server.kubeconfig), *arguments]
    return subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=120, check=False)


def test_no_file_was_forgotten() -> None:
    assert {path.name for path in K3S.iterdir()} - {"README.md"} == {*FILES, MONITORING.parent.name}
    assert {path.name for path in MONITORING.parent.iterdir()} == OPERATORS.keys() | DASHBOARDS


def test_what_is_for_the_operator_is_of_its_kinds() -> None:
    found = {}
    for name in OPERATORS:
        documents = yaml.safe_load_all((MONITORING.parent / name).read_text())
        kinds = [each["kind"] for each in documents if each["apiVersion"].startswith("monitoring.coreos.com/")]
        found[name] = kinds
    assert found == OPERATORS


def test_each_file_is_accepted_with_every_field_known_and_again_without_a_change(server: RealApiServer) -> None:
    for name in FILES:
        # Kinds are too large for what kubectl notes of its own applies.
        words = ("apply", "--server-side", "--validate=strict", "-f", str(K3S / name))
        if name == "kubevirt.yaml":
            kubectl(server, "wait", "--for=condition=Established", "--timeout=60s", "crd/kubevirts.kubevirt.io")
        done = kubectl(server, *words)
        assert (done.returncode, done.stderr) == (0, "")
    versions = [_versions(server, kind) for kind in ("deployments.apps", "daemonsets.apps", "clusterroles")]
    for name in FILES:
        assert kubectl(server, "apply", "--server-side", "-f", str(K3S / name)).returncode == 0
    assert [_versions(server, kind) for kind in ("deployments.apps", "daemonsets.apps", "clusterroles")] == versions


def test_what_prometheus_may_do_is_accepted(server: RealApiServer) -> None:
    documents = list(yaml.safe_load_all(MONITORING.read_text()))
    foreign = [document for document in documents if document["apiVersion"].startswith("monitoring.coreos.com/")]
    text = yaml.safe_dump_all(document for document in documents if document not in foreign)
    done = kubectl(server, "apply", "--server-side", "--validate=strict", "-f", "-", stdin=text)
    assert (done.returncode, done.stderr) == (0, "")


def _versions(server: RealApiServer, kind: str) -> str:
    path = "jsonpath={range .items[*]}{.metadata.name}={.metadata.resourceVersion} {end}"
    return kubectl(server, "get", kind, "-A", "-o", path).stdout

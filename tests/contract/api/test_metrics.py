"""Who may read the metrics, and that they come through an API server as Prometheus reads them."""

from __future__ import annotations

import base64
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from kvedge.api.api_service import ApiRole
from kvedge.handler.launchers.relay_service import RelayConfig, RelayService
from kvedge.kube import rest_edge
from kvedge.kube.credentials.connection_settings import from_kubeconfig
from kvedge.kube.figures import process_figures
from kvedge.kube.figures.rest_figures import RestFigures
from kvedge.kube.kube_client import KubeClient
from kvedge.resources.codec import encode_json
from kvedge.resources.names import HANDLER_ADDRESS
from kvedge.resources.usage.guest_stats import GuestStats, NodeStats
from tests.contract.api.conftest import handler_client, remove
from tests.contract.api.stream_parts import MERGE
from tests.support.api_servers import ApiServerUnderTest, Kubectl
from tests.support.builders import small_vmi, vm_of
from tests.support.echo_door import EchoDoor
from tests.support.prometheus import Prometheus, check_metrics, run_prometheus, write_rules
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.contract, pytest.mark.usefixtures("webhooks_are_called")]
NODE = "node7"
METRICS = "/apis/subresources.kubevirt.io/v1/metrics"
VMS = "/apis/kubevirt.io/v1/namespaces/default/virtualmachines"
VMIS = "/apis/kubevirt.io/v1/namespaces/default/virtualmachineinstances"
RULES = Path(__file__).parents[3] / "k3s" / "monitoring"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
FIGURES = {"cpu.time": 1_500_000_000, "load.1m": 250, "balloon.available": 8192, "balloon.usable": 2048}
STATS = NodeStats(
    guests=[
        GuestStats(namespace="default", name="small", answered=True, complete=True, figures=FIGURES),
        GuestStats(namespace="default", name="ghost", answered=True, complete=True),
    ]
)


@pytest.fixture(scope="module")
def relay(server: ApiServerUnderTest, admin: KubeClient, api_role: ApiRole) -> Iterator[EchoDoor]:
    """The relay of a node that tells of its guests."""
    door = EchoDoor()
    door.stats_answer = encode_json(STATS)
    client = handler_client(server, NODE)
    service = RelayService(client, RelayConfig(NODE), door)
    service.start()
    wait_until(lambda: service.address, "the relay serves")
    annotations = {HANDLER_ADDRESS: service.address}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE, "annotations": annotations}}
    admin.request("POST", "/api/v1/nodes", node)
    yield door
    service.stop()
    client.close()
    admin.request("DELETE", f"/api/v1/nodes/{NODE}")


@pytest.fixture
def running(controller: KubeClient) -> Iterator[None]:
    """A VMI on that node."""
    controller.request("POST", VMIS, small_vmi())
    status = {"status": {"phase": "Running", "nodeName": NODE}}
    controller.request("PATCH", f"{VMIS}/small", status, None, MERGE)
    yield
    remove(controller, f"{VMIS}/small")


def scrape(kubectl: Kubectl, query: str = "") -> tuple[int, str]:
    done = kubectl.try_run("get", "--raw", METRICS + query)
    return done.returncode, done.stdout or done.stderr


@pytest.fixture
def prometheus(server: ApiServerUnderTest, admin: KubeClient) -> Iterator[Kubectl]:
    """A user with the right that k3s/monitoring/prometheus.yaml gives, and with no other one."""
    rules = [{"apiGroups": ["subresources.kubevirt.io"], "resources": ["metrics"], "verbs": ["list"]}]
    admin.request("POST", f"{RBAC}/clusterroles", {"metadata": {"name": "scrape"}, "rules": rules})
    binding: dict[str, Any] = {
        "metadata": {"name": "scrape"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "scrape"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "prometheus"}],
    }
    admin.request("POST", f"{RBAC}/clusterrolebindings", binding)
    yield Kubectl(server.write_kubeconfig("prometheus", []))
    admin.request("DELETE", f"{RBAC}/clusterrolebindings/scrape")
    admin.request("DELETE", f"{RBAC}/clusterroles/scrape")


def test_a_user_with_the_right_reads_what_guests_use(
    relay: EchoDoor, running: None, prometheus: Kubectl, admin: KubeClient
) -> None:
    wait_until(lambda: "kubevirt_vmi_info" in scrape(prometheus)[1], "the right counts, and the VMI is known")
    code, text = scrape(prometheus)
    assert code == 0, text
    families = {family.name: family for family in text_string_to_metric_families(text)}
    cpu = families["kubevirt_vmi_cpu_usage_seconds"]
    assert cpu.type == "counter"
    labels = {"node": NODE, "namespace": "default", "name": "small"}
    assert [(sample.labels, sample.value) for sample in cpu.samples] == [(labels, 1.5)]
    assert [sample.labels["phase"] for sample in families["kubevirt_vmi_info"].samples] == ["running"]
    # A node tells of no guest that is not on it.
    assert [sample.labels["name"] for sample in families["kvedge_vmi_stats_up"].samples] == ["small"]
    used = scrape(prometheus, "?guests=true")[1]
    assert (_names(used, "kvedge_vmi_stats_up"), _names(used, "kubevirt_vmi_info")) == (["small"], [])


def test_vms_are_told_of_until_they_are_gone(relay: EchoDoor, admin: KubeClient, kubectl: Kubectl) -> None:
    wait_until(lambda: scrape(kubectl)[0] == 0, "the aggregated API answers")
    vm = vm_of(small_vmi(), runStrategy="Halted")
    vm["metadata"]["name"] = "told"
    admin.request("POST", VMS, vm)
    wait_until(lambda: _names(scrape(kubectl)[1], "kubevirt_vm_info") == ["told"], "the VM is told of")
    text = scrape(kubectl)[1]
    assert _names(text, "kubevirt_vm_create_date_timestamp_seconds") == ["told"]
    up = {sample.labels["resource"]: sample.value for sample in _samples(text, "kvedge_objects_up")}
    assert set(up.values()) == {1.0}
    assert up.keys() >= {"virtualmachines", "virtualmachinesnapshots"}
    remove(admin, f"{VMS}/told")
    wait_until(lambda: _names(scrape(kubectl)[1], "kubevirt_vm_info") == [], "its series are gone")


def _samples(text: str, name: str) -> list[Any]:
    families = {family.name: family for family in text_string_to_metric_families(text)}
    return families[name].samples if name in families else []


def _names(text: str, name: str) -> list[str]:
    return [sample.labels["name"] for sample in _samples(text, name)]


def test_a_user_without_the_right_is_refused(relay: EchoDoor, server: ApiServerUnderTest) -> None:
    code, text = scrape(Kubectl(server.write_kubeconfig("joe", [])))
    assert code == 1
    assert "Forbidden" in text or "forbidden" in text


def test_the_view_of_a_namespace_is_not_enough(relay: EchoDoor, server: ApiServerUnderTest, admin: KubeClient) -> None:
    binding: dict[str, Any] = {
        "metadata": {"name": "ann-views"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "ann"}],
    }
    admin.request("POST", f"{RBAC}/namespaces/default/rolebindings", binding)
    try:
        assert scrape(Kubectl(server.write_kubeconfig("ann", [])))[0] == 1
    finally:
        admin.request("DELETE", f"{RBAC}/namespaces/default/rolebindings/ann-views")


def test_roles_are_told_of_by_their_nodes(
    relay: EchoDoor, running: None, prometheus: Kubectl, admin: KubeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A process of tests has called more servers than its figures tell apart.
    figures = RestFigures()
    for module in (rest_edge, process_figures):
        monkeypatch.setattr(module, "REST_FIGURES", figures)

    def read() -> str:
        return prometheus.try_run("get", "--raw", f"{METRICS}?roles=true").stdout

    def reviews(text: str) -> float:
        return sum(
            sample.value
            for sample in _samples(text, "kubevirt_rest_client_requests")
            if (sample.labels["resource"], sample.labels["verb"]) == ("subjectaccessreviews", "create")
        )

    text = wait_until(lambda: (found := read()) and reviews(found) and found, "the right counts, and the role answers")
    ready = {sample.labels["node"]: sample.value for sample in _samples(text, "kubevirt_virt_handler_ready_status")}
    assert ready[NODE] == 1.0
    # The relay is of this very process, as it is where `kvedge node` runs, and so may be another test's. A process is
    # told of once, by one of its nodes.
    (process,) = _samples(text, "process_open_fds")
    assert process.labels["node"] in (NODE, "echo")
    assert "kubevirt_vmi_info" not in text


def test_without_a_name_nobody_is_answered_by_the_role_itself(api_role: ApiRole) -> None:
    context = ssl._create_unverified_context()
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(
            f"https://{api_role.endpoint.address}:{api_role.endpoint.port}{METRICS}", context=context
        )
    assert refused.value.code == 401
    refused.value.close()


def test_a_node_that_does_not_answer_is_told_by_a_series(
    relay: EchoDoor, running: None, kubectl: Kubectl, admin: KubeClient
) -> None:
    path = f"/api/v1/nodes/{NODE}"
    address = admin.request("GET", path)["metadata"]["annotations"][HANDLER_ADDRESS]
    admin.request("PATCH", path, {"metadata": {"annotations": {HANDLER_ADDRESS: "127.0.0.1:1"}}}, None, MERGE)
    try:
        wait_until(lambda: f'kvedge_node_stats_up{{node="{NODE}"}} 0' in scrape(kubectl)[1], "the node is told of")
        assert 'kubevirt_vmi_info{node="node7"' in scrape(kubectl)[1]
    finally:
        admin.request("PATCH", path, {"metadata": {"annotations": {HANDLER_ADDRESS: address}}}, None, MERGE)


def test_promtool_reads_all_of_it_and_finds_fault_with_names_of_kubevirts_alone(
    relay: EchoDoor, running: None, kubectl: Kubectl
) -> None:
    wait_until(lambda: "kubevirt_vmi_guest_load_1m" in scrape(kubectl)[1], "the guest is told of")
    for path in (METRICS, f"{METRICS}?roles=true"):
        remarks = check_metrics(kubectl.run("get", "--raw", path))
        # Counters that hold moments, and a unit within a name: kept, as KubeVirt's rules and dashboards name them.
        assert [remark for remark in remarks if not remark.startswith("kubevirt_")] == []


def test_prometheus_itself_scrapes_and_works_out_the_rules(
    server: ApiServerUnderTest, relay: EchoDoor, running: None, prometheus: Kubectl, tmp_path: Path
) -> None:
    wait_until(lambda: "kubevirt_vmi_info" in scrape(prometheus)[1], "the right counts, and the VMI is known")
    rules = write_rules(
        tmp_path, sorted(path for path in RULES.glob("*.yaml") if path.stem.endswith(("rules", "alerts")))
    )
    assert len(rules) == 3
    with run_prometheus(tmp_path, _scrape_jobs(prometheus.kubeconfig, tmp_path), rules) as found:
        up = {"kvedge": 1.0, "kvedge-roles": 1.0}
        wait_until(lambda: _by_job(found) == up, "both jobs are scraped", 60)
        labels, value = wait_until(lambda: found.query("kubevirt_vmi_guest_load_1m"), "the guest is there", 60)[0]
        assert (labels["namespace"], labels["name"], labels["node"], value) == ("default", "small", NODE, 0.25)
        used = "vmi:kubevirt_vmi_memory_used_bytes:sum"
        assert wait_until(lambda: found.query(used), "the rule has a value", 60)[0][1] == 6 << 20
        wait_until(lambda: _healths(found) == {"ok"}, "each rule is worked out", 60)
        targets = found.ask("targets")["activeTargets"]
        assert [target["lastError"] for target in targets] == ["", ""]


def _by_job(found: Prometheus) -> dict[str, float]:
    return {labels["job"]: value for labels, value in found.query("up")}


def _healths(found: Prometheus) -> set[str]:
    return {rule["health"] for group in found.ask("rules")["groups"] for rule in group["rules"]}


def _scrape_jobs(kubeconfig: Path, directory: Path) -> list[dict[str, Any]]:
    """The jobs of k3s/monitoring/prometheus.yaml, for a user with a certificate."""
    settings = from_kubeconfig(kubeconfig)
    cluster, user = (next(iter(yaml.safe_load(kubeconfig.read_text())[part])) for part in ("clusters", "users"))
    tls = {}
    for name, document, key in (
        ("ca_file", cluster["cluster"], "certificate-authority"),
        ("cert_file", user["user"], "client-certificate"),
        ("key_file", user["user"], "client-key"),
    ):
        path = document.get(key)
        if path is None:
            path = directory / name
            path.write_bytes(base64.b64decode(document[f"{key}-data"]))
        tls[name] = str(path)
    jobs = []
    for document in yaml.safe_load_all((RULES / "prometheus.yaml").read_text()):
        if document["kind"] == "ScrapeConfig":
            spec = document["spec"]
            jobs.append(
                {
                    "job_name": document["metadata"]["name"],
                    "honor_labels": spec["honorLabels"],
                    "metrics_path": spec["metricsPath"],
                    "params": spec.get("params", {}),
                    "scheme": spec["scheme"].lower(),
                    "static_configs": [{"targets": [settings.host.removeprefix("https://")]}],
                    "tls_config": tls,
                }
            )
    return jobs

"""What people type: every kubectl that is found, against both servers."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.contract.apiserver.conftest import Server
from tests.contract.apiserver.test_evictions import counted, run_pod
from tests.support.api_client import eventually
from tests.support.kube_apiserver import assets
from tests.support.widgets import config_maps, pod, pods, widget, widgets

pytestmark = pytest.mark.contract


def kubectls() -> list[str]:
    """The kubectl of the PATH and the one that came with the kube-apiserver."""
    found = assets()
    candidates = [shutil.which("kubectl") or "", str(found / "kubectl") if found else ""]
    return list(dict.fromkeys(path for path in candidates if path and Path(path).exists()))


MISSING = pytest.param("", marks=pytest.mark.skip(reason="needs kubectl in the PATH"))
PROGRAMS: list[Any] = [*kubectls()] or [MISSING]


class Kubectl:
    """One kubectl, with one server and one namespace."""

    def __init__(self, program: str, server: Server, namespace: str, cache: Path) -> None:
        self.server = server
        self.namespace = namespace
        self.command = [
            program,
            f"--kubeconfig={server.kubeconfig}",
            f"--cache-dir={cache}",
            f"--namespace={namespace}",
        ]

    def run(self, *arguments: str, text: str = "", code: int = 0) -> str:
        """What it prints, errors included."""
        done = subprocess.run(
            [*self.command, *arguments],
            input=text,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == code, done.stdout
        return done.stdout

    def apply(self, *documents: dict[str, Any]) -> str:
        """apply -f of these documents."""
        return self.run("apply", "-f", "-", text=yaml.safe_dump_all(documents))

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Run it in the background."""
        return subprocess.Popen([*self.command, *arguments], stdout=subprocess.PIPE, text=True)


@pytest.fixture(params=PROGRAMS)
def kubectl(
    request: pytest.FixtureRequest, api_server: Server, namespace: str, tmp_path_factory: pytest.TempPathFactory
) -> Kubectl:
    """Each kubectl in a namespace of the test's own."""
    return Kubectl(request.param, api_server, namespace, tmp_path_factory.mktemp("cache"))


@pytest.fixture
def running(kubectl: Kubectl) -> Iterator[list[subprocess.Popen[str]]]:
    """Programs in the background, ended with the test."""
    processes: list[subprocess.Popen[str]] = []
    yield processes
    for process in processes:
        process.kill()
        process.communicate()


def test_apply_creates_changes_and_leaves_alone(kubectl: Kubectl) -> None:
    assert kubectl.apply(widget("a", 1)) == "widget.example.com/a created\n"
    assert kubectl.apply(widget("a", 1)) == "widget.example.com/a unchanged\n"
    assert kubectl.apply(widget("a", 2)) == "widget.example.com/a configured\n"
    assert kubectl.run("get", "widget", "a", "-o", "jsonpath={.spec.size}") == "2"
    assert kubectl.run("diff", "-f", "-", text=yaml.safe_dump(widget("a", 2))) == ""


def test_apply_of_a_pod_merges_its_lists(kubectl: Kubectl) -> None:
    kubectl.apply(pod("p"))
    changed = pod("p")
    changed["spec"]["containers"][0]["image"] = "example.com/image:2"
    assert kubectl.apply(changed) == "pod/p configured\n"
    assert kubectl.apply(changed) == "pod/p unchanged\n"


def test_apply_on_the_server_side(kubectl: Kubectl) -> None:
    def apply(size: int, *more: str) -> str:
        return kubectl.run("apply", "--server-side", *more, "-f", "-", text=yaml.safe_dump(widget("a", size)))

    assert apply(1) == "widget.example.com/a serverside-applied\n"
    kubectl.run("patch", "widget", "a", "--type=merge", "-p", '{"spec":{"size":5}}')
    done = kubectl.run("apply", "--server-side", "-f", "-", text=yaml.safe_dump(widget("a", 2)), code=1)
    assert 'conflict with "kubectl-patch"' in done
    assert apply(2, "--force-conflicts") == "widget.example.com/a serverside-applied\n"


def test_a_wrong_manifest_is_refused_with_every_cause(kubectl: Kubectl) -> None:
    said = kubectl.run("apply", "-f", "-", text=yaml.safe_dump(widget("a", 99, color="blue")), code=1)
    assert 'The Widget "a" is invalid' in said
    assert "spec.size: Invalid value: 99: spec.size in body should be less than or equal to 10" in said
    assert 'spec.color: Unsupported value: "blue": supported values: "red", "green"' in said


def test_an_unknown_field_is_refused_before_anything_is_made(kubectl: Kubectl) -> None:
    said = kubectl.run("apply", "-f", "-", text=yaml.safe_dump(widget("a", 1, colour="red")), code=1)
    assert 'unknown field "spec.colour"' in said
    said = kubectl.run("apply", "-f", "-", text=yaml.safe_dump(pod("p", hostname2="x")), code=1)
    assert 'unknown field "spec.hostname2"' in said
    assert "No resources found" in kubectl.run("get", "widgets,pods")


def test_get_prints_our_columns(kubectl: Kubectl) -> None:
    kubectl.apply(widget("a", 3))
    kubectl.run("patch", "wg", "a", "--subresource=status", "--type=merge", "-p", '{"status":{"phase":"Up"}}')
    plain, wide = (
        [line.split() for line in kubectl.run("get", "wg", *more).splitlines()] for more in ([], ["-o", "wide"])
    )
    assert plain == [["NAME", "SIZE", "PHASE"], ["a", "3", "Up"]]
    assert wide == [["NAME", "SIZE", "PHASE", "COLOR"], ["a", "3", "Up", "red"]]
    assert kubectl.run("get", "wg", "-o", "name") == "widget.example.com/a\n"
    assert kubectl.run("get", "all", "-o", "name") == "widget.example.com/a\n"
    assert json.loads(kubectl.run("get", "wg", "a", "-o", "json"))["spec"]["size"] == 3


def test_get_of_what_is_not_there(kubectl: Kubectl) -> None:
    said = kubectl.run("get", "widget", "nobody", code=1)
    assert said == 'Error from server (NotFound): widgets.example.com "nobody" not found\n'
    assert kubectl.run("get", "widgets") == f"No resources found in {kubectl.namespace} namespace.\n"
    said = kubectl.run("get", "gizmos", code=1)
    assert said == 'error: the server doesn\'t have a resource type "gizmos"\n'


def test_get_watch_prints_changes_as_they_come(kubectl: Kubectl, running: list[subprocess.Popen[str]]) -> None:
    kubectl.apply(widget("a", 1))
    process = kubectl.start("get", "wg", "-w")
    running.append(process)
    assert process.stdout is not None
    assert process.stdout.readline().split() == ["NAME", "SIZE", "PHASE"]
    assert process.stdout.readline().split()[:2] == ["a", "1"]
    kubectl.server.admin.patch(widgets(kubectl.namespace, "a"), {"spec": {"size": 2}})
    assert process.stdout.readline().split()[:2] == ["a", "2"]
    kubectl.server.admin.made(widgets(kubectl.namespace), widget("b", 7))
    assert process.stdout.readline().split()[:2] == ["b", "7"]


def test_describe_shows_the_object_and_its_events(kubectl: Kubectl) -> None:
    kubectl.apply(widget("a", 3))
    uid = kubectl.run("get", "wg", "a", "-o", "jsonpath={.metadata.uid}")
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "a.1", "namespace": kubectl.namespace},
        "involvedObject": {
            "apiVersion": "example.com/v1",
            "kind": "Widget",
            "name": "a",
            "namespace": kubectl.namespace,
            "uid": uid,
        },
        "reason": "Painted",
        "message": "it is red now",
        "type": "Normal",
        "source": {"component": "painter"},
        "firstTimestamp": "2026-01-01T00:00:00Z",
        "lastTimestamp": "2026-01-01T00:00:00Z",
        "count": 1,
    }
    kubectl.server.admin.made(f"/api/v1/namespaces/{kubectl.namespace}/events", event)
    said = kubectl.run("describe", "wg", "a")
    assert "Size:" in said
    assert "Painted" in said
    assert "it is red now" in said
    listed = kubectl.run("get", "events")
    assert "Painted" in listed
    assert "widget/a" in listed
    assert "Painted" in kubectl.run("events", "--for", "widget/a")


def test_describe_a_pod(kubectl: Kubectl) -> None:
    kubectl.apply(pod("p", nodeName="n1"))
    said = kubectl.run("describe", "pod", "p")
    assert "example.com/image:1" in said
    assert "Status:" in said


def test_edit_by_patch_label_and_annotate(kubectl: Kubectl) -> None:
    kubectl.apply(widget("a", 3))
    step = '[{"op":"replace","path":"/spec/size","value":4}]'
    assert kubectl.run("patch", "wg", "a", "--type=json", "-p", step) == "widget.example.com/a patched\n"
    assert kubectl.run("label", "wg", "a", "x=y") == "widget.example.com/a labeled\n"
    assert kubectl.run("annotate", "wg", "a", "note=hello") == "widget.example.com/a annotated\n"
    assert kubectl.run("get", "wg", "-l", "x=y", "-o", "name") == "widget.example.com/a\n"
    assert kubectl.run("patch", "wg", "a", "--type=json", "-p", step) == "widget.example.com/a patched (no change)\n"


def test_edit_opens_and_writes_back(kubectl: Kubectl, monkeypatch: pytest.MonkeyPatch) -> None:
    kubectl.apply(widget("a", 3))
    monkeypatch.setenv("EDITOR", "sed -i s/size:.3/size:\\ 8/")
    assert kubectl.run("edit", "wg", "a") == "widget.example.com/a edited\n"
    assert kubectl.run("get", "wg", "a", "-o", "jsonpath={.spec.size}") == "8"


def test_replace_and_scale(kubectl: Kubectl) -> None:
    kubectl.apply(widget("a", 3, replicas=1))
    assert kubectl.run("scale", "wg/a", "--replicas=4") == "widget.example.com/a scaled\n"
    assert kubectl.run("get", "wg", "a", "-o", "jsonpath={.spec.replicas}") == "4"
    whole = json.loads(kubectl.run("get", "wg", "a", "-o", "json"))
    whole["spec"]["size"] = 6
    assert kubectl.run("replace", "-f", "-", text=json.dumps(whole)) == "widget.example.com/a replaced\n"
    said = kubectl.run("replace", "-f", "-", text=json.dumps(whole), code=1)
    assert "the object has been modified; please apply your changes to the latest version and try again" in said


def test_wait_for_a_condition_a_value_and_the_end(kubectl: Kubectl, running: list[subprocess.Popen[str]]) -> None:
    kubectl.apply(widget("a", 3))
    process = kubectl.start("wait", "wg/a", "--for=jsonpath={.status.phase}=Up", "--timeout=30s")
    running.append(process)
    kubectl.server.admin.patch(widgets(kubectl.namespace, "a") + "/status", {"status": {"phase": "Up"}})
    assert process.communicate(timeout=40)[0] == "widget.example.com/a condition met\n"
    said = kubectl.run("wait", "crd/widgets.example.com", "--for=condition=Established", "--timeout=30s")
    assert said.endswith("condition met\n")
    deleted = kubectl.start("wait", "wg/a", "--for=delete", "--timeout=30s")
    running.append(deleted)
    kubectl.server.admin.delete(widgets(kubectl.namespace, "a"))
    assert deleted.wait(40) == 0


def test_delete_waits_until_it_is_gone(kubectl: Kubectl, running: list[subprocess.Popen[str]]) -> None:
    body = widget("a", 3)
    body["metadata"]["finalizers"] = ["example.com/hold"]
    kubectl.apply(body)
    path = widgets(kubectl.namespace, "a")
    process = kubectl.start("delete", "wg", "a", "--timeout=30s")
    running.append(process)
    eventually(lambda: "deletionTimestamp" in kubectl.server.admin.get(path).json["metadata"])
    assert process.poll() is None
    kubectl.server.admin.patch(path, {"metadata": {"finalizers": None}})
    said = process.communicate(timeout=40)[0]
    assert said.startswith('widget.example.com "a" deleted')
    assert process.returncode == 0


def test_delete_by_label_by_force_and_all(kubectl: Kubectl) -> None:
    kubectl.apply(pod("p", nodeName="n1"), widget("a"), widget("b"))
    kubectl.run("label", "wg", "a", "x=y")
    kubectl.run("delete", "wg", "-l", "x=y")
    assert kubectl.run("get", "wg", "-o", "name") == "widget.example.com/b\n"
    assert "force deleted" in kubectl.run("delete", "pod", "p", "--force", "--grace-period=0")
    kubectl.run("delete", "wg", "--all")
    assert "No resources found" in kubectl.run("get", "wg,pods")
    kubectl.run("delete", "wg", "nobody", "--ignore-not-found")


def test_go_clients_that_send_protobuf_are_understood(kubectl: Kubectl) -> None:
    assert kubectl.run("create", "configmap", "c", "--from-literal=key=value") == "configmap/c created\n"
    assert kubectl.server.admin.get(config_maps(kubectl.namespace, "c")).json["data"] == {"key": "value"}
    assert kubectl.run("create", "secret", "generic", "s", "--from-literal=key=value") == "secret/s created\n"
    assert kubectl.run("get", "secret", "s", "-o", "jsonpath={.data.key}") == "dmFsdWU="
    assert kubectl.run("create", "service", "clusterip", "web", "--tcp=80:8080") == "service/web created\n"
    ports = json.loads(kubectl.run("get", "service", "web", "-o", "json"))["spec"]["ports"]
    assert [(port["port"], port["targetPort"], port["protocol"]) for port in ports] == [(80, 8080, "TCP")]
    assert kubectl.run("create", "serviceaccount", "joe") == "serviceaccount/joe created\n"
    kubectl.run("create", "quota", "q", "--hard=cpu=1,memory=1Gi")
    hard = json.loads(kubectl.run("get", "quota", "q", "-o", "json"))["spec"]["hard"]
    assert hard == {"cpu": "1", "memory": "1Gi"}
    assert kubectl.run("create", "role", "r", "--verb=get", "--resource=pods").endswith("created\n")
    assert kubectl.run("create", "rolebinding", "rb", "--role=r", "--user=joe").endswith("created\n")


def test_run_makes_a_pod(kubectl: Kubectl) -> None:
    said = kubectl.run("run", "p", "--image=example.com/image:1", "--restart=Never", "--env=A=b", "--port=80")
    assert said == "pod/p created\n"
    spec = kubectl.server.admin.get(pods(kubectl.namespace, "p")).json["spec"]
    assert spec["restartPolicy"] == "Never"
    assert spec["containers"][0]["env"] == [{"name": "A", "value": "b"}]
    assert spec["containers"][0]["ports"] == [{"containerPort": 80, "protocol": "TCP"}]


def test_auth_questions(kubectl: Kubectl) -> None:
    assert kubectl.run("auth", "can-i", "get", "pods") == "yes\n"
    assert kubectl.run("auth", "can-i", "get", "pods", "--as=joe", code=1) == "no\n"
    assert "admin" in kubectl.run("auth", "whoami")
    assert "*.*" in kubectl.run("auth", "can-i", "--list")


def test_api_resources_and_explain(kubectl: Kubectl) -> None:
    # By their kinds: metrics.k8s.io has resources of the same names.
    lines = {line.split()[-1]: line.split() for line in kubectl.run("api-resources").splitlines()}
    assert lines["Widget"] == ["widgets", "wg", "example.com/v1", "true", "Widget"]
    assert lines["Pod"] == ["pods", "po", "v1", "true", "Pod"]
    said = kubectl.run("explain", "widget.spec")
    assert "size" in said
    assert "<integer>" in said
    assert "containers" in kubectl.run("explain", "pod.spec")
    assert "example.com/v1" in kubectl.run("api-versions")
    assert "Server Version: v1." in kubectl.run("version")


def test_dry_runs(kubectl: Kubectl) -> None:
    said = kubectl.run("apply", "--dry-run=server", "-f", "-", text=yaml.safe_dump(widget("a", 3)))
    assert said == "widget.example.com/a created (server dry run)\n"
    assert "No resources found" in kubectl.run("get", "wg")


def test_nodes_are_cordoned_and_drained(kubectl: Kubectl) -> None:
    admin, name = kubectl.server.admin, f"node-{kubectl.namespace}"
    admin.made("/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})
    kubectl.apply(pod("p", nodeName=name, terminationGracePeriodSeconds=0))
    assert kubectl.run("cordon", name) == f"node/{name} cordoned\n"
    assert admin.get(f"/api/v1/nodes/{name}").json["spec"]["unschedulable"] is True
    assert "evicting pod" in kubectl.run("drain", name, "--force", "--timeout=20s")
    assert admin.get(pods(kubectl.namespace, "p")).status == 404
    assert kubectl.run("uncordon", name) == f"node/{name} uncordoned\n"
    assert kubectl.run("taint", "node", name, "a=b:NoSchedule") == f"node/{name} tainted\n"
    admin.delete(f"/api/v1/nodes/{name}")


def test_budgets_and_policies_are_made_shown_and_explained(kubectl: Kubectl) -> None:
    kubectl.run("create", "poddisruptionbudget", "b", "--selector=app=shop", "--min-available=50%")
    policy = {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": "p"},
        "spec": {"podSelector": {"matchLabels": {"app": "shop"}}},
    }
    kubectl.apply(policy)
    heading, row = kubectl.run("get", "pdb").splitlines()
    assert heading.split("  ")[0] == "NAME"
    assert [word.strip() for word in heading.split("  ") if word.strip()][1:4] == [
        "MIN AVAILABLE",
        "MAX UNAVAILABLE",
        "ALLOWED DISRUPTIONS",
    ]
    assert row.split()[:4] == ["b", "50%", "N/A", "0"]
    assert [line.split()[:2] for line in kubectl.run("get", "netpol").splitlines()] == [
        ["NAME", "POD-SELECTOR"],
        ["p", "app=shop"],
    ]
    assert "minAvailable" in kubectl.run("explain", "pdb.spec")
    assert "policyTypes" in kubectl.run("explain", "networkpolicy.spec")
    kubectl.run("delete", "pdb/b", "netpol/p")


def test_a_drain_waits_for_a_budget(kubectl: Kubectl) -> None:
    admin, name = kubectl.server.admin, f"node-{kubectl.namespace}"
    admin.made("/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})
    run_pod(admin, kubectl.namespace, "p", nodeName=name, terminationGracePeriodSeconds=0)
    kubectl.run("create", "poddisruptionbudget", "b", "--selector=app=shop", "--min-available=1")
    counted(kubectl.server, kubectl.namespace, 0, 1, 1, 1)
    said = kubectl.run("drain", name, "--force", "--timeout=3s", code=1)
    assert "Cannot evict pod as it would violate the pod's disruption budget." in said
    assert admin.get(pods(kubectl.namespace, "p")).status == 200
    kubectl.run("delete", "pdb", "b")
    assert "evicted" in kubectl.run("drain", name, "--force", "--timeout=20s")
    admin.delete(f"/api/v1/nodes/{name}")

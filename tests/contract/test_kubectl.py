"""kubectl against the embedded API: an old one, as Debian has it, and a current one."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from kvedge.api.api_service import ApiRole
from kvedge.resources.role_users import API_GROUP, API_USER
from tests.support.api_servers import EmbeddedServer
from tests.support.kubectl import current_kubectl, distribution_kubectl
from tests.support.waiting import wait_until

pytestmark = pytest.mark.contract

VM = """\
apiVersion: kubevirt.io/v1
kind: VirtualMachine
metadata: {name: NAME, labels: {shop: floor}}
spec:
  runStrategy: Halted
  template: {spec: {domain: {devices: {}, memory: {guest: 64Mi}}}}
"""


class Kubectl:
    """One kubectl with its own home."""

    def __init__(self, program: Path, kubeconfig: Path, home: Path) -> None:
        self.command = [str(program)]
        self.environment = {"KUBECONFIG": str(kubeconfig), "HOME": str(home), "PATH": os.environ["PATH"]}

    def call(self, *arguments: str, text: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
        """Run it."""
        return subprocess.run(
            [*self.command, *arguments],
            input=text,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
            env=self.environment | environment,
        )

    def run(self, *arguments: str, text: str = "", **environment: str) -> str:
        """What it prints; the test fails when it fails."""
        done = self.call(*arguments, text=text, **environment)
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedServer]:
    server = EmbeddedServer(tmp_path_factory.mktemp("server"))
    server.start()
    role = ApiRole(server.write_kubeconfig(API_USER, [API_GROUP]), "127.0.0.1:0")
    role.start()
    yield server
    role.stop()
    server.stop()


@pytest.fixture(scope="module", params=["distribution", "current"])
def kubectl(
    request: pytest.FixtureRequest, served: EmbeddedServer, tmp_path_factory: pytest.TempPathFactory
) -> Kubectl:
    program = distribution_kubectl() if request.param == "distribution" else current_kubectl()
    if program is None:
        pytest.skip("no kubectl: the package kubernetes-client, or kubectl in KUBEBUILDER_ASSETS or on the PATH")
    kubeconfig = served.write_kubeconfig("admin", ["system:masters"])
    found = Kubectl(program, kubeconfig, tmp_path_factory.mktemp("home"))
    wait_until(lambda: found.call("get", "vm").returncode == 0, "the kinds are served")
    return found


@pytest.fixture
def vm(kubectl: Kubectl, request: pytest.FixtureRequest) -> Iterator[str]:
    """A stopped VM."""
    name = f"vm-{abs(hash(request.node.name)) % 10_000}"
    kubectl.run("apply", "-f", "-", text=VM.replace("NAME", name))
    yield name
    # No controller runs here that would take its finalizer away.
    kubectl.call("patch", "vm", name, "--type", "merge", "-p", '{"metadata":{"finalizers":null}}')
    kubectl.call("delete", "vm", name, "--ignore-not-found", "--wait=false")


def test_apply_changes_only_what_changed(kubectl: Kubectl, vm: str) -> None:
    manifest = VM.replace("NAME", vm)
    assert "unchanged" in kubectl.run("apply", "-f", "-", text=manifest)
    changed = manifest.replace("64Mi", "96Mi").replace("shop: floor", "shop: window")
    difference = kubectl.call("diff", "-f", "-", text=changed)
    assert difference.returncode == 1
    assert "+        memory:\n" in difference.stdout or "96Mi" in difference.stdout
    assert "configured" in kubectl.run("apply", "-f", "-", text=changed)
    assert kubectl.run("get", "vm", vm, "-o", "jsonpath={.metadata.labels}") == '{"shop":"window"}'


def test_a_table_has_our_columns(kubectl: Kubectl, vm: str) -> None:
    header, row = kubectl.run("get", "vm", vm).splitlines()
    assert header.split() == ["NAME", "AGE", "STATUS", "READY"]
    assert row.split()[0] == vm
    assert kubectl.run("get", "vmi").strip() == ""


def test_edit_patch_and_label(kubectl: Kubectl, vm: str) -> None:
    kubectl.run("edit", "vm", vm, EDITOR="sed -i s/64Mi/80Mi/")
    assert kubectl.run("get", "vm", vm, "-o", "jsonpath={.spec.template.spec.domain.memory.guest}") == "80Mi"
    kubectl.run("patch", "vm", vm, "--type", "json", "-p", '[{"op":"add","path":"/metadata/labels/a","value":"b"}]')
    kubectl.run("label", "vm", vm, "shop-")
    assert json.loads(kubectl.run("get", "vm", vm, "-o", "jsonpath={.metadata.labels}")) == {"a": "b"}
    assert vm in kubectl.run("get", "vm", "-l", "a=b", "-o", "name")


def test_server_side_apply_reports_conflicts(kubectl: Kubectl, vm: str) -> None:
    manifest = VM.replace("NAME", vm).replace("64Mi", "72Mi")
    refused = kubectl.call("apply", "--server-side", "--field-manager=other", "-f", "-", text=manifest)
    assert refused.returncode != 0
    assert "conflict" in refused.stderr
    kubectl.run("apply", "--server-side", "--field-manager=other", "--force-conflicts", "-f", "-", text=manifest)


def test_describe_and_explain(kubectl: Kubectl, vm: str) -> None:
    assert f"Name:         {vm}" in kubectl.run("describe", "vm", vm)
    assert "DESCRIPTION" in kubectl.run("explain", "vmi")


def test_wait_and_delete(kubectl: Kubectl, vm: str) -> None:
    refused = kubectl.call("wait", "vm", vm, "--for=condition=Ready", "--timeout=1s")
    assert refused.returncode != 0
    assert "timed out" in refused.stderr
    kubectl.run("patch", "vm", vm, "--type", "merge", "-p", '{"metadata":{"finalizers":null}}')
    assert "deleted" in kubectl.run("delete", "vm", vm)
    assert "NotFound" in kubectl.call("get", "vm", vm).stderr


def test_a_watch_tells_changes_as_rows(kubectl: Kubectl, vm: str, served: EmbeddedServer) -> None:
    program = [*kubectl.command, "get", "vm", vm, "-w", "-o", "name"]
    with subprocess.Popen(program, stdout=subprocess.PIPE, text=True, env=kubectl.environment) as watching:
        assert watching.stdout is not None
        assert vm in watching.stdout.readline()
        kubectl.run("label", "vm", vm, "seen=yes")
        assert vm in watching.stdout.readline()
        watching.kill()


def test_what_is_wrong_is_refused_with_every_cause_and_nothing_is_created(kubectl: Kubectl) -> None:
    bad = VM.replace("NAME", "bad").replace(
        "devices: {}", "devices: {filesystems: [{name: f, virtiofs: {}}], disks: [{name: d}]}"
    )
    done = kubectl.call("apply", "-f", "-", text=bad)
    assert done.returncode != 0
    assert "spec.template.spec.domain.devices.filesystems" in done.stderr
    assert "spec.template.spec.domain.devices.disks[0].Name 'd' not found" in done.stderr
    assert "NotFound" in kubectl.call("get", "vm", "bad").stderr


def test_events_and_api_resources(kubectl: Kubectl) -> None:
    kubectl.run("get", "events")
    resources = kubectl.run("api-resources", "-o", "name")
    assert {"virtualmachines.kubevirt.io", "virtualmachineinstances.kubevirt.io", "pods"} <= set(resources.split())
    assert kubectl.run("auth", "can-i", "delete", "vm").strip() == "yes"
    assert "*.*" in kubectl.run("auth", "can-i", "--list")
    refused = kubectl.call("auth", "can-i", "delete", "vm", "--as=nobody")
    assert (refused.returncode, refused.stdout.strip()) == (1, "no")


def test_built_in_kinds_are_created_asked_and_deleted(kubectl: Kubectl, request: pytest.FixtureRequest) -> None:
    # A current kubectl sends all of these in protobuf, an old one in JSON.
    space = "made-by-kubectl"
    wanted = ["configmap/settings", "secret/password", "serviceaccount/robot", "service/web"]
    assert kubectl.run("create", "namespace", space) == f"namespace/{space} created\n"
    kubectl.run("-n", space, "create", "configmap", "settings", "--from-literal=color=red", "--from-literal=empty=")
    kubectl.run("-n", space, "create", "secret", "generic", "password", "--from-literal=key=value")
    kubectl.run("-n", space, "create", "serviceaccount", "robot")
    kubectl.run("-n", space, "create", "service", "clusterip", "web", "--tcp=80:http")
    read = {name: json.loads(kubectl.run("-n", space, "get", name, "-o", "json")) for name in wanted}
    assert read["configmap/settings"]["data"] == {"color": "red", "empty": ""}
    assert read["secret/password"]["data"] == {"key": "dmFsdWU="}
    assert read["service/web"]["spec"]["ports"][0]["targetPort"] == "http"
    again = kubectl.call("create", "namespace", space)
    assert "AlreadyExists" in again.stderr
    if "current" in request.node.callspec.id:
        assert "admin" in kubectl.run("auth", "whoami")
    kubectl.run("-n", space, "delete", *wanted, "--wait=false")
    assert "NotFound" in kubectl.call("-n", space, "get", wanted[0]).stderr
    kubectl.run("delete", "namespace", space)
    assert "NotFound" in kubectl.call("get", "namespace", space).stderr

"""Evictions of launchers, and cancelled evacuations: unmodified kubectl and virtctl, and kvedge, on both servers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import pytest

from kvedge.kube.errors import KubeError, NotFound
from kvedge.kube.kube_client import KubeClient
from kvedge.resources.codec import JsonObject
from tests.contract.api.conftest import remove
from tests.support.api_servers import ApiServerUnderTest, Kubectl
from tests.support.builders import small_vmi, vm_of
from tests.support.kvedge_cli import KvedgeCli

pytestmark = [pytest.mark.contract, pytest.mark.usefixtures("subresources_answer")]
VMS: Final = "/apis/kubevirt.io/v1/namespaces/default/virtualmachines"
VMIS: Final = "/apis/kubevirt.io/v1/namespaces/default/virtualmachineinstances"
PODS: Final = "/api/v1/namespaces/default/pods"
NODE: Final = "/api/v1/nodes/leaving"
MERGE: Final = "application/merge-patch+json"
MIGRATABLE: Final = ({"type": "LiveMigratable", "status": "True"},)
TRIGGERED: Final = 'Eviction triggered evacuation of VMI "default/mover"'


class Mover:
    """A VM that runs, as controller, handler and kubelet would have made it, and its launcher Pod."""

    def __init__(self, admin: KubeClient, controller: KubeClient) -> None:
        self.admin = admin
        self.controller = controller
        self.vmi = f"{VMIS}/mover"
        self.pods: list[str] = []

    def run(self, strategy: str | None, conditions: Sequence[JsonObject] = MIGRATABLE) -> None:
        vm = vm_of(small_vmi(), runStrategy="Manual")
        vm["metadata"]["name"] = "mover"
        made = self.admin.request("POST", VMS, vm)
        self.admin.request("PATCH", f"{VMS}/mover/status", {"status": {"created": True}}, None, MERGE)
        document = small_vmi()
        if strategy is not None:
            document["spec"]["evictionStrategy"] = strategy
        owner = {"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "name": "mover"}
        document["metadata"] |= {
            "name": "mover",
            "ownerReferences": [{**owner, "uid": made["metadata"]["uid"], "controller": True}],
        }
        self.controller.request("POST", VMIS, document)
        self.say({"phase": "Running", "nodeName": "leaving", "conditions": list(conditions)})
        self.add_launcher("virt-launcher-mover-aaaaa")

    def add_launcher(self, name: str, node: str = "leaving") -> None:
        uid = self.admin.request("GET", self.vmi)["metadata"]["uid"]
        owner = {"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance", "name": "mover", "uid": uid}
        self.add_pod(name, "virt-launcher", {**owner, "controller": True}, node)

    def add_pod(self, name: str, app: str, owner: JsonObject, node: str = "leaving") -> str:
        metadata = {
            "name": name,
            "labels": {"kubevirt.io": app},
            "annotations": {"kubevirt.io/domain": "mover"},
            "ownerReferences": [owner],
        }
        spec = {
            "nodeName": node,
            "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "compute", "image": "x"}],
        }
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
        self.pods.append(name)
        return str(self.admin.request("POST", PODS, pod)["metadata"]["uid"])

    def say(self, status: JsonObject) -> None:
        self.controller.request("PATCH", self.vmi, {"status": status}, None, MERGE)

    @property
    def mark(self) -> str:
        return str(self.admin.request("GET", self.vmi)["status"].get("evacuationNodeName", ""))

    def evict(self, name: str = "virt-launcher-mover-aaaaa", **more: Any) -> KubeError | None:
        """Evict a Pod; the refusal, or None."""
        metadata = {"name": name, "namespace": "default", **more.pop("metadata", {})}
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata, **more}
        try:
            self.admin.hurry(30).request("POST", f"{PODS}/{name}/eviction", body)
        except KubeError as error:
            return error
        return None

    def has_left(self, name: str = "virt-launcher-mover-aaaaa") -> bool:
        try:
            found = self.admin.request("GET", f"{PODS}/{name}")
        except NotFound:
            return True
        return "deletionTimestamp" in found["metadata"]

    def end(self) -> None:
        for name in self.pods:
            try:
                self.admin.request("DELETE", f"{PODS}/{name}", {"gracePeriodSeconds": 0})
            except NotFound:
                continue
        remove(self.admin, self.vmi)
        remove(self.admin, f"{VMS}/mover")


@pytest.fixture
def mover(admin: KubeClient, controller: KubeClient, second_node: str) -> Iterator[Mover]:
    admin.request(
        "POST", NODE.rpartition("/")[0], {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "leaving"}}
    )
    mover = Mover(admin, controller)
    yield mover
    mover.end()
    admin.request("DELETE", NODE)


def said(error: KubeError | None) -> str:
    """The webhook's words in a refusal that drain tools try again."""
    assert error is not None
    assert error.status == 429
    head, _, words = error.message.partition(" denied the request: ")
    assert "eviction-interceptor.kubevirt.io" in head
    return words


def test_an_eviction_marks_a_guest_that_can_move_and_its_pod_stays(mover: Mover) -> None:
    mover.run("LiveMigrate")
    assert said(mover.evict()) == TRIGGERED
    assert mover.mark == "leaving"
    assert said(mover.evict()) == f"Evacuation in progress: {TRIGGERED}"
    assert not mover.has_left()


def test_a_dry_run_marks_nothing(mover: Mover) -> None:
    mover.run("LiveMigrate")
    assert said(mover.evict(deleteOptions={"dryRun": ["All"]})) == TRIGGERED
    assert mover.mark == ""


@pytest.mark.parametrize("strategy", [None, "None", "LiveMigrateIfPossible"])
def test_a_guest_that_cannot_move_is_ended_with_its_pod(mover: Mover, strategy: str | None) -> None:
    """Without a strategy it has that of the KubeVirt object, which is None by default."""
    mover.run(strategy, ())
    assert mover.evict() is None
    assert mover.has_left()
    assert mover.mark == ""


def test_a_guest_that_cannot_move_but_must_holds_the_drain(mover: Mover) -> None:
    mover.run("LiveMigrate", [{"type": "LiveMigratable", "status": "False", "reason": "DisksNotLiveMigratable"}])
    wanted = "VMI mover is configured with an eviction strategy but is not live-migratable"
    assert said(mover.evict()) == wanted
    assert (mover.mark, mover.has_left()) == ("", False)


def test_a_guest_of_another_controllers_is_marked_as_well(mover: Mover) -> None:
    mover.run("External", ())
    assert said(mover.evict()) == TRIGGERED
    assert mover.mark == "leaving"


def test_a_launcher_that_a_guest_comes_to_is_not_evicted(mover: Mover) -> None:
    mover.run("LiveMigrate")
    mover.add_launcher("virt-launcher-mover-bbbbb", "elsewhere")
    assert said(mover.evict("virt-launcher-mover-bbbbb")) == "Eviction request for target Pod"
    assert mover.mark == ""


def test_the_descheduler_is_written_down(mover: Mover) -> None:
    mover.run("LiveMigrate")
    said(mover.evict(metadata={"annotations": {"requested-by": "sigs.k8s.io/descheduler"}}))

    def source() -> str | None:
        found: JsonObject = mover.admin.request("GET", mover.vmi)["metadata"].get("annotations") or {}
        return found.get("kubevirt.io/eviction-source")

    assert source() == "descheduler"
    # The next one is somebody else's.
    mover.say({"evacuationNodeName": None})
    assert said(mover.evict()) == TRIGGERED
    assert source() is None


def test_a_volumes_pod_goes_with_its_guest_only(mover: Mover) -> None:
    mover.run("None")
    launcher = mover.admin.request("GET", f"{PODS}/virt-launcher-mover-aaaaa")["metadata"]
    owner = {"apiVersion": "v1", "kind": "Pod", "name": launcher["name"], "uid": launcher["uid"], "controller": True}
    mover.add_pod("hp-volume-abc", "hotplug-disk", owner)
    wanted = "cannot evict hotplug pod: hp-volume-abc associated with running vmi: mover in namespace default"
    assert said(mover.evict("hp-volume-abc")) == wanted


def test_kubectl_drain_prints_why_it_waits(mover: Mover, kubectl: Kubectl) -> None:
    mover.run("LiveMigrate")
    # The webhook asks the API server some questions first; kubectl tries again each five seconds.
    checked = kubectl.try_run("drain", "leaving", "--dry-run=server", "--timeout=12s")
    assert "denied the request" in checked.stderr
    assert mover.mark == ""
    done = kubectl.try_run("drain", "leaving", "--timeout=12s")
    assert done.returncode != 0
    assert f"denied the request: {TRIGGERED}" in done.stderr
    assert mover.mark == "leaving"


def test_a_users_own_budget_goes_on_to_hold(mover: Mover) -> None:
    mover.run("None")
    running = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    mover.admin.request("PATCH", f"{PODS}/virt-launcher-mover-aaaaa/status", {"status": running}, None, MERGE)
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"kubevirt.io": "virt-launcher"}}}
    budget = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "own"}, "spec": spec}
    budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
    mover.admin.request("POST", budgets, budget)
    refused = mover.evict()
    mover.admin.request("DELETE", f"{budgets}/own")
    assert refused is not None
    assert (refused.status, "eviction-interceptor" in refused.message) == (429, False)
    assert mover.evict() is None


@pytest.mark.parametrize("kind", ["vm", "vmi"])
@pytest.mark.parametrize("client", [lambda path: Kubectl(path, "virtctl"), KvedgeCli], ids=["virtctl", "kvedge"])
def test_an_evacuation_is_cancelled(
    server: ApiServerUnderTest, mover: Mover, kind: str, client: Callable[..., Kubectl | KvedgeCli]
) -> None:
    program = client(server.write_kubeconfig("admin", ["system:masters"]))
    mover.run("LiveMigrate")
    mover.evict()
    program.run("evacuate-cancel", kind, "mover", "--dry-run")
    assert mover.mark == "leaving"
    done = program.try_run("evacuate-cancel", kind, "mover")
    assert (done.returncode, mover.mark) == (0, "")
    assert f"{kind.upper()} default/mover was canceled evacuation" in done.stdout + done.stderr
    # Nothing is marked any more, which is what was asked for.
    assert program.try_run("evacuate-cancel", kind, "mover").returncode == 0
    taints = [{"key": "kubevirt.io/drain", "effect": "NoSchedule"}]
    mover.admin.request("PATCH", NODE, {"spec": {"taints": taints}}, None, MERGE)
    refused = program.try_run("evacuate-cancel", kind, "mover")
    assert refused.returncode != 0
    assert 'Node "leaving" has NodeDrainTaintKey "kubevirt.io/drain:NoSchedule"' in refused.stderr


def test_a_mark_for_another_node_than_the_caller_saw_stays(mover: Mover) -> None:
    mover.run("LiveMigrate")
    mover.evict()
    path = "/apis/subresources.kubevirt.io/v1/namespaces/default/virtualmachineinstances/mover/evacuate/cancel"
    with pytest.raises(KubeError):
        mover.admin.hurry(30).request("PUT", path, {"evacuationNodeName": "elsewhere"})
    assert mover.mark == "leaving"


def test_the_vmi_of_a_vm_that_does_not_run_is_not_there(server: ApiServerUnderTest) -> None:
    program = KvedgeCli(server.write_kubeconfig("admin", ["system:masters"]))
    assert "not found" in program.try_run("evacuate-cancel", "vm", "nobody").stderr

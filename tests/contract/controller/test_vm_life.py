"""A VM from its creation to its end, with the controller against both servers and a node that is played."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from kvedge.controller.controller_service import ControllerRole
from kvedge.kube.errors import Forbidden, Unavailable
from kvedge.kube.kube_client import KubeClient
from kvedge.kube.patches import MergePatch
from kvedge.kube.rest_edge import RestEdge
from kvedge.resources.meta import ObjectMeta, condition
from kvedge.resources.role_users import CONTROLLER_GROUP, CONTROLLER_USER
from kvedge.resources.types.controller_revision import ControllerRevision
from kvedge.resources.types.core import Event, Pod
from kvedge.resources.types.vm import VirtualMachine, VirtualMachineInstanceTemplate, VirtualMachineSpec
from kvedge.resources.types.vmi import VirtualMachineInstance
from tests.contract.controller.played_node import PlayedNode
from tests.support.builders import CONFIG, asked
from tests.support.either_server import EitherServer
from tests.support.waiting import wait_until


@contextmanager
def controller(server: EitherServer) -> Iterator[ControllerRole]:
    """The role under its own name, with its own rights."""
    kubeconfig = server.kubeconfig_of(CONTROLLER_USER, CONTROLLER_GROUP)
    role = ControllerRole(kubeconfig, CONFIG, leader_election=False)
    role.start()
    try:
        yield role
        assert role.failure() is None
    finally:
        role.stop()


@pytest.fixture
def role(either_server: EitherServer) -> Iterator[ControllerRole]:
    with controller(either_server) as role:
        yield role


@pytest.fixture
def node(either_server: EitherServer, namespace: str) -> PlayedNode:
    return PlayedNode(either_server, namespace)


class Vm:
    """One VM of the test's namespace."""

    def __init__(self, client: KubeClient, namespace: str) -> None:
        self.client, self.namespace = client, namespace

    def create(self, strategy: str = "Always", note: str = "") -> VirtualMachine:
        template = VirtualMachineInstanceTemplate(metadata=ObjectMeta(annotations={"note": note} if note else {}))
        spec = VirtualMachineSpec(run_strategy=strategy, template=template)
        return self.client.create(VirtualMachine(metadata=ObjectMeta(name="web", namespace=self.namespace), spec=spec))

    def get(self) -> VirtualMachine:
        return self.client.get(VirtualMachine, self.namespace, "web")

    def shows(self, word: str) -> Callable[[], bool]:
        return lambda: self.get().status.printable_status == word

    def set_strategy(self, strategy: str) -> None:
        self.client.patch(VirtualMachine, self.namespace, "web", MergePatch({"spec": {"runStrategy": strategy}}))

    def has_no_run(self) -> bool:
        return not self.client.list(VirtualMachineInstance, self.namespace)

    def runs_anew(self, earlier: VirtualMachineInstance) -> bool:
        found = self.client.list(VirtualMachineInstance, self.namespace)
        return any(vmi.metadata.uid != earlier.metadata.uid for vmi in found)

    def is_gone(self) -> bool:
        return not any(self.client.list(kind, self.namespace) for kind in (VirtualMachine, VirtualMachineInstance))


@pytest.fixture
def vm(either_server: EitherServer, namespace: str) -> Vm:
    return Vm(either_server.admin, namespace)


def run(vm: Vm, node: PlayedNode) -> Pod:
    """Bring a created VM to Running and ready."""
    pod = node.pod()
    node.starts(pod)
    node.runs()
    node.becomes_ready(pod)
    wait_until(lambda: vm.get().status.ready, "the VM is ready")
    return pod


def test_a_vm_starts_runs_and_is_ready(role, node, vm):
    vm.create()
    run(vm, node)
    status = vm.get().status
    assert (status.created, status.printable_status, status.run_strategy) == (True, "Running", "Always")
    vmi = node.vmi()
    assert vmi.status.node_name == "node-1"
    assert vmi.metadata.labels["kubevirt.io/nodeName"] == "node-1"
    assert [entry.phase for entry in vmi.status.phase_transition_timestamps] == ["Scheduling", "Scheduled", "Running"]
    ready = condition(vmi.status.conditions, "Ready")
    assert ready is not None
    assert ready.status == "True"


@pytest.fixture
def writes(monkeypatch: pytest.MonkeyPatch, either_server: EitherServer) -> list[str]:
    """What others than the admin write, events apart."""
    seen: list[str] = []
    send = RestEdge._send

    def counting(self, call, patience):
        if self is not either_server.admin._edge and call.method != "GET" and "/events" not in call.path:
            seen.append(f"{call.method} {call.path}")
        return send(self, call, patience)

    monkeypatch.setattr(RestEdge, "_send", counting)
    return seen


def test_the_controllers_share_of_a_start_is_seven_writes(writes, role, node, vm):
    vm.create()
    pod = node.pod()
    wait_until(vm.shows("Starting"), "the VM is starting")
    node.starts(pod)
    wait_until(lambda: node.vmi().status.phase == "Scheduled", "the VMI is handed over")
    node.becomes_ready(pod)
    counted = Counter(
        path.split("/namespaces/")[0].split("/")[0] + path.rpartition(node.namespace)[2]
        for path in writes
        # What the controller still does for others is not of this start.
        if f"/namespaces/{node.namespace}/" in path
    )
    # The eighth is the handler's: phase Running. Admission saves one more by putting the VM's finalizer on.
    assert counted == {
        "PATCH /virtualmachines/web": 1,
        "POST /virtualmachineinstances": 1,
        # What KubeVirt keeps of each start.
        "POST /controllerrevisions": 1,
        "PATCH /virtualmachines/web/status": 1,
        "POST /pods": 1,
        "PATCH /virtualmachineinstances/web": 2,
        f"PATCH /pods/{pod.metadata.name}/status": 1,
    }


def revisions(vm: Vm) -> dict[str, ControllerRevision]:
    return {found.metadata.name: found for found in vm.client.list(ControllerRevision, vm.namespace)}


def test_what_a_run_was_started_from_is_kept_under_the_name_that_its_vmi_says(role, node, vm):
    made = vm.create()
    run(vm, node)
    name = f"revision-start-vm-{made.metadata.uid}-{made.metadata.generation}"
    assert node.vmi().status.virtual_machine_revision_name == name
    (found,) = revisions(vm).values()
    stored = vm.client.request("GET", f"/apis/kubevirt.io/v1/namespaces/{vm.namespace}/virtualmachines/web")
    assert (found.metadata.name, found.revision, found.data["spec"]) == (name, 1, stored["spec"])
    status = vm.get().status
    assert (status.observed_generation, status.desired_generation) == (1, 1)


def test_what_a_run_was_started_from_may_lose_its_owner(role, node, vm):
    """As kube-controller-manager has it when the VM is deleted and its run is to stay: data must not change with it."""
    made = vm.create(note="what a shell reads: a && b <c >d")
    run(vm, node)
    (before,) = revisions(vm).values()
    path = ControllerRevision.KIND.path(vm.namespace, before.metadata.name)
    gone = {"metadata": {"ownerReferences": [{"$patch": "delete", "uid": made.metadata.uid}]}}
    vm.client.request("PATCH", path, gone, media_type="application/strategic-merge-patch+json")
    (after,) = revisions(vm).values()
    assert (after.metadata.owner_references, after.data) == ([], before.data)


def restart(vm: Vm, node: PlayedNode, earlier: Pod) -> VirtualMachineInstance:
    """Let the run end by itself and the next one start."""
    first = node.vmi()
    node.enters("Succeeded")
    node.ends(earlier)
    node.removes(earlier)
    wait_until(lambda: vm.runs_anew(first), "another run")
    return node.vmi()


def test_the_next_start_keeps_its_own_spec_and_no_older_one(role, node, vm):
    uid = vm.create().metadata.uid
    pod = run(vm, node)
    change = {"spec": {"template": {"spec": {"hostname": "other"}}}}
    vm.client.patch(VirtualMachine, vm.namespace, "web", MergePatch(change))
    wait_until(lambda: vm.get().status.desired_generation == 2, "the change is seen")
    assert (vm.get().status.observed_generation, sorted(revisions(vm))) == (1, [f"revision-start-vm-{uid}-1"])
    second = restart(vm, node, pod)
    assert second.status.virtual_machine_revision_name == f"revision-start-vm-{uid}-2"
    wait_until(lambda: sorted(revisions(vm)) == [f"revision-start-vm-{uid}-2"], "the newer one alone is kept")
    assert revisions(vm)[f"revision-start-vm-{uid}-2"].data["spec"]["template"]["spec"]["hostname"] == "other"
    wait_until(lambda: vm.get().status.observed_generation == 2, "the VM says what runs")


def test_a_start_from_the_same_spec_makes_no_other_revision(writes, role, node, vm):
    vm.create()
    pod = run(vm, node)
    (before,) = revisions(vm).values()
    restart(vm, node, pod)
    wait_until(lambda: len(node.pods()) == 1, "the next Pod")
    (after,) = revisions(vm).values()
    assert after.metadata.uid == before.metadata.uid
    assert sum("controllerrevisions" in write for write in writes) == 1


def test_a_revision_goes_with_its_vm(either_server, role, node, vm):
    if either_server.kind == "kube-apiserver":
        pytest.skip("kube-controller-manager collects it, which does not run beside this server")
    vm.create()
    pod = run(vm, node)
    assert len(revisions(vm)) == 1
    vm.client.delete(VirtualMachine, vm.namespace, "web")
    wait_until(lambda: node.pods()[0].metadata.deletion_timestamp, "the Pod is asked to end")
    node.enters("Succeeded")
    node.removes(pod)
    wait_until(lambda: vm.is_gone() and not revisions(vm), "everything is gone")


def test_a_server_that_refuses_the_revision_holds_no_guest_up(either_server, namespace, node, vm, monkeypatch):
    create = KubeClient.create

    def refusing(self, resource):
        if isinstance(resource, ControllerRevision):
            raise Forbidden(403, "Forbidden", "exceeded quota: count/controllerrevisions.apps")
        return create(self, resource)

    monkeypatch.setattr(KubeClient, "create", refusing)
    with controller(either_server):
        vm.create()
        run(vm, node)
        assert vm.get().status.printable_status == "Running"
        words = "Failed to create controller revision for VirtualMachine: exceeded quota"
        wait_until(
            lambda: any(event.message.startswith(words) for event in vm.client.list(Event, namespace)), "it is told"
        )


def test_a_controller_that_ends_in_the_middle_of_a_start_leaves_it_to_the_next(
    either_server, namespace, node, vm, monkeypatch
):
    create = KubeClient.create
    away = [True]

    def failing(self, resource):
        if isinstance(resource, ControllerRevision) and away[0]:
            raise Unavailable(503, "ServiceUnavailable", "the server is away")
        return create(self, resource)

    monkeypatch.setattr(KubeClient, "create", failing)
    with controller(either_server):
        vm.create()
        wait_until(lambda: not vm.has_no_run(), "the VMI is made")
    assert revisions(vm) == {}
    away[0] = False
    with controller(either_server):
        run(vm, node)
        assert len(revisions(vm)) == 1


def test_a_stop_deletes_the_vmi_ends_its_pod_and_stays_stopped(role, node, vm):
    vm.create()
    pod = run(vm, node)
    vm.set_strategy("Halted")
    wait_until(vm.shows("Stopping"), "the VM is stopping")
    wait_until(lambda: node.pods()[0].metadata.deletion_timestamp, "the Pod is asked to end")
    assert not vm.is_gone()
    node.enters("Succeeded")
    node.removes(pod)
    wait_until(vm.shows("Stopped"), "the VM is stopped")
    wait_until(vm.has_no_run, "the VMI is gone")
    wait_until(lambda: not vm.get().status.created, "the VM says so")
    ready = condition(vm.get().status.conditions, "Ready")
    assert ready is not None
    assert ready.reason == "VMINotExists"


def test_a_deleted_vm_takes_its_vmi_and_its_pod_along(role, node, vm):
    vm.create()
    pod = run(vm, node)
    vm.client.delete(VirtualMachine, vm.namespace, "web")
    wait_until(vm.shows("Terminating"), "the VM is going")
    wait_until(lambda: node.pods()[0].metadata.deletion_timestamp, "the Pod is asked to end")
    node.enters("Succeeded")
    node.removes(pod)
    wait_until(vm.is_gone, "everything is gone")


def test_a_guest_that_shuts_down_comes_back_as_another_run_with_the_same_identity(role, node, vm):
    vm.create()
    pod = run(vm, node)
    first = node.vmi()
    node.enters("Succeeded")
    node.ends(pod)
    node.removes(pod)
    wait_until(lambda: vm.runs_anew(first), "another run")
    second = node.vmi()
    assert first.spec.domain.firmware == second.spec.domain.firmware
    assert [pod.metadata.owner_references[0].uid for pod in wait_until(node.pods, "a Pod")] == [second.metadata.uid]


def test_a_vmi_that_a_user_deletes_is_replaced_when_its_pod_is_gone(role, node, vm):
    vm.create()
    pod = run(vm, node)
    first = node.vmi()
    vm.client.delete(VirtualMachineInstance, vm.namespace, "web")
    wait_until(lambda: node.pods()[0].metadata.deletion_timestamp, "the Pod is asked to end")
    assert node.vmi().metadata.uid == first.metadata.uid
    node.enters("Succeeded")
    node.removes(pod)
    wait_until(lambda: vm.runs_anew(first), "another run")


def test_a_run_that_never_ran_is_counted_and_waited_for(role, node, vm):
    vm.create()
    pod = node.pod()
    node.starts(pod)
    wait_until(lambda: node.vmi().status.phase == "Scheduled", "the VMI is handed over")
    node.enters("Failed")
    node.ends(pod, "Failed")
    node.removes(pod)
    wait_until(vm.shows("CrashLoopBackOff"), "the VM is in back-off")
    failure = vm.get().status.start_failure
    assert failure is not None
    assert failure.consecutive_fail_count == 1
    wait_until(vm.has_no_run, "the failed run is gone")
    assert vm.get().status.printable_status == "CrashLoopBackOff"


def test_an_image_that_cannot_be_pulled_shows_on_the_vm(role, node, vm):
    vm.create()
    node.waits(node.pod(), "ErrImagePull", "no such image: x")
    wait_until(vm.shows("ErrImagePull"), "the VM says so")
    found = condition(vm.get().status.conditions, "Synchronized")
    assert found is not None
    assert found.message == "no such image: x"
    selector = "reason=ErrImagePull"
    wait_until(lambda: vm.client.list(Event, vm.namespace, field_selector=selector), "and an event")


def test_manual_starts_and_stops_on_request_only(role, node, vm):
    vm.create("Manual")
    wait_until(vm.shows("Stopped"), "the VM is stopped")
    request = {"action": "Start", "data": {"paused": "true"}}
    body = MergePatch({"status": {"stateChangeRequests": [request]}})
    vm.client.patch(VirtualMachine, vm.namespace, "web", body, "status")
    run(vm, node)
    assert node.vmi().spec.start_strategy == "Paused"
    assert vm.get().status.state_change_requests == []
    stop = asked("Stop", node.vmi().metadata.uid)
    body = MergePatch({"status": {"stateChangeRequests": [{"action": stop.action, "uid": stop.uid}]}})
    vm.client.patch(VirtualMachine, vm.namespace, "web", body, "status")
    wait_until(vm.shows("Stopping"), "the VM is stopping")


def test_a_bare_vmi_is_adopted_by_a_vm_of_its_name(role, node, vm):
    vm.client.create(VirtualMachineInstance(metadata=ObjectMeta(name="web", namespace=vm.namespace)))
    pod = node.pod()
    created = vm.create()
    wait_until(lambda: node.vmi().metadata.controller_reference(), "it has an owner")
    owner = node.vmi().metadata.controller_reference()
    assert owner is not None
    assert owner.uid == created.metadata.uid
    assert node.pod().metadata.uid == pod.metadata.uid


def test_a_vm_deleted_with_orphan_leaves_its_guest_running(role, node, vm):
    vm.create()
    run(vm, node)
    vm.client.delete(VirtualMachine, vm.namespace, "web", propagation="Orphan")
    wait_until(lambda: "kubevirt.io/virtualMachineControllerFinalize" not in node.vmi().metadata.finalizers, "set free")
    assert node.vmi().metadata.deletion_timestamp is None
    assert node.pods()[0].metadata.deletion_timestamp is None


def test_a_finalizer_that_a_user_takes_off_a_vm_that_runs_comes_back(role, node, vm):
    vm.create()
    run(vm, node)
    vm.client.patch(VirtualMachine, vm.namespace, "web", MergePatch({"metadata": {"finalizers": []}}))
    wait_until(lambda: vm.get().metadata.finalizers, "the finalizer is there again")


def test_a_vmi_whose_vm_went_without_a_finalizer_stays_its_dependent(role, node, vm):
    vm.create()
    run(vm, node)
    # As `kubectl replace` does with a manifest that has none.
    vm.client.patch(VirtualMachine, vm.namespace, "web", MergePatch({"metadata": {"finalizers": []}}))
    vm.client.delete(VirtualMachine, vm.namespace, "web")

    def is_left_to_the_collector() -> bool:
        vmi = node.vmi()
        if vmi.metadata.deletion_timestamp is not None:
            return True
        bound = "kubevirt.io/virtualMachineControllerFinalize" in vmi.metadata.finalizers
        return not bound and vmi.metadata.controller_reference() is not None

    wait_until(is_left_to_the_collector, "the garbage collector can end the guest")


def test_a_pod_that_only_says_that_it_belongs_to_a_vmi_is_not_believed(role, node, vm):
    vm.create()
    run(vm, node)
    vmi = node.vmi()
    liar = Pod(
        metadata=ObjectMeta(
            name="liar",
            namespace=vm.namespace,
            labels={"kubevirt.io": "virt-launcher", "kubevirt.io/created-by": vmi.metadata.uid},
        ),
        spec=node.pod().spec,
    )
    liar.spec.node_name = ""
    vm.client.create(liar)
    vm.set_strategy("Halted")
    wait_until(vm.shows("Stopping"), "the VM is stopping")
    node.enters("Succeeded")
    node.removes(next(pod for pod in node.pods() if pod.metadata.name != "liar"))
    wait_until(vm.shows("Stopped"), "the VM is stopped, though the liar is still there")
    assert vm.client.get(Pod, vm.namespace, "liar").metadata.deletion_timestamp is None


STAGES = ["created", "pod", "started", "running", "stopping", "ended"]


@pytest.mark.parametrize("stage", STAGES)
def test_a_controller_that_is_replaced_at_any_stage_leaves_one_run_and_one_pod(either_server, node, vm, stage):
    def reached(name: str) -> None:
        nonlocal role
        if name == stage:
            role.__exit__(None, None, None)
            role = controller(either_server)
            role.__enter__()

    role = controller(either_server)
    role.__enter__()
    try:
        vm.create()
        reached("created")
        pod = node.pod()
        reached("pod")
        node.starts(pod)
        reached("started")
        node.runs()
        reached("running")
        node.becomes_ready(pod)
        wait_until(lambda: vm.get().status.ready, "the VM is ready")
        assert [item.metadata.uid for item in node.pods()] == [pod.metadata.uid]
        vm.set_strategy("Halted")
        reached("stopping")
        wait_until(lambda: node.pods()[0].metadata.deletion_timestamp, "the Pod is asked to end")
        node.enters("Succeeded")
        reached("ended")
        node.removes(pod)
        wait_until(vm.shows("Stopped"), "the VM is stopped")
        wait_until(vm.has_no_run, "the VMI is gone")
    finally:
        role.__exit__(None, None, None)

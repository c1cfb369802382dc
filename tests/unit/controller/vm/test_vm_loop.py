"""What the server does not take of a VM's pass: the run goes on, its VM's status says so, and it is tried again."""

from __future__ import annotations

from typing import Any
from unittest.mock import MagicMock

import pytest

from kvedge.controller.vm.vm_actions import PutBack, Rollout
from kvedge.controller.vm.vm_loop import VmLoop, VmSources
from kvedge.kube.errors import Conflict, Forbidden, KubeError, Unavailable
from kvedge.kube.kube_client import Preconditions
from kvedge.kube.patches import MergePatch, document
from kvedge.kube.work_queue import Key
from kvedge.resources.codec import decode, encode
from kvedge.resources.types.controller_revision import ControllerRevision
from kvedge.resources.types.data_volumes import DataVolume
from kvedge.resources.types.domain import DomainSpec
from kvedge.resources.types.vm import VirtualMachine
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.runtime.clock import SystemClock
from tests.support.builders import VM_UID, VMI_UID, a_vm, a_vmi, owned_by, patched
from tests.support.clocks import FakeClock

KEY = Key("default", "web")


class Known:
    """The cache of one object."""

    def __init__(self, item: Any) -> None:
        self.item = item

    def get(self, namespace: str, name: str) -> Any:
        return self.item

    def add_index(self, index: str, values: Any) -> None:
        self.index = (index, values)

    def observe(self, item: Any) -> None:
        self.item = item


class Server:
    """One VM, its VMI and its revisions; a client and its caches, and the loop that works with them."""

    def __init__(self) -> None:
        self.refusal: KubeError | None = None
        self.revisions: dict[str, ControllerRevision] = {}
        self.tries = 0
        self.deleted: list[tuple[str, Preconditions | None]] = []
        self.vms, self.vmis, self.volumes, self.events = Known(a_vm()), Known(None), Known(None), MagicMock()
        self.status_writes: list[Any] = []
        self.restart()

    def restart(self) -> None:
        """Another controller takes over."""
        sources = VmSources(
            self, self.vms, self.vmis, self.volumes, Known(None), Known(None), self.events, SystemClock()
        )  # type: ignore[arg-type]
        self.loop = VmLoop(sources)

    def create(self, made: Any) -> Any:
        if isinstance(made, VirtualMachineInstance):
            made.metadata.uid = VMI_UID
            return made
        assert isinstance(made, ControllerRevision)
        self.tries += 1
        if self.refusal is not None:
            raise self.refusal
        made.metadata.uid = f"uid-{made.metadata.name}"
        self.revisions[made.metadata.name] = made
        return made

    def patch(self, cls: type, namespace: str, name: str, patch: MergePatch, subresource: str = "") -> Any:
        body = document(patch)
        assert (cls, subresource) == (VirtualMachine, "status")
        assert isinstance(body, dict)
        self.status_writes.append(body["status"])
        return decode(VirtualMachine, patched(encode(self.vms.item), body))

    def delete(self, cls: type, namespace: str, name: str, preconditions: Preconditions | None = None) -> None:
        assert cls is ControllerRevision
        self.deleted.append((name, preconditions))
        self.revisions.pop(name, None)

    def starts(self, generation: int) -> None:
        """Another run, of that generation of the VM's spec; what the server refuses is left for another pass."""
        self.vmis.item = None
        self.vms.item.metadata.generation = generation
        self.goes_on()

    def goes_on(self) -> None:
        self.error: KubeError | None = None
        try:
            self.loop.reconcile(KEY)
        except KubeError as error:
            self.error = error

    def told(self) -> list[tuple[str, str]]:
        return [call.args[1:3] for call in self.events.record.call_args_list if call.args[1] == "Warning"]


def name(generation: int) -> str:
    return f"revision-start-vm-{VM_UID}-{generation}"


@pytest.mark.parametrize(
    "refusal",
    [
        *(Unavailable(code, "", "later") for code in (0, 408, 429, 503, 504)),
        Conflict(409, "Conflict", "the quota has changed"),
    ],
    ids=lambda refusal: str(refusal.status),
)
@pytest.mark.parametrize("restarts", [False, True])
def test_a_vm_says_that_it_starts_while_the_server_takes_no_revision(refusal: KubeError, restarts: bool) -> None:
    server = Server()
    server.refusal = refusal
    server.starts(1)
    assert server.error is refusal, "it is tried again, with a growing delay"
    assert (server.vms.item.status.created, server.vms.item.status.printable_status) == (True, "Starting")
    writes = len(server.status_writes)
    for _ in range(3):
        server.goes_on()
        assert server.error is refusal
    assert (server.tries, len(server.status_writes), server.told()) == (4, writes, [])
    if restarts:
        server.restart()
    server.refusal = None
    server.goes_on()
    assert server.error is None
    assert sorted(server.revisions) == [name(1)]
    assert server.vms.item.status.observed_generation == 1


def test_a_vm_whose_revision_is_refused_is_told_once_and_by_a_word_of_its_own() -> None:
    server = Server()
    server.refusal = Forbidden(403, "Forbidden", "exceeded quota")
    for generation in (1, 2, 3):
        server.starts(generation)
        assert server.error is None
        assert server.vms.item.status.observed_generation == generation
    assert (server.tries, server.told()) == (3, [("Warning", "FailedRevision")])
    server.refusal = None
    server.starts(4)
    server.refusal = Forbidden(403, "Forbidden", "exceeded quota")
    server.starts(5)
    assert len(server.told()) == 2, "that was another trouble"


@pytest.mark.parametrize("restarts", [False, True])
def test_the_revision_of_the_run_before_goes_only_while_it_is_the_one_that_was_made(restarts: bool) -> None:
    server = Server()
    server.starts(1)
    if restarts:
        server.restart()
    server.starts(2)
    # Who did not make it may not read it either.
    wanted = None if restarts else Preconditions(f"uid-{name(1)}")
    assert (server.deleted, sorted(server.revisions)) == ([(name(1), wanted)], [name(2)])


def test_a_vm_does_not_run_on_the_dying_disk_of_an_earlier_vm_of_its_name():
    server = Server()
    changed = encode(server.vms.item)
    changed["spec"]["dataVolumeTemplates"] = [{"metadata": {"name": "root"}, "spec": {"source": {"blank": {}}}}]
    server.vms.item = decode(VirtualMachine, changed)
    owner = owned_by("VirtualMachine", "web", "earlier")
    meta = {"name": "root", "namespace": "default", "uid": "dv", "ownerReferences": [owner]}
    server.volumes.item = decode(DataVolume, {"metadata": meta, "spec": {}})
    again = server.loop.reconcile(KEY)
    assert again is not None
    assert server.vmis.item is None
    messages = [item.message for item in server.vms.item.status.conditions if item.type == "Failure"]
    (message,) = messages
    assert message.startswith("DataVolume root belongs to VirtualMachine web (UID earlier): give")
    server.volumes.item.metadata.owner_references = []
    server.loop.reconcile(KEY)
    assert server.vmis.item is not None


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (Forbidden(403, "Forbidden", "no"), [("Warning", "FailedVolumesPutBack")]),
        (Conflict(409, "Conflict", "has changed"), []),
        (Unavailable(503, "", "later"), []),
    ],
)
def test_a_vm_hears_why_its_claims_are_not_put_back(error: KubeError, told: list[tuple[str, str]]) -> None:
    server = Server()
    server.patch = MagicMock(side_effect=error)  # type: ignore[method-assign]
    with pytest.raises(type(error)):
        server.loop._do(server.vms.item, PutBack({"spec": {}}))
    assert server.told() == told


def on_claim(vm: VirtualMachine, claim: str) -> VirtualMachine:
    """The VM with one volume more."""
    changed = encode(vm)
    guest = changed["spec"]["template"]["spec"]
    guest["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]
    return decode(VirtualMachine, changed)


def test_a_vm_hears_which_claims_are_left_once_its_own_are_put_back() -> None:
    server = Server()
    vm = on_claim(server.vms.item, "new")
    server.patch = MagicMock(return_value=on_claim(vm, "old"))  # type: ignore[method-assign]
    server.loop._do(vm, PutBack({"spec": {}}))
    assert server.told() == [("Warning", "VolumesPutBack")]
    text = server.events.record.call_args.args[3]
    assert "new has at most an unfinished copy: delete it unless you need it" in text


def test_a_mark_of_room_that_is_refused_is_tried_with_pauses_that_grow() -> None:
    vm = a_vm(created=True, ready=False)
    vmi = a_vmi("Running", owner=vm)
    vmi.spec.domain = decode(DomainSpec, {"cpu": {"sockets": 1, "maxSockets": 4}})
    tries: list[Any] = []

    class Refusing(Server):
        def patch(self, cls: type, namespace: str, name: str, patch: MergePatch, subresource: str = "") -> Any:
            body: Any = document(patch)
            if subresource:
                return super().patch(cls, namespace, name, patch, subresource)
            tries.append(body["spec"])
            raise Forbidden(403, "Forbidden", "no edits of this VM")

    server = Refusing()
    clock = FakeClock()
    server.vms.item, server.vmis.item = vm, vmi
    sources = VmSources(
        server,  # type: ignore[arg-type]
        *(server.vms, server.vmis, server.volumes, Known(None), Known(None)),  # type: ignore[arg-type]
        server.events,
        clock,
        rollout=lambda: Rollout(is_live=True, is_said=True),
    )
    server.loop = VmLoop(sources)
    pauses = []
    for _ in range(8):
        again = server.loop.reconcile(KEY)
        assert again is not None
        assert server.loop.reconcile(KEY) is not None, "its time has not come"
        (failure,) = [each for each in server.vms.item.status.conditions if each.type == "Failure"]
        assert failure.reason == "MachineMarksError"
        assert "no edits of this VM" in failure.message
        pauses.append(again.after)
        clock.seconds += again.after
    assert len(tries) == 8
    assert pauses[-1] > 10 * pauses[0]
    assert ("Warning", "MachineMarksError") in server.told()

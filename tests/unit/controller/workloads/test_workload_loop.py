"""What the loop of updates asks of the server, what it tells, and what wakes it."""

from __future__ import annotations

import copy
from typing import Any
from unittest.mock import MagicMock

import pytest

from kvedge.controller.workloads.workload_loop import WorkloadLoop, WorkloadSources
from kvedge.kube.errors import Forbidden, KubeError, NotFound, Unavailable
from kvedge.kube.patches import MergePatch
from kvedge.kube.reconcile_loop import Again
from kvedge.kube.work_queue import Key
from kvedge.resources.configuration.configuration import Configuration, WorkloadUpdates
from kvedge.resources.meta import ObjectMeta
from kvedge.resources.types.kubevirt import KubeVirt, KubeVirtStatus
from kvedge.resources.types.migrations import VirtualMachineInstanceMigration
from kvedge.resources.types.vmi import VirtualMachineInstance
from tests.support.builders import a_pod
from tests.support.clocks import FakeClock
from tests.support.fed_cache import FedCache
from tests.unit.controller.workloads.test_update_plan import BOTH, CAN, CANNOT, CHANGES, NEW, a_guest, a_migration

KEY = Key("", "workloads")


class World:
    """The caches, and a server that takes what is asked or refuses it by the VMI's name."""

    def __init__(self) -> None:
        self.migrations, self.vmis, self.pods, self.nodes = FedCache(), FedCache(), FedCache(), FedCache()
        self.informer, self.current = FedCache(), Configuration(workload_updates=BOTH)
        self.events, self.clock = MagicMock(), FakeClock()
        self.refuse: dict[str, KubeError] = {}
        self.asked: list[tuple[str, str]] = []
        sources: Any = WorkloadSources(
            self,  # type: ignore[arg-type]
            self.migrations,  # type: ignore[arg-type]
            self.vmis,  # type: ignore[arg-type]
            self.pods,  # type: ignore[arg-type]
            self.nodes,  # type: ignore[arg-type]
            self,  # type: ignore[arg-type]
            self.events,
            self.clock,
            NEW,
            lambda: {"node-1": NEW, "node-2": NEW},
        )
        self.loop = WorkloadLoop(sources)
        self.informer.feed(
            KubeVirt(metadata=ObjectMeta(name="kubevirt", namespace="s"), status=KubeVirtStatus(phase="Deployed"))
        )

    def create(self, migration: VirtualMachineInstanceMigration) -> VirtualMachineInstanceMigration:
        self._ask("create", migration.spec.vmi_name)
        made = copy.deepcopy(migration)
        made.metadata.name = f"{migration.metadata.generate_name}{len(self.asked)}"
        made.metadata.uid, made.metadata.resource_version = f"made-{len(self.asked)}", "1000"
        return made

    def delete(self, kind: Any, namespace: str, name: str, preconditions: Any) -> None:
        assert kind is VirtualMachineInstanceMigration
        self._ask("delete", preconditions.uid)

    def patch(self, kind: Any, namespace: str, name: str, patch: MergePatch) -> VirtualMachineInstance:
        if (error := self.refuse.get(f"label of {name}")) is not None:
            raise error
        self._ask("label", name)
        changed: VirtualMachineInstance = copy.deepcopy(self.vmis.get(namespace, name))  # type: ignore[attr-defined]
        assert patch.body["metadata"]["uid"] == changed.metadata.uid
        merged = {**changed.metadata.labels, **patch.body["metadata"]["labels"]}
        changed.metadata.labels = {name: value for name, value in merged.items() if value is not None}
        changed.metadata.resource_version = "1000"
        return changed

    def request(self, method: str, path: str, body: Any) -> None:
        assert (method, body["kind"]) == ("POST", "Eviction")
        assert path == f"/api/v1/namespaces/default/pods/{body['metadata']['name']}/eviction"
        assert body["deleteOptions"]["preconditions"]["uid"]
        self._ask("evict", body["metadata"]["name"])

    def feed(self, name: str, *conditions: dict[str, str], **more: Any) -> VirtualMachineInstance:
        vmi = a_guest(name, *conditions, **more).vmi
        self.vmis.feed(vmi)
        pod = a_pod(vmi, "Running", "node-1")
        pod.metadata.name, pod.metadata.uid = f"pod-{name}", f"pod-uid-{name}"
        vmi.status.active_pods = {pod.metadata.uid: "node-1"}
        self.vmis.feed(vmi)
        self.pods.feed(pod)
        return vmi

    def turn(self) -> Again | None:
        return self.loop.reconcile(KEY)

    def told(self) -> list[tuple[str, str]]:
        return [(call.args[2], call.args[3]) for call in self.events.record.call_args_list]

    def is_awake(self) -> bool:
        """Whether a pass is due soon, which is forgotten."""
        return self.loop.loop.queue._due.pop(KEY, None) is not None

    def _ask(self, what: str, name: str) -> None:
        if (error := self.refuse.get(name)) is not None:
            raise error
        self.asked.append((what, name))


@pytest.fixture
def world() -> World:
    return World()


def test_a_guest_gets_one_migration_however_late_the_watch_is(world: World) -> None:
    world.feed("a")
    assert world.turn() == Again(30.0)
    world.turn()
    assert world.asked == [("create", "a")]
    text = "Created Migration kubevirt-workload-update-1 for automated workload update"
    assert world.told() == [("SuccessfulCreate", text)]


def test_a_guest_that_is_refused_keeps_no_other_from_moving(world: World) -> None:
    world.refuse = {
        "a": Forbidden(403, "Forbidden", "no"),
        "b": Unavailable(503, "", "busy"),
        "c": NotFound(404, "NotFound", "namespace"),
    }
    for name in ("a", "b", "c", "d"):
        world.feed(name)
    with pytest.raises(Forbidden):
        world.turn()
    assert world.asked == [("create", "d")]
    assert [reason for reason, _ in world.told()] == ["FailedCreate", "SuccessfulCreate"]


def test_guests_that_cannot_move_are_evicted_in_batches_and_one_that_is_refused_is_told(world: World) -> None:
    world.current = Configuration(workload_updates=WorkloadUpdates(False, True, 2, 60.0))
    world.refuse = {"pod-a": KubeError(429, "TooManyRequests", "disruption budget"), "pod-b": NotFound(404, "", "")}
    for name in ("a", "b", "c"):
        world.feed(name, CANNOT)
    assert world.turn() == Again(30.0)
    assert (world.asked, [reason for reason, _ in world.told()]) == ([], ["FailedEvict"])
    assert "disruption budget" in world.told()[0][1]
    world.turn()
    assert world.asked == []
    world.clock.seconds += 60
    world.turn()
    # Those that were tried come after the one that was not.
    assert world.asked == [("evict", "pod-c")]


def test_the_label_is_written_once_and_a_refused_one_holds_up_nothing(world: World) -> None:
    world.refuse = {"label of c": Unavailable(503, "", "busy")}
    world.feed("a", labels={})
    world.feed("c", version=NEW, labels={"kubevirt.io/outdatedLauncherImage": ""})
    world.feed("b", version=NEW, labels={"kubevirt.io/outdatedLauncherImage": ""})
    world.turn()
    assert world.asked == [("label", "a"), ("label", "b"), ("create", "a")]
    world.refuse.clear()
    world.turn()
    world.turn()
    assert world.asked[3:] == [("label", "c")]


def test_a_change_that_is_withdrawn_has_its_migration_deleted(world: World) -> None:
    vmi = world.feed("web", CAN, CHANGES, version=NEW)
    world.migrations.feed(a_migration("Scheduling", 1, disks=True))
    world.turn()
    assert world.asked == []
    vmi.status.conditions = vmi.status.conditions[:1]
    world.vmis.feed(vmi)
    world.refuse = {"web-1": Unavailable(503, "", "busy")}
    with pytest.raises(Unavailable):
        world.turn()
    world.refuse.clear()
    world.turn()
    assert world.asked == [("delete", "web-1")]
    assert world.told()[-1] == ("SuccessfulChangeAbortion", "Aborted change for vmi: web")


def test_what_the_kubevirt_object_tells_is_handed_on_when_it_changes(world: World) -> None:
    told: list[str] = []

    def note() -> None:
        found = world.loop.read_report()
        assert found is not None
        told.append(found.reason)

    world.loop.on_report(note)
    assert world.loop.read_report() is None
    world.turn()
    world.turn()
    world.feed("a")
    world.turn()
    assert told == ["UpToDate", "Updating"]


def test_a_user_is_told_once_of_a_failure_that_is_waited_for(world: World) -> None:
    world.feed("web")
    failed = a_migration("Failed", 0)
    moment = "2026-05-01T00:00:00Z"
    failed.metadata.creation_timestamp = moment
    failed.status.phase_transition_timestamps[0].phase_transition_timestamp = moment
    world.migrations.feed(failed)
    assert [world.turn(), world.turn()] == [Again(20.0), Again(20.0)]
    assert world.told() == [("MigrationBackoff", "backoff migrating vmi default/web")]


def test_only_what_matters_wakes_the_loop(world: World) -> None:
    vmi = world.feed("web")
    assert world.is_awake()
    vmi.status.qos_class = "Burstable"
    world.vmis.feed(vmi)
    assert not world.is_awake()
    vmi.metadata.annotations["kvedge.io/launcher-version"] = NEW
    world.vmis.feed(vmi)
    assert world.is_awake()
    world.migrations.feed(a_migration("Running", 1))
    assert not world.is_awake()
    world.migrations.feed(a_migration("Succeeded", 1))
    assert world.is_awake()
    pod = a_pod(vmi, "Succeeded", "node-1")
    world.pods.feed(pod)
    assert world.is_awake()
    world.vmis.feed(vmi, gone=True)
    assert world.is_awake()

"""A VM moves from one box to another: both APIs, controllers, api roles, the relay and the command are real.

The Pods and the launchers are played, and what handlers do for them; their words go over the wire, and are written
under the rights of each one's handler alone.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from kvedge import __version__
from kvedge.api.api_service import ApiRole
from kvedge.cli.progress import Progress
from kvedge.client.boxes.box_move import BoxMove, begin, forget
from kvedge.client.boxes.move_wait import wait_until_moved
from kvedge.client.errors import ClientError, RefusedError
from kvedge.client.kubeconfigs import load_kubeconfigs
from kvedge.client.session import Session, connect
from kvedge.controller.controller_service import ControllerRole
from kvedge.handler.launchers.relay_service import RelayConfig, RelayService
from kvedge.handler.migration.crossing_desk import CrossingDesk
from kvedge.handler.migration.crossing_line import CrossingLine
from kvedge.handler.migration.crossing_source import CrossingSource
from kvedge.handler.migration.crossing_target import CrossingTarget
from kvedge.handler.migration.crossing_words import moved_patch, taken_patch
from kvedge.handler.migration.incoming_channels import IncomingChannels
from kvedge.handler.migration.migration_patches import adoption_patch, stay_patch
from kvedge.handler.migration.outgoing_service import OutgoingService
from kvedge.kube.errors import Conflict, KubeError, NotFound
from kvedge.kube.events import EventRecorder
from kvedge.kube.kube_client import KubeClient
from kvedge.kube.patches import MergePatch
from kvedge.resources.codec import JsonObject
from kvedge.resources.meta import ObjectMeta
from kvedge.resources.moves.crossing import MOVED_TO, MOVES_TO
from kvedge.resources.names import SCHEDULABLE, VERSION
from kvedge.resources.role_users import (
    API_GROUP,
    API_USER,
    CONTROLLER_GROUP,
    CONTROLLER_USER,
    HANDLER_GROUP,
    handler_user,
)
from kvedge.resources.types.core import Node
from kvedge.resources.types.migrations import MIGRATION_JOB_UID, MigrationState, VirtualMachineInstanceMigration
from kvedge.resources.types.vm import VirtualMachine
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.runtime.clock import SystemClock
from tests.contract.controller.played_node import NODE, PlayedNode
from tests.contract.guest_move import now, state
from tests.support.builders import CONFIG, small_vmi, vm_of
from tests.support.echo_door import EchoDoor
from tests.support.either_server import EMBEDDED, EitherServer, running
from tests.support.waiting import wait_until

pytestmark = pytest.mark.contract
KEY = ("default", "web")
_START = "/apis/subresources.kubevirt.io/v1/namespaces/default/virtualmachines/web/start"


@dataclass
class PlayedBox:
    """One box; its handler speaks with the other's, and writes as it may."""

    server: EitherServer
    node: PlayedNode
    handler: KubeClient
    relay: RelayService
    desk: CrossingDesk
    outgoing: OutgoingService
    source: CrossingSource
    target: CrossingTarget

    @property
    def session(self) -> Session:
        return connect(load_kubeconfigs((self.server.kubeconfig,), None), "default")

    @property
    def vmi(self) -> VirtualMachineInstance:
        return self.node.vmi()

    @property
    def vm(self) -> VirtualMachine:
        return self.server.admin.get(VirtualMachine, *KEY)

    @property
    def state(self) -> MigrationState:
        found = self.vmi.status.migration_state
        assert found is not None
        return found

    def write(self, patch: MergePatch | dict[str, Any]) -> None:
        made = patch if isinstance(patch, MergePatch) else MergePatch(patch)
        self.handler.patch(VirtualMachineInstance, *KEY, made)

    def write_at_version(self, make: Callable[[VirtualMachineInstance, datetime], MergePatch]) -> None:
        """What a handler writes of the version that it has read: again, when the controller was faster."""

        def written() -> bool:
            with contextlib.suppress(Conflict):
                self.write(make(self.vmi, SystemClock().now()))
                return True
            return False

        wait_until(written, "the handler writes the version that it has read")

    def speaks(self) -> None:
        """One pass of its handler: what it hears it writes down."""
        with contextlib.suppress(Conflict, NotFound):
            vmi = self.vmi
            found = vmi.status.migration_state
            if found is None:
                return
            if found.target_state is not None:
                patch = self.source.converse(KEY, vmi, found)
            elif vmi.status.node_name:
                patch = self.target.tell_arrived(KEY, vmi)
            else:
                patch = self.target.listen(KEY, vmi, found)
            if patch is not None:
                self.write(patch)

    def half(self) -> VirtualMachineInstanceMigration:
        (found,) = self.server.admin.list(VirtualMachineInstanceMigration, "default")
        return found


@contextlib.contextmanager
def played_box(directory: Path) -> Iterator[PlayedBox]:
    with running(EMBEDDED, directory) as server, contextlib.ExitStack() as ends:
        labels, annotations = {SCHEDULABLE: "true"}, {VERSION: __version__}
        server.admin.create(Node(metadata=ObjectMeta(name=NODE, labels=labels, annotations=annotations)))
        api = ApiRole(server.kubeconfig_of(API_USER, API_GROUP), "127.0.0.1:0")
        controller = ControllerRole(
            server.kubeconfig_of(CONTROLLER_USER, CONTROLLER_GROUP), CONFIG, leader_election=False
        )
        handler = KubeClient.from_kubeconfig(server.kubeconfig_of(handler_user(NODE), HANDLER_GROUP))
        desk = CrossingDesk(lambda _: None, lambda: relay.look_soon())
        channels = IncomingChannels(directory, desk)
        config = RelayConfig(NODE, crossing_port=0)
        relay = RelayService(handler, config, EchoDoor(), migrations=channels, crosses=lambda: desk.is_open)
        outgoing = OutgoingService(handler, NODE, directory)
        events = EventRecorder(handler, "virt-handler", NODE)
        line = CrossingLine(handler, outgoing.begin, lambda _: None, SystemClock())
        for part in (api, controller, events, relay, outgoing):
            part.start()
            ends.callback(part.stop)
        wait_until(lambda: is_served(server.admin), "the webhooks and the aggregated API answer")
        yield PlayedBox(
            server,
            PlayedNode(server, "default"),
            handler,
            relay,
            desk,
            outgoing,
            CrossingSource(line, events),
            CrossingTarget(desk, NODE, SystemClock()),
        )


def is_served(admin: KubeClient) -> bool:
    try:
        admin.request("GET", "/apis/subresources.kubevirt.io/v1/version")
        made = admin.request("POST", VirtualMachine.KIND.path("default"), web("Halted"), {"dryRun": "All"})
    except KubeError:
        return False
    return bool(made["metadata"].get("finalizers"))


@pytest.fixture
def boxes(tmp_path: Path) -> Iterator[tuple[PlayedBox, PlayedBox]]:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    with played_box(tmp_path / "one") as one, played_box(tmp_path / "two") as two:
        yield one, two


def web(strategy: str) -> JsonObject:
    """The VM."""
    made = vm_of(small_vmi(), runStrategy=strategy)
    made["metadata"]["name"] = "web"
    return made


def start_guest(box: PlayedBox) -> None:
    """A running guest that can move."""
    vm = web("Always")
    box.server.admin.request("POST", VirtualMachine.KIND.path("default"), vm)
    pod = box.node.pod()
    box.node.starts(pod)
    wait_until(lambda: box.vmi.status.phase == "Scheduled", "the VMI is handed over")
    can = {"type": "StorageLiveMigratable", "status": "True"}
    box.write({"status": {"phase": "Running", "conditions": [can]}})


def begin_move(one: PlayedBox, two: PlayedBox) -> BoxMove:
    """As `kvedge migrate --to` does; the target's Pod starts meanwhile."""
    made: list[Any] = []

    def run() -> None:
        try:
            place = "127.0.0.1:1"
            options: dict[str, Any] = {"storage_class": None, "progress": Progress, "dry_run": False}
            made.append(begin(one.session, two.session, "web", place, **options))
        except (ClientError, KubeError) as error:
            made.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    coming = wait_until(
        lambda: made or next((pod for pod in two.node.pods() if MIGRATION_JOB_UID in pod.metadata.labels), None),
        "the target's Pod",
        60,
    )
    assert not made, made
    two.node.starts(coming)
    thread.join(60)
    assert isinstance(made[0], BoxMove), made
    return made[0]


def find_each_other(one: PlayedBox, two: PlayedBox) -> None:
    """The target listens on a port of its own here: the source is told where."""
    two.speaks()
    port = wait_until(lambda: two.relay.crossing_address, "the target listens").rpartition(":")[2]
    wait_until(lambda: one.vmi.status.migration_state, "the source's migration is handed over", 30)
    address = {"targetState": {"syncAddress": f"127.0.0.1:{port}"}}
    controller = KubeClient.from_kubeconfig(one.server.kubeconfig_of(CONTROLLER_USER, CONTROLLER_GROUP))
    controller.patch(VirtualMachineInstance, *KEY, MergePatch({"status": {"migrationState": address}}))
    controller.close()


def talk(one: PlayedBox, two: PlayedBox, until: Any, what: str) -> None:
    def once() -> Any:
        one.speaks()
        two.speaks()
        return until()

    wait_until(once, what, 30)


def test_a_vm_moves_between_boxes_that_know_nothing_of_each_other(boxes: tuple[PlayedBox, PlayedBox]) -> None:
    one, two = boxes
    start_guest(one)
    firmware = one.vmi.spec.domain.firmware
    move = begin_move(one, two)
    assert two.vmi.status.phase == "WaitingForSync"
    assert two.vmi.spec.domain.firmware == firmware
    assert two.vm.status.printable_status == "WaitingForReceiver"
    find_each_other(one, two)
    assert one.vm.metadata.annotations[MOVES_TO] == "127.0.0.1"
    talk(one, two, lambda: two.state.source_state and two.state.source_state.node, "the target hears the source")
    assert one.state.target_node_address == ""
    two.write(state(targetNodeAddress="anywhere:1"))
    talk(one, two, lambda: one.state.target_node_address, "the source hears that its guest may come")
    one.write(state(startTimestamp=now(), mode="PreCopy"))
    talk(one, two, lambda: two.state.start_timestamp, "the target hears that it has begun")
    assert one.state.target_taken_timestamp is None
    one.write(state(sourceNodeDomainGoneTimestamp=now()))
    (leaving,) = one.node.pods()
    one.node.reports(leaving, "Succeeded", {"compute": {"terminated": {"exitCode": 0}}})
    talk(one, two, lambda: two.state.source_node_domain_gone_timestamp, "the target hears that it has left")
    # Neither runs: the target has not taken it yet, and nothing here ends or starts anything.
    assert one.vmi.status.phase == "Running"
    assert one.vm.run_strategy == "Always"
    two.write_at_version(taken_patch)
    talk(one, two, lambda: one.state.target_taken_timestamp, "the source hears that it is taken")
    two.write_at_version(lambda vmi, now: adoption_patch(vmi, NODE, now))
    one.speaks()
    one.write_at_version(moved_patch)
    assert wait_until_moved(move, 15, Progress).startswith("VM web moved to 127.0.0.1")
    wait_until(lambda: one.vm.run_strategy == "Halted", "the VM is halted here")
    assert one.vm.metadata.annotations[MOVED_TO] == "127.0.0.1"
    assert two.vm.run_strategy == "Always"
    talk(one, two, lambda: not two.desk.is_open, "the target answers no more")
    wait_until(lambda: two.half().status.phase == "Succeeded", "the target's half has succeeded")
    one.node.removes(leaving)
    wait_until(lambda: is_gone(one), "nothing of the run is left here")
    with pytest.raises(KubeError, match=r"it has moved to 127\.0\.0\.1"):
        one.server.admin.request("PUT", _START, {})
    # Whoever gets past that starts nothing either.
    one.server.admin.patch(VirtualMachine, *KEY, MergePatch({"spec": {"runStrategy": "Always"}}))
    wait_until(lambda: any("moved to" in each.message for each in one.vm.status.conditions), "it says why")
    assert is_gone(one)
    assert forget(one.session, "web")
    wait_until(lambda: not is_gone(one), "it starts once its user says so")


def is_gone(box: PlayedBox) -> bool:
    return not uid_of(box)


def uid_of(box: PlayedBox) -> str:
    """That of the box's VMI; empty while there is none."""
    try:
        return box.vmi.metadata.uid
    except NotFound:
        return ""


def test_a_guest_that_stays_frees_its_vm_and_leaves_nothing_there(boxes: tuple[PlayedBox, PlayedBox]) -> None:
    one, two = boxes
    start_guest(one)
    move = begin_move(one, two)
    find_each_other(one, two)
    talk(one, two, lambda: two.state.source_state and two.state.source_state.node, "the target hears the source")
    half = one.half().metadata
    one.server.admin.delete(VirtualMachineInstanceMigration, "default", half.name)
    wait_until(lambda: one.state.abort_requested, "its cancel is asked for")
    one.write_at_version(lambda vmi, now: stay_patch(vmi, "canceled", "Succeeded", now))
    talk(one, two, lambda: two.state.failed, "the target hears that it stays")
    wait_until(lambda: MOVES_TO not in one.vm.metadata.annotations, "its VM is free")
    assert one.vmi.status.phase == "Running"
    wait_until(lambda: two.half().status.phase == "Failed", "the target's half has failed")
    assert two.vmi.status.phase == "WaitingForSync"
    assert two.vmi.status.node_name == ""
    assert move.host == "127.0.0.1"


def test_a_guest_that_left_for_a_box_which_is_lost_starts_anew_only_by_its_users_word(
    boxes: tuple[PlayedBox, PlayedBox],
) -> None:
    one, two = boxes
    start_guest(one)
    before = one.vmi.metadata.uid
    begin_move(one, two)
    find_each_other(one, two)
    with pytest.raises(RefusedError, match="has not left yet"):
        forget(one.session, "web")
    one.write(state(targetNodeAddress="anywhere:1"))
    one.write(state(startTimestamp=now(), mode="PreCopy"))
    one.write(state(sourceNodeDomainGoneTimestamp=now()))
    (leaving,) = one.node.pods()
    one.node.reports(leaving, "Succeeded", {"compute": {"terminated": {"exitCode": 0}}})
    wait_until(lambda: one.half().status.phase == "Running", "it is under way")
    assert one.vmi.status.phase == "Running"
    assert forget(one.session, "web")
    wait_until(lambda: uid_of(one) not in ("", before), "the guest starts anew", 60)
    assert MOVES_TO not in one.vm.metadata.annotations


def test_nothing_is_made_where_a_vm_cannot_go(boxes: tuple[PlayedBox, PlayedBox]) -> None:
    one, two = boxes
    start_guest(one)
    two.server.admin.request("POST", VirtualMachine.KIND.path("default"), web("Halted"))
    options: dict[str, Any] = {"storage_class": None, "progress": Progress, "dry_run": False}
    with pytest.raises(RefusedError, match="the target has a VirtualMachine web already"):
        begin(one.session, two.session, "web", "192.0.2.1:1", **options)
    assert one.server.admin.list(VirtualMachineInstanceMigration, "default") == []
    assert MOVES_TO not in one.vm.metadata.annotations


def test_a_vm_whose_old_box_is_lost_midway_is_taken_away_by_its_users_word(
    boxes: tuple[PlayedBox, PlayedBox],
) -> None:
    one, two = boxes
    start_guest(one)
    begin_move(one, two)
    find_each_other(one, two)
    talk(one, two, lambda: two.state.source_state and two.state.source_state.node, "the target hears the source")
    two.write(state(targetNodeAddress="anywhere:1", targetNodeDomainDetected=True))
    # One that has left there is about to run here.
    two.write(state(sourceNodeDomainGoneTimestamp=now()))
    with pytest.raises(RefusedError, match="runs here, or is about to"):
        forget(two.session, "web")
    two.write(state(sourceNodeDomainGoneTimestamp=None))
    # From here on nothing is heard of it.
    assert two.vmi.metadata.deletion_timestamp is None
    assert two.vmi.status.phase == "WaitingForSync"
    assert "awaits its guest no more" in forget(two.session, "web")
    for pod in two.node.pods():
        two.node.reports(pod, "Failed", {"compute": {"terminated": {"exitCode": 1}}})
        two.node.removes(pod)
    wait_until(lambda: is_gone(two), "nothing awaits the guest any more", 60)
    wait_until(lambda: not two.server.admin.list(VirtualMachine, "default"), "nor is there its VM", 60)

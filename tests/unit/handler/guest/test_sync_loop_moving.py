# Tests: kvedge/handler/guest/sync_loop.py, kvedge/handler/guest/launcher_sync.py
"""What the sync loop makes of guests that leave its node, and of those that are to come."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import grpc
import pytest

from kvedge.handler.guest.guest_network import PreparedNic, Resolver
from kvedge.handler.guest.moving_guests import Mobility
from kvedge.handler.guest.vmi_status import GuestNic
from kvedge.handler.launchers.launcher_connections import LauncherCallError
from kvedge.handler.migration.incoming_channels import IncomingChannels
from kvedge.handler.volumes.hotplug_plan import HotplugSeen, plan_hand_over
from kvedge.handler.volumes.hotplug_volumes import HotplugVolumes
from kvedge.resources.codec import decode, decode_json, encode
from kvedge.resources.configuration.configuration import BindingPlugin
from kvedge.resources.disks.volume_facts import claim_of
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.resources.types.volumes import Volume
from kvedge.rpc import launcher_pb2 as pb
from tests.support.builders import vmi_of
from tests.support.migration_world import (
    ADDRESS,
    HERE,
    KEY,
    THERE,
    UID,
    Cache,
    Launcher,
    Server,
    Ways,
    coming,
    copying_vmi,
    leaving,
    moving_vmi,
)
from tests.unit.handler.guest.sync_loops import a_sync_loop

BEGUN = {"targetNodeAddress": ADDRESS, "startTimestamp": "2026-05-01T00:00:00Z"}
MAC = "02:00:00:00:00:07"


class Network:
    """What was made in Pods, by the VMI's UID, and what was forgotten."""

    def __init__(self) -> None:
        self.plugins: dict[str, BindingPlugin] = {}
        self.made: list[str] = []
        self.forgotten: list[str] = []

    def resolver(self, _launcher: object) -> Resolver:
        return Resolver(("10.0.0.53",))

    def prepare(self, vmi: VirtualMachineInstance, *_: object) -> list[PreparedNic]:
        self.made.append(vmi.metadata.uid)
        return [PreparedNic(pb.GuestInterface(name="default", mac=MAC), GuestNic("default", MAC, (), "eth0"))]

    def introduce_routers(self, *_: object) -> None:
        """No NIC here has IPv6."""

    def forget(self, uid: str) -> None:
        self.forgotten.append(uid)


class Connected(Launcher):
    """A launcher whose process can be held."""

    @contextlib.contextmanager
    def launcher(self, _key: object) -> Iterator[object]:
        yield SimpleNamespace(pid=1)

    def note(self, *_: object) -> None:
        """Steps of a start are of no matter here."""

    def pod_uid(self, _key: object) -> str:
        return "pod-b"


class Node:
    """A sync loop of one node, and what it works on."""

    def __init__(
        self,
        node: str,
        vmi: VirtualMachineInstance,
        status: pb.DomainStatus | None,
        volumes: object = HotplugVolumes(Path("/nowhere")),
    ) -> None:
        self.server, self.launcher, self.network = Server(vmi), Connected(status), Network()
        self.own = Cache(vmi if vmi.status.node_name == node else None)
        self.coming = Cache(vmi if vmi.status.node_name != node else None)
        self.incoming, self.said = IncomingChannels(Path("/nowhere")), list[tuple[str, str]]()
        self.loop = a_sync_loop(
            vmis=self.own,
            connections=self.launcher,
            network=self.network,
            volumes=volumes,
            patch=self.server.patch,
            said=self.said,
            mobility=Mobility(self.coming, self.incoming, Ways(), lambda: ADDRESS),  # type: ignore[arg-type]
            node=node,
        )


def bridged(vmi: VirtualMachineInstance) -> VirtualMachineInstance:
    document = encode(vmi)
    nic = {"name": "default", "bridge": {}, "macAddress": MAC}
    document["spec"]["domain"]["devices"]["interfaces"] = [nic]
    document["spec"]["networks"] = [{"name": "default", "pod": {}}]
    return vmi_of(document)


def test_a_guest_that_has_left_is_written_down_and_then_not_cared_for() -> None:
    at = Node(HERE, moving_vmi(**BEGUN), leaving(pb.OUTGOING_GONE))
    at.launcher.answers["Delete"] = lambda: leaving(pb.OUTGOING_GONE)
    assert at.loop.reconcile(KEY).after == 0.0
    assert list(at.server.writes[0]["status"]) == ["migrationState"]
    at.launcher.status = None
    assert at.loop.reconcile(KEY) is None
    assert (len(at.server.writes), at.launcher.methods, at.said) == (1, ["Delete"], [])
    # Its label names the other node by now.
    at.own.vmi = None
    at.loop.reconcile(KEY)
    assert at.network.forgotten == ["u-1"]


def test_a_guest_that_moves_is_cared_for_as_before() -> None:
    at = Node(HERE, moving_vmi(**BEGUN), leaving(pb.OUTGOING_ACTIVE, total_bytes=10, left_bytes=5))
    at.loop.reconcile(KEY)
    assert at.server.vmi.status.phase == "Running"
    assert {item.type for item in at.server.vmi.status.conditions} == {"LiveMigratable", "StorageLiveMigratable"}


def test_what_is_new_while_a_guest_moves_is_told_once_it_stays() -> None:
    at = Node(HERE, moving_vmi(**BEGUN), leaving(pb.OUTGOING_ACTIVE))
    # The first time the launcher's word is older than its move.
    at.launcher.status = leaving(pb.OUTGOING_NONE)
    at.launcher.answers |= {
        "Sync": LauncherCallError(grpc.StatusCode.ABORTED, "the guest is moving"),
        "Migrate": lambda: leaving(pb.OUTGOING_NONE),
    }
    for _ in range(4):
        at.loop.reconcile(KEY)
    at.launcher.status = leaving(pb.OUTGOING_ACTIVE)
    asked = at.launcher.methods.count("Sync")
    assert asked > 0
    at.loop.reconcile(KEY)
    assert at.launcher.methods.count("Sync") == asked
    at.launcher.answers["Sync"] = lambda: leaving(pb.OUTGOING_KEPT)
    at.launcher.status = leaving(pb.OUTGOING_KEPT)
    for _ in range(3):
        at.loop.reconcile(KEY)
    assert at.launcher.methods.count("Sync") == asked + 1
    assert "SyncFailed" not in [reason for reason, _ in at.said]


def test_a_guest_that_is_to_come_gets_pod_and_network_and_its_launcher_is_told() -> None:
    vmi = bridged(moving_vmi(status={"volumeStatus": [{"name": "seed", "target": "vdb", "size": 374784}]}))
    at = Node(THERE, vmi, coming(pb.INCOMING_EMPTY))
    at.launcher.answers["PrepareIncoming"] = lambda: coming(pb.INCOMING_READY)
    at.loop.reconcile(KEY)
    ((method, request),) = at.launcher.orders
    assert (method, request.migration_uid, dict(request.image_bytes)) == ("PrepareIncoming", UID, {"seed": 374784})
    assert [nic.mac for nic in request.guest.interfaces] == [MAC]
    assert b'"uid":"u-1"' in request.guest.vmi_json
    at.loop.reconcile(KEY)
    state = at.server.vmi.status.migration_state
    assert state is not None
    assert state.target_node_address == ADDRESS


class PlayedVolumes:
    """Those that are named in `there` can be had on this node."""

    def __init__(self, *there: str) -> None:
        self.there = set(there)
        self.asked: list[tuple[str, str]] = []

    def hand_over(self, vmi: VirtualMachineInstance, _launcher: object, *, makes_images: bool) -> HotplugSeen:
        assert not makes_images
        self.asked += [(item.name, item.pod_uid) for item in plan_hand_over(vmi, ())]
        return HotplugSeen(frozenset(self.there), {"data": "Volume data: its Pod does not run here"})


def test_a_guest_with_hotplugged_volumes_is_prepared_for_once_all_are_in_the_pod() -> None:
    claim = {"claimName": "data", "hotpluggable": True}
    old = {"attachPodName": "hp", "attachPodUID": "old"}
    entry = {"name": "data", "target": "sda", "phase": "Ready", "hotplugVolume": old}
    vmi = moving_vmi(status={"volumeStatus": [entry]}, targetAttachmentPods={"data": "new"})
    vmi.spec.volumes = [decode(Volume, {"name": "data", "persistentVolumeClaim": claim})]
    volumes = PlayedVolumes()
    at = Node(THERE, vmi, coming(pb.INCOMING_EMPTY), volumes)
    at.launcher.answers["PrepareIncoming"] = lambda: coming(pb.INCOMING_READY)
    at.loop.reconcile(KEY)
    assert (at.launcher.methods, at.network.made) == ([], [])
    assert ("SyncFailed", "Volume data: its Pod does not run here") in at.said
    assert volumes.asked == [("data", "new")]
    volumes.there = {"data"}
    at.loop.reconcile(KEY)
    assert at.launcher.methods == ["PrepareIncoming"]


def test_a_guest_whose_disks_move_along_is_awaited_on_the_claims_that_it_gets() -> None:
    at = Node(THERE, bridged(copying_vmi()), coming(pb.INCOMING_EMPTY))
    at.launcher.answers["PrepareIncoming"] = lambda: coming(pb.INCOMING_READY)
    at.loop.reconcile(KEY)
    ((_, request),) = at.launcher.orders
    assert dict(request.copied_disk_bytes) == {"data": 24 << 20}
    told = decode_json(VirtualMachineInstance, request.guest.vmi_json)
    assert (claim_of(told.spec.volumes[0]), told.status.migrated_volumes) == ("new", [])


@pytest.mark.parametrize(("uid", "is_taken"), [("u-1", False), ("u-2", True)], ids=["its other side", "another guest"])
def test_the_mac_of_a_guest_that_is_to_come_must_be_free_and_its_own_side_does_not_count(
    uid: str, is_taken: bool
) -> None:
    vmi, other = bridged(moving_vmi()), bridged(moving_vmi(THERE))
    other.metadata.uid, other.metadata.name = uid, "other"
    other.metadata.creation_timestamp, vmi.metadata.creation_timestamp = "2020-01-01T00:00:00Z", "2021-01-01T00:00:00Z"
    at = Node(THERE, vmi, coming(pb.INCOMING_EMPTY))
    at.launcher.answers["PrepareIncoming"] = lambda: coming(pb.INCOMING_READY)
    at.own.others = [other]
    at.loop.reconcile(KEY)
    assert at.network.made == ([] if is_taken else ["u-1"])
    assert any(MAC in text for _, text in at.said) is is_taken


def test_a_guest_that_has_come_is_the_sync_loops_with_all_that_was_made() -> None:
    at = Node(THERE, moving_vmi(**BEGUN, sourceNodeDomainGoneTimestamp="2026-05-01T00:00:05Z"), None)
    at.launcher.status = coming(pb.INCOMING_OWNED)
    assert at.loop.reconcile(KEY) is None
    assert at.own.vmi is not None
    assert at.own.vmi.status.node_name == THERE
    assert (at.launcher.dropped, at.network.forgotten) == (0, [])
    # The cache of those that are to come has not heard yet.
    at.launcher.status = pb.DomainStatus(state=pb.DOMAIN_STATE_RUNNING, migrates=True)
    at.loop.reconcile(KEY)
    assert "Sync" in at.launcher.methods
    assert at.launcher.dropped == 0

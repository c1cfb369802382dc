# Tests: kvedge/handler/guest/sync_loop.py, kvedge/handler/guest/volume_pass.py
"""Hotplugged volumes in the sync loop: from the attachment Pod to the guest and back; the launcher is played."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import msgspec

from kvedge.handler.launchers.launcher_connections import LauncherCallError
from kvedge.handler.launchers.sync_plan import LauncherView
from kvedge.handler.volumes.hotplug_plan import HotplugSeen, plan_hand_over, plan_take_back
from kvedge.kube.patches import MergePatch
from kvedge.kube.reconcile_loop import Again
from kvedge.resources.codec import JsonObject, decode, decode_json, encode
from kvedge.resources.disks.volume_facts import hotplugged_volumes
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.rpc import launcher_pb2 as pb
from tests.support.clocks import FakeClock
from tests.unit.handler.guest.sync_loops import NODE, a_sync_loop

KEY = ("shop", "web")


class PlayedVolumes:
    """Volumes whose attachment Pods run, unless named in `refused`."""

    def __init__(self) -> None:
        self.there: set[str] = set()
        self.refused: dict[str, str] = {}

    def hand_over(self, vmi: VirtualMachineInstance, launcher: object, *, makes_images: bool = True) -> HotplugSeen:
        coming = {item.name for item in plan_hand_over(vmi, self.there)}
        self.there |= coming - self.refused.keys()
        troubles = {name: text for name, text in self.refused.items() if name in coming}
        return HotplugSeen(frozenset(self.there), troubles)

    def take_back(self, vmi: VirtualMachineInstance, status: pb.DomainStatus, launcher: object) -> HotplugSeen:
        self.there -= set(plan_take_back(vmi, status, self.there))
        return HotplugSeen(frozenset(self.there), {}, is_followed=True)


class Scene:
    """A loop over one VMI and its launcher, which attaches what has been handed over."""

    def __init__(self, state: Any = pb.DOMAIN_STATE_RUNNING, phase: str = "Running") -> None:
        self.said: list[tuple[str, str]] = []
        self.volumes = PlayedVolumes()
        self.clock = FakeClock()
        self.held: set[str] = set()
        self.synced = False
        self.syncs = 0
        self.status = pb.DomainStatus(state=state)
        self.vmi = decode(
            VirtualMachineInstance,
            {
                "metadata": {"name": "web", "namespace": "shop", "uid": "uid-web"},
                "spec": {"domain": {"devices": {}}},
                "status": {"phase": phase, "nodeName": NODE, "activePods": {"pod-uid": NODE}},
            },
        )
        connections = SimpleNamespace(
            note=lambda *_: None,
            ensure=lambda *_: None,
            drop=lambda _: None,
            view=lambda _: LauncherView(connected=True, synced=self.synced, status=self.status),
            pod_uid=lambda _: "pod-uid",
            launcher=self._launcher,
            call=self._call,
        )
        network = SimpleNamespace(
            forget=lambda _: None,
            resolver=lambda _: SimpleNamespace(has_nameservers=False),
            prepare=lambda *_: [],
            introduce_routers=lambda *_: None,
            plugins={},
        )
        informer = SimpleNamespace(get=lambda *_: self.vmi, observe=lambda _: None, list=list)
        self.loop = a_sync_loop(
            vmis=informer,
            connections=connections,
            network=network,
            volumes=self.volumes,
            patch=self._patch,
            said=self.said,
            clock=self.clock,
        )

    @contextlib.contextmanager
    def _launcher(self, _key: object) -> Iterator[None]:
        yield None

    def _call(self, _key: object, method: str, request: Any, _seconds: float) -> pb.DomainStatus:
        assert method == "Sync", LauncherCallError
        self.syncs += 1
        self.synced = True
        told = decode_json(VirtualMachineInstance, request.vmi_json)
        wanted = {item.name for item in hotplugged_volumes(told)}
        ready = {entry.name for entry in told.status.volume_status if entry.phase in {"MountedToPod", "Ready"}}
        names = (wanted & ready) | (self.held - wanted)
        disks = [pb.DiskTarget(name=name, target=f"sd{name}") for name in sorted(names)]
        self.status = pb.DomainStatus(state=pb.DOMAIN_STATE_RUNNING, disks=disks)
        return self.status

    def _patch(self, _kind: object, _namespace: str, _name: str, patch: MergePatch) -> VirtualMachineInstance:
        self.vmi = decode(VirtualMachineInstance, _merged(encode(self.vmi), patch.body))
        return self.vmi

    def want(self, *names: str, phase: str = "AttachedToNode") -> None:
        """What the controller writes: volumes, and an entry for each that comes."""
        document = encode(self.vmi)
        document["spec"]["volumes"] = [
            {"name": name, "persistentVolumeClaim": {"claimName": name, "hotpluggable": True}} for name in names
        ]
        entries = {entry["name"]: entry for entry in document["status"].get("volumeStatus", [])}
        attachment = {"attachPodName": "hp", "attachPodUID": "uid"}
        for name in names:
            entries.setdefault(name, {"name": name, "target": "", "phase": phase, "hotplugVolume": attachment})
        document["status"]["volumeStatus"] = list(entries.values())
        self.vmi = decode(VirtualMachineInstance, document)

    def settle(self) -> Again | None:
        """Passes until nothing is written any more."""
        for _ in range(20):
            again: Again | None = self.loop.reconcile(KEY)
            if again != Again(0.0):
                return again
        raise AssertionError("it never settles")

    def phases(self) -> dict[str, str]:
        return {entry.name: entry.phase for entry in self.vmi.status.volume_status}

    def condition(self) -> str:
        return next((item.message for item in self.vmi.status.conditions if item.type == "Synchronized"), "")


def _merged(old: JsonObject, patch: JsonObject) -> JsonObject:
    result = dict(old)
    for key, value in patch.items():
        before = result.get(key)
        result[key] = _merged(before, value) if isinstance(value, dict) and isinstance(before, dict) else value
    return {key: value for key, value in result.items() if value is not None}


def test_a_volume_comes_to_the_guest_and_goes_and_then_nothing_is_done() -> None:
    scene = Scene()
    scene.settle()
    scene.want("a")
    scene.settle()
    assert scene.phases() == {"a": "Ready"}
    assert scene.vmi.status.volume_status[0].target == "sda"
    calls = scene.syncs
    scene.settle()
    assert scene.syncs == calls

    scene.want()
    scene.settle()
    assert scene.phases() == {"a": "UnMountedFromPod"}
    assert scene.volumes.there == set()


def test_a_disk_that_the_guest_holds_stays_handed_over_and_ready() -> None:
    scene = Scene()
    scene.want("a")
    scene.settle()
    scene.held.add("a")
    scene.want()
    scene.settle()
    assert (scene.phases(), scene.volumes.there) == ({"a": "Ready"}, {"a"})
    # The guest lets go of it: the launcher's stream tells.
    scene.status = pb.DomainStatus(state=pb.DOMAIN_STATE_RUNNING)
    scene.settle()
    assert (scene.phases(), scene.volumes.there) == ({"a": "UnMountedFromPod"}, set())


def test_a_disk_that_does_not_grow_is_told_once_with_its_remedy() -> None:
    scene = Scene()
    scene.want("a")
    scene.settle()
    text = f"Disk a does not grow: {'x' * 300}; a restart of the VM gives the guest the larger disk"
    scene.status.ungrown_disks.append(text)
    scene.settle()
    scene.settle()
    assert list(scene.said).count(("DiskNotGrown", text)) == 1
    assert scene.phases() == {"a": "Ready"}


def test_a_directory_that_nothing_serves_any_more_is_told_once() -> None:
    scene = Scene()
    scene.settle()
    scene.status.lost_filesystems.append("settings")
    scene.settle()
    scene.settle()
    (text,) = [text for reason, text in scene.said if reason == "FilesystemLost"]
    assert text.startswith("filesystem settings: its virtiofsd has ended while the guest runs")


def test_a_full_disk_is_told_each_time_that_it_pauses_the_guest() -> None:
    scene = Scene()
    text = "VM Paused due to not enough space on volume: a"
    scene.want("a")
    scene.settle()
    for times in (1, 2):
        scene.status.state, scene.status.reason = pb.DOMAIN_STATE_PAUSED, pb.DOMAIN_REASON_IO_ERROR
        scene.status.disk_errors.add(name="a", no_space=True)
        scene.settle()
        scene.settle()
        assert list(scene.said).count(("IOerror", text)) == times
        scene.status.state = pb.DOMAIN_STATE_RUNNING
        del scene.status.disk_errors[:]
        scene.settle()


def test_a_ping_that_fails_is_told_as_often_as_the_launcher_says() -> None:
    scene = Scene()
    scene.want("a")
    scene.settle()
    for failed in (1, 2):
        scene.status.failed_pings = failed
        scene.settle()
        scene.settle()
        said = [text for reason, text in scene.said if reason == "GuestAgentPingFailed"]
        assert said == [f"GuestAgentPing probe failed for VMI {scene.vmi.metadata.name}"] * failed
    # Another launcher counts anew.
    scene.status.failed_pings = 0
    scene.settle()
    scene.status.failed_pings = 1
    scene.settle()
    assert len([reason for reason, _ in scene.said if reason == "GuestAgentPingFailed"]) == 3


def test_one_bad_volume_is_told_and_looked_at_again_while_the_others_come() -> None:
    scene = Scene()
    scene.volumes.refused["bad"] = "disk.img is empty"
    scene.want("bad", "good")
    assert scene.settle() == Again(1.0)
    assert scene.phases() == {"bad": "AttachedToNode", "good": "Ready"}
    assert scene.condition() == "disk.img is empty"
    assert ("HotplugFailed", "disk.img is empty") in scene.said
    scene.volumes.refused.clear()
    scene.settle()
    assert (scene.phases(), scene.condition()) == ({"bad": "Ready", "good": "Ready"}, "")


def test_a_guest_is_started_with_its_volumes_and_says_for_which_it_waits() -> None:
    scene = Scene(pb.DOMAIN_STATE_ABSENT, "Scheduled")
    scene.want("a", phase="Pending")
    assert scene.settle() == Again(1.0)
    assert (scene.syncs, scene.condition()) == (0, "")
    scene.clock.seconds += 20
    scene.settle()
    assert scene.syncs == 0
    assert scene.condition().startswith("the guest waits for hotplugged volume a (Pending)")

    entry = msgspec.structs.replace(scene.vmi.status.volume_status[0], phase="AttachedToNode")
    status = msgspec.structs.replace(scene.vmi.status, volume_status=[entry])
    scene.vmi = msgspec.structs.replace(scene.vmi, status=status)
    scene.settle()
    assert (scene.phases(), scene.vmi.status.phase, scene.condition()) == ({"a": "Ready"}, "Running", "")
    assert scene.syncs == 1, "the guest starts with its volume"


def test_a_launcher_that_was_started_again_is_told_again_and_nothing_moves() -> None:
    scene = Scene()
    scene.want("a")
    scene.settle()
    before, calls = scene.phases(), scene.syncs
    scene.synced = False
    scene.settle()
    assert (scene.phases(), scene.syncs) == (before, calls + 1)

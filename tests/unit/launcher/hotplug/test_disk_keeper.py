# Tests: kvedge/launcher/hotplug/disk_wishes.py, kvedge/launcher/hotplug/disk_keeper.py
# Tests: kvedge/launcher/hotplug/device_locks.py
"""The keeper of hotplugged disks, with a libvirt that is played: retries, hand-overs, independence."""

from __future__ import annotations

import errno
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

from kvedge.launcher.hotplug.disk_keeper import DiskKeeper
from kvedge.launcher.hotplug.disk_wishes import read_wishes
from kvedge.launcher.hotplug.document_process import DiskDocument, DocumentProcess
from kvedge.launcher.launcher_errors import BadRequest, LibvirtFailed
from kvedge.launcher.libvirt.domain_facts import DomainDisk, DomainFacts, Life, Why
from kvedge.rpc import launcher_pb2 as m

if TYPE_CHECKING:
    from kvedge.launcher.libvirt.libvirt_session import LibvirtSession


class PlayedDomain:
    """libvirt with one domain, whose guest releases disks unless it is told not to."""

    libvirt_version = 9_000_000

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self.disks: dict[str, DomainDisk] = {}
        self.refused: set[str] = set()
        self.kept: set[str] = set()
        self.done: list[str] = []
        self.threads = 0
        self.suffix = ".img"

    def facts(self) -> DomainFacts:
        disks = tuple(self.disks.values())
        return DomainFacts(uuid="u", life=Life.RUNNING, why=Why.BOOTED, disks=disks, io_threads=self.threads)

    def attach_device(self, xml: str) -> None:
        self.done.append(f"attach {xml}")
        if xml in self.refused:
            raise LibvirtFailed("attaching the device", 1, 10, "no such bus")
        self.disks[xml] = DomainDisk(xml, "sda", "disk", f"{self.directory}/{xml}{self.suffix}")

    def detach_device(self, name: str) -> None:
        self.done.append(f"detach {name}")
        if name not in self.kept:
            del self.disks[name]

    def add_io_thread(self, number: int) -> None:
        self.done.append(f"thread {number}")
        self.threads = number


class PlayedProcess(DocumentProcess):
    """Documents that are their disk's name, and whether a process waits to make them."""

    def __init__(self) -> None:
        super().__init__()
        self.io_thread = 0
        self.waits = False
        self.expected = 0
        self.has_ended = False

    def expect(self) -> None:
        self.expected += 1
        self.waits = True

    def forget_ended(self) -> None:
        self.waits = self.waits and not self.has_ended

    def rest(self) -> None:
        self.waits = False

    def make(self, question: dict[str, Any]) -> dict[str, DiskDocument]:
        self.waits = False
        return {name: DiskDocument(name, self.io_thread) for name in question["names"]}


class Kept:
    """A keeper without its thread, and the clock."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.directory = root / "var/run/kubevirt/hotplug-disks"
        self.directory.mkdir(parents=True)
        self.domain = PlayedDomain(str(self.directory))
        self.now = 1000.0
        self.changes = 0
        self.process = PlayedProcess()
        session = cast("LibvirtSession", self.domain)
        self.keeper = DiskKeeper(session, str(root), self._count, self.process, lambda: self.now)
        # No thread is started: the test looks by itself.
        self.keeper._thread = cast("Any", "none")

    def _count(self) -> None:
        self.changes += 1

    def want_devices(self, *names: str, **disk: Any) -> None:
        self.domain.suffix = ""
        self.keeper.follow(m.SyncRequest(vmi_json=block_vmi(*names, **disk)), None)

    def want(self, *names: str) -> None:
        for name in names:
            (self.directory / f"{name}.img").write_bytes(b"x")
        self.keeper.follow(m.SyncRequest(vmi_json=vmi(*names)), None)

    def look(self, seconds: float = 0.0) -> list[str]:
        self.now += seconds
        self.domain.done.clear()
        self.keeper.look()
        return list(self.domain.done)


class PlayedMonitor:
    """A monitor that holds devices, of which others may have some."""

    def __init__(self) -> None:
        self.held: set[str] = set()
        self.elsewhere: set[str] = set()
        self.asked: list[str] = []

    def hold(self, directory: str, path: str) -> int:
        self.asked.append(f"hold {Path(path).name}")
        if path in self.elsewhere:
            return errno.EBUSY
        self.held.add(path)
        return 0

    def release(self, directory: str, path: str) -> int:
        self.held.discard(path)
        return 0


@pytest.fixture
def monitor(monkeypatch: pytest.MonkeyPatch) -> PlayedMonitor:
    played, place = PlayedMonitor(), "kvedge.launcher.hotplug.device_locks"
    monkeypatch.setattr(f"{place}.hold_device", played.hold)
    monkeypatch.setattr(f"{place}.release_device", played.release)
    monkeypatch.setattr(f"{place}.read_held_devices", lambda directory: sorted(played.held))
    monkeypatch.setattr("kvedge.launcher.hotplug.disk_wishes.is_handed_over", lambda path, block: True)
    return played


def block_vmi(*names: str, **disk: Any) -> bytes:
    document = json.loads(vmi(*names))
    for entry in document["status"]["volumeStatus"]:
        entry["persistentVolumeClaimInfo"] = {"volumeMode": "Block"}
    for item in document["spec"]["domain"]["devices"]["disks"]:
        item.update(disk)
    return json.dumps(document).encode()


def vmi(*names: str) -> bytes:
    return json.dumps(
        {
            "spec": {
                "domain": {"devices": {"disks": [{"name": name, "disk": {"bus": "scsi"}} for name in names]}},
                "volumes": [
                    {"name": name, "persistentVolumeClaim": {"claimName": name, "hotpluggable": True}} for name in names
                ],
            },
            "status": {"volumeStatus": [{"name": name, "target": "", "phase": "MountedToPod"} for name in names]},
        }
    ).encode()


@pytest.fixture
def kept(tmp_path: Path) -> Kept:
    return Kept(tmp_path)


def test_disks_come_and_go_and_then_nothing_is_done(kept: Kept) -> None:
    kept.want("a", "b")
    assert kept.look() == ["attach a", "attach b"]
    assert kept.look(100) == []
    kept.want("b")
    assert kept.look() == ["detach a"]
    assert kept.look(100) == []
    assert kept.keeper.troubles() == []


def test_a_refused_disk_is_tried_again_with_pauses_and_holds_up_no_other(kept: Kept) -> None:
    kept.domain.refused.add("bad")
    kept.want("bad", "good")
    assert kept.look() == ["attach bad", "attach good"]
    (told,) = kept.keeper.troubles()
    assert (told.name, told.action, told.tries) == ("bad", m.DISK_ACTION_ATTACH, 1)
    assert told.message == "attaching the device: no such bus"
    assert kept.look(0.5) == []
    assert kept.look(0.6) == ["attach bad"]
    assert kept.look(1) == []
    kept.domain.refused.clear()
    assert kept.look(1.1) == ["attach bad"]
    assert kept.keeper.troubles() == []


def test_a_guest_that_does_not_release_a_disk_is_asked_again_and_told(kept: Kept) -> None:
    kept.domain.kept.add("a")
    kept.want("a")
    kept.look()
    kept.want()
    assert kept.look() == ["detach a"]
    assert kept.look(1) == []
    assert kept.keeper.troubles() == []
    assert kept.look(5) == ["detach a"]
    kept.now += 30
    (told,) = kept.keeper.troubles()
    assert (told.name, told.action, told.message, told.tries) == ("a", m.DISK_ACTION_DETACH, "", 2)
    # It is released at last.
    kept.domain.disks.clear()
    kept.look()
    assert kept.keeper.troubles() == []


def test_a_disk_that_is_wanted_again_before_it_was_released_is_left_and_comes_back_after_it(kept: Kept) -> None:
    kept.domain.kept.add("a")
    kept.want("a")
    kept.look()
    kept.want()
    kept.look()
    kept.want("a")
    assert kept.look(100) == []
    assert kept.keeper.troubles() == []
    kept.domain.disks.clear()
    assert kept.look() == ["attach a"]


def test_a_disk_with_an_io_thread_that_the_domain_lacks_gets_it_first(kept: Kept) -> None:
    kept.process.io_thread = 2
    kept.want("a")
    assert kept.look() == ["thread 1", "thread 2", "attach a"]


def test_documents_that_cannot_be_made_are_a_trouble_of_their_disk(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept.process, "make", lambda question: {"a": DiskDocument(error="disks[0].bus: is no bus")})
    kept.want("a")
    assert kept.look() == []
    assert [told.message for told in kept.keeper.troubles()] == ["disks[0].bus: is no bus"]


@pytest.mark.parametrize("document", [b"{", b'{"spec": []}', b'{"spec": {"volumes": [{}]}}', b"3"])
def test_a_document_that_is_no_vmi_is_refused(document: bytes) -> None:
    with pytest.raises(BadRequest):
        read_wishes(document, "")


def test_a_device_is_wanted_where_the_claim_is_one(tmp_path: Path) -> None:
    document = json.loads(vmi("a"))
    document["status"]["volumeStatus"][0]["persistentVolumeClaimInfo"] = {"volumeMode": "Block"}
    found = read_wishes(json.dumps(document).encode(), str(tmp_path)).disks["a"]
    assert (found.block, found.is_ready) == (True, False)
    assert found.path == f"{tmp_path}/var/run/kubevirt/hotplug-disks/a"


def test_a_device_is_held_while_the_guest_has_it_and_free_once_the_guest_has_released_it(
    kept: Kept, monitor: PlayedMonitor
) -> None:
    kept.domain.kept.add("a")
    kept.want_devices("a")
    assert kept.look() == ["attach a"]
    assert monitor.held == {f"{kept.directory}/a"}
    kept.want_devices()
    kept.look()
    kept.look(1)
    assert monitor.held == {f"{kept.directory}/a"}
    kept.domain.disks.clear()
    kept.look()
    assert monitor.held == set()


def test_a_device_that_is_in_use_elsewhere_is_told_and_tried_again_with_pauses(
    kept: Kept, monitor: PlayedMonitor
) -> None:
    monitor.elsewhere.add(f"{kept.directory}/a")
    kept.want_devices("a", "b")
    assert kept.look() == ["attach b"]
    (told,) = kept.keeper.troubles()
    assert (told.name, told.action) == ("a", m.DISK_ACTION_ATTACH)
    assert told.message.startswith("volume a: PVC a: its device is in use on this node")
    assert "detach it there or stop that VM, or set shareable: true" in told.message
    assert kept.look(0.5) == []
    monitor.elsewhere.clear()
    assert kept.look(0.6) == ["attach a"]
    assert kept.keeper.troubles() == []
    assert monitor.asked == ["hold a", "hold b", "hold a"]


@pytest.mark.parametrize(
    "disk",
    [{"shareable": True}, {"disk": {"readonly": True}}],
    ids=["shared", "only read"],
)
def test_a_device_that_others_may_have_as_well_is_not_held(
    kept: Kept, monitor: PlayedMonitor, disk: dict[str, Any]
) -> None:
    kept.want_devices("a", **disk)
    assert kept.look() == ["attach a"]
    assert monitor.asked == []


def test_a_file_is_not_held_as_qemu_locks_it(kept: Kept, monitor: PlayedMonitor) -> None:
    kept.want("a")
    assert kept.look() == ["attach a"]
    assert monitor.asked == []


def test_a_launcher_that_was_started_again_frees_what_the_one_before_left_and_keeps_what_is_used(
    kept: Kept, monitor: PlayedMonitor
) -> None:
    kept.want_devices("a", "b")
    kept.look()
    again = DiskKeeper(cast("LibvirtSession", kept.domain), str(kept.root), kept._count, kept.process, lambda: kept.now)
    again._thread = cast("Any", "none")
    monitor.held.add("/dev/root")
    del kept.domain.disks["b"]
    again.follow(m.SyncRequest(vmi_json=block_vmi("a")), kept.domain.facts())
    again.look()
    assert monitor.held == {f"{kept.directory}/a", "/dev/root"}


def test_a_held_device_without_its_disk_wakes_the_keeper_though_nothing_else_is_to_be_done(
    kept: Kept, monitor: PlayedMonitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[bool] = []
    monkeypatch.setattr(kept.keeper, "start", lambda: started.append(True))
    monitor.held.add(f"{kept.directory}/gone")
    kept.keeper.follow(m.SyncRequest(vmi_json=block_vmi()), kept.domain.facts())
    assert started == [True]


def test_another_device_at_the_same_place_is_held_anew(kept: Kept, monitor: PlayedMonitor) -> None:
    monitor.held.add(f"{kept.directory}/a")
    monitor.elsewhere.add(f"{kept.directory}/a")
    kept.want_devices("a")
    assert kept.look() == []
    assert monitor.held == set()


def test_a_process_is_loaded_once_for_a_volume_that_is_on_its_way_and_makes_its_document(kept: Kept) -> None:
    announced = m.SyncRequest(vmi_json=vmi("a"))
    for _ in range(2):
        kept.keeper.follow(announced, kept.domain.facts())
        assert kept.look() == []
        assert kept.process.waits
    (kept.directory / "a.img").write_bytes(b"x")
    kept.keeper.follow(announced, kept.domain.facts())
    assert kept.look() == ["attach a"]
    assert not kept.process.waits
    assert kept.process.expected == 1


def test_the_process_rests_when_no_volume_is_on_its_way_any_more(kept: Kept) -> None:
    kept.keeper.follow(m.SyncRequest(vmi_json=vmi("a")), kept.domain.facts())
    kept.keeper.follow(m.SyncRequest(vmi_json=vmi()), kept.domain.facts())
    kept.look()
    assert not kept.process.waits


def test_a_process_that_has_waited_too_long_is_forgotten_and_not_replaced_before_the_volume_comes(kept: Kept) -> None:
    announced = m.SyncRequest(vmi_json=vmi("a"))
    kept.keeper.follow(announced, kept.domain.facts())
    kept.process.has_ended = True
    assert kept.look() == []
    assert not kept.process.waits
    kept.keeper.follow(announced, kept.domain.facts())
    assert kept.process.expected == 1
    (kept.directory / "a.img").write_bytes(b"x")
    assert kept.look() == ["attach a"]


def test_no_process_is_loaded_for_a_guest_that_is_not_started_yet(kept: Kept) -> None:
    kept.keeper.follow(m.SyncRequest(vmi_json=vmi("a")), None)
    assert kept.process.expected == 0

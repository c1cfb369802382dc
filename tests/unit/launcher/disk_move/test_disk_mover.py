# Tests: kvedge/launcher/disk_move/, kvedge/handler/disk_move/
"""Disks that move in place, with the launcher's and the handler's real parts, real words beside real images, and a QEMU
and an API that are played.

Whoever is killed at whatever step: a power cut at any moment finds, on the claim that the VMI names, all that the guest
was told is written, or a word that it is no disk.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar, cast

import pytest

from kvedge.handler.disk_move.disk_move_steps import DiskMoveSteps
from kvedge.handler.launchers.launcher_connections import LauncherCallError
from kvedge.handler.launchers.sync_plan import LauncherView
from kvedge.handler.volumes.hotplug_plan import HotplugSeen
from kvedge.kube.errors import Conflict, Forbidden, Unavailable
from kvedge.launcher.disk_move import disk_mover, moving_disks
from kvedge.launcher.disk_move.disk_move_plan import LEASE_SECONDS
from kvedge.launcher.disk_move.disk_move_record import MoveStore
from kvedge.launcher.disk_move.disk_mover import DiskMover
from kvedge.launcher.disks import arriving_disk
from kvedge.launcher.launcher_errors import LauncherError, LibvirtFailed, Postponed, WrongState
from kvedge.launcher.launcher_service import status_code
from kvedge.launcher.libvirt.domain_facts import CopyProgress, DiskSize, DomainDisk, DomainFacts, Life, Why
from kvedge.resources.codec import JsonObject, decode, encode
from kvedge.resources.disks.moved_places import moved_path, moved_place
from kvedge.resources.disks.moved_volumes import IN_PLACE, VOLUMES_CHANGE, as_moved
from kvedge.resources.disks.volume_facts import claim_of
from kvedge.resources.meta import Condition
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.rpc.launcher_pb2 import (
    DISK_MOVE_DONE,
    DISK_MOVE_FAILED,
    DISK_MOVE_GOAL_ABORT,
    DISK_MOVE_GOAL_FINISH,
    DISK_MOVE_GOAL_SETTLE,
    DISK_MOVE_READY,
    DOMAIN_STATE_RUNNING,
    DomainStatus,
    MoveDisksRequest,
)
from kvedge.storage.arriving_mark import ARRIVING

BYTES = 1 << 20
VOLUMES = ("root", "data")
DEVICES = ((), ("data",), VOLUMES)
T = TypeVar("T")


def merge(old: Any, patch: Any) -> Any:
    """A merge patch, as an API applies it."""
    if not isinstance(patch, dict):
        return patch
    made: JsonObject = dict(old) if isinstance(old, dict) else {}
    for name, value in patch.items():
        if value is None:
            made.pop(name, None)
        else:
            made[name] = merge(made.get(name), value)
    return made


class Killed(BaseException):
    """kill -9, in the middle of a step."""


@dataclass
class Disk:
    """One of QEMU's: the claim it writes, and the copy; `versions` are the contents of the claims."""

    claim: str
    mirror: str = ""
    ready: bool = False
    # QEMU was told to exchange it, and has not done so yet.
    is_ending: bool = False


@dataclass
class World:
    """A guest that writes whenever its CPUs run, its QEMU, its VMI, and the claims' directories."""

    root: Path
    # At which step something is killed, counted from the beginning; and whether that step is still done.
    dies_at: int = -1
    is_done: bool = False
    steps: int = 0
    now: float = 100.0
    paused: bool = False
    versions: dict[str, int] = field(default_factory=dict)
    latest: dict[str, int] = field(default_factory=dict)
    disks: dict[str, Disk] = field(default_factory=dict)
    # The volumes whose new claims are devices.
    devices: tuple[str, ...] = ()
    fails: set[str] = field(default_factory=set)
    # Its QEMU has ended; and the disks that libvirt's document does not have, as that of the next start.
    has_ended: bool = False
    unseen: set[str] = field(default_factory=set)
    # What a power cut would have found wrong, at any step.
    stale: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        volumes = [{"name": name, "persistentVolumeClaim": {"claimName": f"{name}-old"}} for name in VOLUMES]
        moved = [
            {
                "volumeName": name,
                "sourcePVCInfo": {"claimName": f"{name}-old"},
                "destinationPVCInfo": {
                    "claimName": f"{name}-new",
                    "volumeMode": "Block" if name in self.devices else "Filesystem",
                },
            }
            for name in VOLUMES
        ]
        meta = {"name": "web", "namespace": "default", "uid": "u-1", "resourceVersion": "1"}
        self.vmi = decode(
            VirtualMachineInstance,
            {
                "metadata": meta,
                "spec": {"domain": {}, "volumes": volumes},
                "status": {"phase": "Running", "migratedVolumes": moved},
            },
        )
        self.vmi.status.conditions = [Condition(type=VOLUMES_CHANGE, status="True", reason=IN_PLACE)]
        for name in VOLUMES:
            self.disks[name] = Disk(f"{name}-old")
            self.versions[f"{name}-old"] = self.latest[name] = 1
            self.directory(name).mkdir(parents=True, exist_ok=True)
            if name in self.devices:
                self.image(name).write_bytes(bytes(BYTES))

    def directory(self, name: str) -> Path:
        return self.image(name).parent

    def image(self, name: str) -> Path:
        return Path(str(self.root) + moved_path(moved_place(name, f"{name}-new"), block=name in self.devices))

    def path(self, name: str, claim: str) -> str:
        return str(self.image(name)) if claim.endswith("-new") else f"/old/{name}"

    def step(self, act: Callable[[], T]) -> T:
        """Something that lasts happens; a power cut may come before it, and after it."""
        self.write()
        self.cut_power()
        self.steps += 1
        if self.steps == self.dies_at and not self.is_done:
            raise Killed
        found = act()
        self.write()
        self.cut_power()
        if self.steps == self.dies_at:
            raise Killed
        return found

    def write(self) -> None:
        """The guest writes, and is told that it is written."""
        if not self.paused:
            for name, disk in self.disks.items():
                self.latest[name] += 1
                self.versions[disk.claim] = self.latest[name]

    def cut_power(self) -> None:
        """What the next start would find."""
        for volume in self.vmi.spec.volumes:
            claim = claim_of(volume) or ""
            is_new = claim.endswith("-new")
            has_word = volume.name not in self.devices and (self.directory(volume.name) / ARRIVING).exists()
            if is_new and has_word:
                self.refused.append(volume.name)
            elif self.versions.get(claim) != self.latest[volume.name]:
                self.stale.append(f"{volume.name} on {claim} at step {self.steps}")

    # The session.

    @property
    def copies(self) -> World:
        return self

    def facts(self) -> DomainFacts:
        disks = tuple(
            DomainDisk(
                name,
                f"vd-{name}",
                source=self.path(name, disk.claim),
                mirror=self.path(name, disk.mirror) if disk.mirror else "",
                is_mirrored=disk.ready,
            )
            for name, disk in self.disks.items()
            if name not in self.unseen
        )
        if self.has_ended:
            return DomainFacts(uuid="u", life=Life.SHUTOFF, why=Why.CRASHED, disks=disks)
        life, why = (Life.PAUSED, Why.USER) if self.paused else (Life.RUNNING, Why.UNPAUSED)
        return DomainFacts(uuid="u", life=life, why=why, pid=1, disks=disks)

    def disk_sizes(self, names: frozenset[str]) -> dict[str, DiskSize]:
        return {name: DiskSize(f"vd-{name}", BYTES) for name in names}

    def pause(self) -> None:
        self.step(lambda: setattr(self, "paused", True))

    def unpause(self) -> None:
        self.step(lambda: setattr(self, "paused", False))

    def begin(self, target: str, path: str, *, block: bool) -> None:
        disk, name = self.disks[target.removeprefix("vd-")], target.removeprefix("vd-")
        if "begin" in self.fails:
            raise LibvirtFailed("copying", 1, 1, "no")
        assert (path, block) == (str(self.image(name)), name in self.devices)
        self.step(lambda: self._mirror(disk, f"{name}-new"))

    def _mirror(self, disk: Disk, claim: str) -> None:
        disk.mirror = claim

    def progress(self, target: str) -> CopyProgress:
        return CopyProgress(1, 2)

    def are_alike(self, targets: list[str]) -> bool:
        assert self.paused
        if "alike" in self.fails:
            self.now += 1
            return False
        for disk in self.disks.values():
            if disk.mirror:
                self.versions[disk.mirror] = self.versions[disk.claim]
        return True

    def pivot(self, target: str) -> None:
        name = target.removeprefix("vd-")
        disk = self.disks[name]
        self.has_ended = self.has_ended or "qemu" in self.fails
        if {"pivot", f"pivot {name}"} & self.fails or self.has_ended or disk.is_ending or not disk.mirror:
            raise LibvirtFailed("pivoting", 1, 1, "no")
        if "slow pivot" in self.fails:
            disk.is_ending, disk.ready = True, False
            raise Killed
        self.step(lambda: self._end(disk, disk.mirror))

    def end_slow_pivots(self) -> None:
        """QEMU has exchanged what an earlier launcher has told it to."""
        self.fails.discard("slow pivot")
        for disk in self.disks.values():
            if disk.is_ending:
                disk.is_ending = False
                self._end(disk, disk.mirror)

    def give_up(self, target: str) -> None:
        disk = self.disks[target.removeprefix("vd-")]
        if self.has_ended or disk.is_ending or not disk.mirror:
            raise LibvirtFailed("giving up", 1, 1, "no")
        self.step(lambda: self._end(disk, disk.claim))

    def _end(self, disk: Disk, claim: str) -> None:
        assert disk.mirror
        disk.claim, disk.mirror, disk.ready = claim, "", False


class Play:
    """Launcher and handler over a world; each may be killed and comes back."""

    def __init__(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        self.world = world
        # As the launcher's run has it; it outlasts launchers.
        (world.root / "run").mkdir()
        for name in ("settle_copy", "unsettle_copy", "keep_copy", "drop_copy", "make_arriving"):
            real = getattr(arriving_disk, name)
            for module in (disk_mover, moving_disks):
                if hasattr(module, name):
                    monkeypatch.setattr(module, name, self._as_step(real))
        monkeypatch.setattr(disk_mover, "passing_thread", lambda _, call, *arguments: call(*arguments))
        monkeypatch.setattr(disk_mover.time, "sleep", lambda _: None)
        self.launcher = self.start_launcher()
        # What the handler knows of the VMI, where that is not what the API has.
        self.known: VirtualMachineInstance | None = None

    def _as_step(self, real: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *arguments: self.world.step(lambda: real(*arguments))

    def start_launcher(self) -> DiskMover:
        store = MoveStore(str(self.world.root / "run"))
        keep = store.keep
        store.keep = lambda record: self.world.step(lambda: keep(record))  # type: ignore[method-assign]
        return DiskMover(
            cast(Any, self.world), store, "u-1", lambda: None, str(self.world.root), lambda: self.world.now
        )

    def status(self) -> DomainStatus:
        status = DomainStatus(state=DOMAIN_STATE_RUNNING, moves_disks=True, moves_to_devices=True)
        word = self.launcher.describe(self.world.facts())
        if word is not None:
            status.disk_move.CopyFrom(word)
        return status

    def call(self, _key: object, _method: str, request: MoveDisksRequest, _seconds: float) -> DomainStatus:
        try:
            self.launcher.order(request)
        except (LauncherError, OSError) as error:
            raise LauncherCallError(status_code(error), str(error)) from error
        return self.status()

    def patch(self, _cls: object, _namespace: str, _name: str, patch: Any) -> VirtualMachineInstance:
        if "write" in self.world.fails:
            raise Forbidden(403, "Forbidden", "not allowed")

        version = self.world.vmi.metadata.resource_version
        if patch.body["metadata"]["resourceVersion"] != version:
            raise Conflict(409, "Conflict", "another version")

        def write() -> None:
            self.world.vmi = decode(VirtualMachineInstance, merge(encode(self.world.vmi), patch.body))
            self.world.vmi.metadata.resource_version = str(int(version or "0") + 1)

        self.world.step(write)
        if "answer" in self.world.fails:
            raise Unavailable(503, "Unavailable", "the answer is lost")
        return self.world.vmi

    def get(self, _cls: object, _namespace: str, _name: str) -> VirtualMachineInstance:
        return self.world.vmi

    def handler_pass(self) -> str:
        """What the VMI is told of trouble."""
        now = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=self.world.now)
        quiet: Any = SimpleNamespace(observe=lambda _: None, record=lambda *_: None, now=lambda: now)
        myself = cast(Any, self)
        steps = DiskMoveSteps(myself, quiet, myself, quiet, quiet)
        present = frozenset(moved_place(name, f"{name}-new") for name in VOLUMES)
        view = LauncherView(connected=True, status=self.status())
        key = cast(Any, ("default", "web"))
        return steps.look(key, self.known or self.world.vmi, view, HotplugSeen(present)).trouble

    def launcher_pass(self) -> None:
        self.launcher.look(self.world.facts())

    def copy(self) -> None:
        """QEMU has copied what there was."""
        for disk in self.world.disks.values():
            disk.ready = bool(disk.mirror) and not disk.is_ending


def run(play: Play, *, rounds: int = 12) -> None:
    """Passes of both; one that is killed is back for the next one, and the launcher is then another one."""
    for _ in range(rounds):
        for act in (play.handler_pass, play.launcher_pass, play.copy):
            try:
                act()
            except Killed:
                if act is not play.copy:
                    play.launcher = play.start_launcher()
        play.world.now += 1.0


@pytest.mark.parametrize("devices", DEVICES, ids="-".join)
def test_a_move_without_trouble(devices: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(tmp_path, devices=devices)
    play = Play(world, monkeypatch)
    run(play)
    assert (world.stale, world.refused) == ([], [])
    assert [disk.claim for disk in world.disks.values()] == ["root-new", "data-new"]
    assert (world.paused, play.status().disk_move.state) == (False, DISK_MOVE_DONE)
    assert not world.vmi.metadata.annotations
    for name in set(VOLUMES) - set(devices):
        assert [path.name for path in world.directory(name).iterdir()] == ["disk.img"]
        assert world.image(name).stat().st_size == BYTES


def _count_steps(tmp_path: Path, devices: tuple[str, ...]) -> int:
    (tmp_path / "count").mkdir()
    with pytest.MonkeyPatch.context() as monkeypatch:
        world = World(tmp_path / "count", devices=devices)
        run(Play(world, monkeypatch))
        assert world.steps > 11
        return world.steps


@pytest.mark.parametrize("is_done", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("devices", DEVICES, ids="-".join)
def test_whoever_is_killed_at_any_step(
    devices: tuple[str, ...], is_done: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    step_count = _count_steps(tmp_path, devices)
    for number in range(1, step_count + 1):
        root = tmp_path / str(number)
        root.mkdir()
        with monkeypatch.context() as patched:
            world = World(root, dies_at=number, is_done=is_done, devices=devices)
            play = Play(world, patched)
            # Long enough for a second attempt after a pause.
            run(play, rounds=40)
            assert (number, world.stale, world.refused) == (number, [], [])
            claims = [disk.claim for disk in world.disks.values()]
            assert (number, claims, world.paused) == (number, ["root-new", "data-new"], False)


@pytest.mark.parametrize("devices", DEVICES, ids="-".join)
def test_a_guest_that_nobody_comes_back_to_goes_on_with_what_its_vmi_names_or_is_refused(
    devices: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    step_count = _count_steps(tmp_path, devices)
    for number in range(1, step_count + 1):
        root = tmp_path / str(number)
        root.mkdir()
        with monkeypatch.context() as patched:
            world = World(root, dies_at=number, is_done=True, devices=devices)
            play = Play(world, patched)
            for _ in range(8):
                try:
                    play.handler_pass()
                    play.launcher_pass()
                    play.copy()
                except Killed:
                    break
                world.now += 1.0
            play.launcher = play.start_launcher()
            world.now += LEASE_SECONDS + 1
            for _ in range(3):
                play.launcher_pass()
            # No handler for longer than the lease: the guest runs, or waits where a device has no room for a word, and
            # nothing old is taken for its disk.
            assert (number, world.stale) == (number, [])
            assert devices or not world.paused
            # Once there is one again, all is brought to its end.
            run(play, rounds=40)
            assert (number, world.stale) == (number, [])
            assert (number, [disk.claim for disk in world.disks.values()]) == (number, ["root-new", "data-new"])


def test_a_user_who_takes_it_back_has_nothing_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(tmp_path)
    play = Play(world, monkeypatch)
    play.handler_pass()
    play.copy()
    play.launcher_pass()
    assert play.status().disk_move.state == DISK_MOVE_READY
    world.vmi.status.migrated_volumes, world.vmi.status.conditions = [], []
    run(play)
    assert (world.stale, world.refused, world.paused) == ([], [], False)
    assert [disk.claim for disk in world.disks.values()] == ["root-old", "data-old"]
    assert [list(world.directory(name).iterdir()) for name in VOLUMES] == [[], []]


@pytest.mark.parametrize("devices", DEVICES, ids="-".join)
def test_a_disk_that_qemu_does_not_exchange_stays_and_the_vmi_says_so(
    devices: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(tmp_path, fails={"pivot"}, devices=devices)
    play = Play(world, monkeypatch)
    for _ in range(4 if devices else 3):
        play.handler_pass()
        play.copy()
        play.launcher_pass()
        world.now += 1
    assert play.status().disk_move.state == DISK_MOVE_FAILED
    assert [claim_of(volume) for volume in world.vmi.spec.volumes] == ["root-old", "data-old"]
    assert (world.stale, world.paused) == ([], False)
    world.fails.clear()
    run(play, rounds=40)
    assert [disk.claim for disk in world.disks.values()] == ["root-new", "data-new"]


@pytest.mark.parametrize("failure", ["begin", "alike"])
def test_what_fails_is_tried_again_later(failure: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(tmp_path, fails={failure})
    play = Play(world, monkeypatch)
    run(play)
    assert (world.stale, world.refused, world.paused) == ([], [], False)
    assert [disk.claim for disk in world.disks.values()] == ["root-old", "data-old"]
    world.fails.clear()
    run(play, rounds=400)
    assert [disk.claim for disk in world.disks.values()] == ["root-new", "data-new"]


def test_a_guest_whose_vmi_may_not_be_written_goes_on_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(tmp_path, fails={"write"})
    play = Play(world, monkeypatch)
    for _ in range(4):
        play.handler_pass()
        play.copy()
        play.launcher_pass()
        assert not world.paused
    assert (world.stale, world.refused, play.status().disk_move.state) == ([], [], DISK_MOVE_READY)
    world.fails.clear()
    run(play)
    assert [disk.claim for disk in world.disks.values()] == ["root-new", "data-new"]


def test_a_copy_that_qemu_has_ended_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(tmp_path)
    play = Play(world, monkeypatch)
    play.handler_pass()
    for disk in world.disks.values():
        disk.mirror = ""
    play.launcher_pass()
    word = play.status().disk_move
    assert word.state == DISK_MOVE_FAILED
    assert "QEMU has ended a copy" in word.message
    # A copy keeps its word until the handler knows what the VMI names.
    assert all((world.directory(name) / ARRIVING).exists() for name in VOLUMES)


def test_a_guest_that_a_user_has_paused_stays_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(tmp_path)
    world.paused = True
    play = Play(world, monkeypatch)
    run(play)
    assert world.paused
    assert [disk.claim for disk in world.disks.values()] == ["root-new", "data-new"]


def test_orders_wait_while_the_cpus_stand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(tmp_path)
    play = Play(world, monkeypatch)
    play.handler_pass()
    play.copy()
    play.launcher_pass()
    word = play.status().disk_move
    play.launcher.order(MoveDisksRequest(move_id=word.move_id, goal=DISK_MOVE_GOAL_SETTLE))
    assert (play.launcher.holds_guest, world.paused) == (True, True)
    with pytest.raises(WrongState, match="being exchanged"):
        play.launcher.refuse_while_holding()
    world.now += LEASE_SECONDS + 1
    play.launcher_pass()
    play.launcher.refuse_while_holding()
    assert (play.launcher.holds_guest, world.paused) == (False, False)


def test_a_guest_that_somebody_let_go_on_is_settled_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(tmp_path)
    play = Play(world, monkeypatch)
    play.handler_pass()
    play.copy()
    play.launcher_pass()
    order = MoveDisksRequest(move_id=play.status().disk_move.move_id, goal=DISK_MOVE_GOAL_SETTLE)
    play.launcher.order(order)
    world.paused = False
    world.write()
    with pytest.raises(Postponed, match="went on"):
        play.launcher.order(order)
    assert all((world.directory(name) / ARRIVING).exists() for name in VOLUMES)
    run(play)
    assert (world.stale, [disk.claim for disk in world.disks.values()]) == ([], ["root-new", "data-new"])


def test_a_move_that_cannot_begin_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(tmp_path)
    for name in VOLUMES:
        world.image(name).write_bytes(b"somebody's data")
    play = Play(world, monkeypatch)
    play.handler_pass()
    word = play.status().disk_move
    assert word.state == DISK_MOVE_FAILED
    assert "holds data" in word.message
    assert world.image("root").read_bytes() == b"somebody's data"


def settle(play: Play) -> MoveDisksRequest:
    """Bring a move to where the guest stands, and no claims are exchanged yet; the order for it."""
    play.handler_pass()
    play.copy()
    play.launcher_pass()
    order = MoveDisksRequest(move_id=play.status().disk_move.move_id, goal=DISK_MOVE_GOAL_SETTLE)
    play.launcher.order(order)
    return order


def test_a_handler_that_knows_an_old_vmi_lets_no_guest_go_on_beside_its_device(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(tmp_path, devices=VOLUMES)
    play = Play(world, monkeypatch)
    settle(play)
    old = world.vmi
    # The claims are exchanged, but the answer is lost, and the watch is late.
    world.fails.add("answer")
    with pytest.raises(Unavailable):
        play.handler_pass()
    world.fails.clear()
    play.known = old
    for _ in range(3):
        play.handler_pass()
        play.launcher_pass()
        assert (world.stale, world.paused) == ([], True)
    # Nor does it by what it believes that a user has taken back.
    old.status.migrated_volumes, old.status.conditions = [], []
    for _ in range(3):
        play.handler_pass()
        play.launcher_pass()
        assert (world.stale, world.paused) == ([], True)
    play.known = None
    run(play)
    assert (world.stale, [disk.claim for disk in world.disks.values()]) == ([], ["root-new", "data-new"])
    assert not world.paused


def test_a_copy_on_a_device_that_ends_while_the_guest_stands_has_it_wait_for_its_vmi(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(tmp_path, devices=VOLUMES)
    play = Play(world, monkeypatch)
    order = settle(play)
    # The claims are exchanged, the handler is killed, and then the device fails.
    wanted = world.vmi.status.migrated_volumes
    world.vmi = decode(VirtualMachineInstance, encode(as_moved(world.vmi)))
    world.vmi.status.migrated_volumes = wanted
    for disk in world.disks.values():
        disk.mirror = ""
    play.launcher_pass()
    play.launcher = play.start_launcher()
    for _ in range(3):
        world.now += LEASE_SECONDS
        play.launcher_pass()
    word = play.status().disk_move
    assert (world.paused, word.state, word.stands) == (True, DISK_MOVE_FAILED, True)
    for goal in (DISK_MOVE_GOAL_SETTLE, DISK_MOVE_GOAL_FINISH):
        with pytest.raises(WrongState, match="name the old claims"):
            play.launcher.order(MoveDisksRequest(move_id=order.move_id, goal=goal))
    run(play, rounds=40)
    assert (world.stale, world.paused) == ([], False)
    assert [disk.claim for disk in world.disks.values()] == ["root-new", "data-new"]


def test_a_guest_that_somebody_lets_go_on_beside_its_device_is_stopped_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(tmp_path, devices=VOLUMES)
    play = Play(world, monkeypatch)
    settle(play)
    world.paused = False
    world.write()
    play.launcher_pass()
    assert (world.paused, play.status().disk_move.stands) == (True, True)
    run(play, rounds=40)
    assert (world.stale, world.paused) == ([], False)


@pytest.mark.parametrize("devices", DEVICES, ids="-".join)
def test_a_guest_stands_while_qemu_still_exchanges_what_a_killed_launcher_has_told_it_to(
    devices: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(tmp_path, fails={"slow pivot"}, devices=devices)
    play = Play(world, monkeypatch)
    settle(play)
    with pytest.raises(Killed):
        play.handler_pass()
    play.launcher = play.start_launcher()
    world.fails.clear()
    for _ in range(int(LEASE_SECONDS)):
        play.launcher_pass()
        play.handler_pass()
        world.now += 2
        assert (world.stale, world.refused, world.paused) == ([], [], True)
        assert [claim_of(volume) for volume in world.vmi.spec.volumes] == ["root-new", "data-new"]
    assert "still exchanges volume root: the guest stands" in play.status().disk_move.message
    with pytest.raises(Postponed, match="being exchanged"):
        play.launcher.order(MoveDisksRequest(move_id=play.status().disk_move.move_id, goal=DISK_MOVE_GOAL_SETTLE))
    world.end_slow_pivots()
    run(play)
    assert (world.stale, world.refused, world.paused) == ([], [], False)
    assert [disk.claim for disk in world.disks.values()] == ["root-new", "data-new"]
    assert play.status().disk_move.state == DISK_MOVE_DONE


def stand(play: Play) -> str:
    """Bring a move of two devices to where the first one was exchanged, the second was not, and the VMI says so; its
    id.
    """
    settle(play)
    play.world.fails.add("pivot data")
    for _ in range(2):
        play.handler_pass()
    assert [claim_of(volume) for volume in play.world.vmi.spec.volumes] == ["root-new", "data-old"]
    assert play.status().disk_move.stands
    return play.status().disk_move.move_id


def test_a_guest_stands_on_when_a_disk_moves_to_its_device_after_it_was_said_to_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(tmp_path, devices=VOLUMES)
    play = Play(world, monkeypatch)
    stand(play)
    world.disks["data"].claim = "data-new"
    for _ in range(6):
        play.handler_pass()
        play.launcher_pass()
        world.now += 1
        assert (world.stale, world.paused) == ([], True)
    assert "data moved to claim data-new after QEMU had refused it" in play.status().disk_move.message
    # The next launcher knows it as well.
    play.launcher = play.start_launcher()
    play.handler_pass()
    assert (world.stale, world.paused) == ([], True)


def test_no_device_is_wiped_that_the_guest_may_have(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(tmp_path, devices=VOLUMES)
    play = Play(world, monkeypatch)
    wiped: list[str] = []
    monkeypatch.setattr(moving_disks, "wipe_device", wiped.append)
    order = MoveDisksRequest(move_id=stand(play), goal=DISK_MOVE_GOAL_ABORT)
    # What is left is the document of the next start, which has no disk that was plugged in.
    world.has_ended, world.unseen = True, set(VOLUMES)
    for _ in range(2):
        with pytest.raises(WrongState, match="the guest has ended"):
            play.launcher.order(order)
        monkeypatch.setattr(world, "facts", lambda: None)
    assert wiped == []
    monkeypatch.undo()
    monkeypatch.setattr(moving_disks, "wipe_device", wiped.append)
    # It ends between two questions of one look: it seems to live, and not to have the disk.
    world.has_ended = False
    play.launcher.order(order)
    play.launcher.order(order)
    assert set(wiped) == {str(world.image("data"))}


@pytest.mark.parametrize("ends", ["before", "within"])
@pytest.mark.parametrize("devices", DEVICES, ids="-".join)
def test_a_guest_that_ends_while_its_disks_are_exchanged_leaves_the_new_ones_as_disks(
    devices: tuple[str, ...], ends: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(tmp_path, devices=devices)
    play = Play(world, monkeypatch)
    order = settle(play)
    world.vmi = decode(VirtualMachineInstance, encode(as_moved(world.vmi)))
    world.has_ended = ends == "before"
    world.fails.add("qemu")
    with pytest.raises(WrongState, match="guest"):
        play.launcher.order(MoveDisksRequest(move_id=order.move_id, goal=DISK_MOVE_GOAL_FINISH))
    for _ in range(2):
        play.launcher_pass()
        world.cut_power()
        play.launcher = play.start_launcher()
    assert (world.has_ended, world.stale, world.refused) == (True, [], [])


def test_a_launcher_of_an_earlier_version_is_asked_for_no_device(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(tmp_path, devices=VOLUMES)
    play = Play(world, monkeypatch)
    real = play.status

    def status() -> DomainStatus:
        said = real()
        said.moves_to_devices = False
        return said

    monkeypatch.setattr(play, "status", status)
    assert "earlier version" in play.handler_pass()
    assert not any(disk.mirror for disk in world.disks.values())

"""The launcher and the handler of disks that move in place, pass by pass, in the world of disk_move_world."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kvedge.handler.disk_move.disk_move_steps import DiskMoveSteps
from kvedge.handler.launchers.launcher_connections import LauncherCallError
from kvedge.handler.launchers.sync_plan import LauncherView
from kvedge.handler.volumes.hotplug_plan import HotplugSeen
from kvedge.kube.errors import Conflict, Forbidden, Unavailable
from kvedge.launcher.disk_move import disk_mover, moving_disks
from kvedge.launcher.disk_move.disk_move_record import MoveStore
from kvedge.launcher.disk_move.disk_mover import DiskMover
from kvedge.launcher.disks import arriving_disk
from kvedge.launcher.launcher_errors import LauncherError
from kvedge.launcher.launcher_service import status_code
from kvedge.resources.codec import decode, encode
from kvedge.resources.disks.moved_places import moved_place
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.rpc.launcher_pb2 import (
    DOMAIN_STATE_RUNNING,
    DomainStatus,
    MoveDisksRequest,
)
from tests.unit.launcher.disk_move.disk_move_world import VOLUMES, Killed, World, merge


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

# Tests: kvedge/handler/guest/sync_loop.py
"""What the sync loop makes of a launcher that does not answer: how often it looks, and why a run is over."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import pytest

from kvedge.handler.guest import sync_loop
from kvedge.handler.launchers.sync_plan import SILENT_SECONDS, UNRESPONSIVE_SECONDS, LauncherView
from kvedge.kube.patches import MergePatch
from kvedge.kube.reconcile_loop import Again
from kvedge.resources.codec import JsonObject, decode, encode
from kvedge.resources.names import LAUNCHER_SILENT
from kvedge.resources.types.vmi import VirtualMachineInstance
from tests.unit.handler.guest.sync_loops import NODE, a_sync_loop

KEY = ("shop", "web")


class Scene:
    """A loop over one VMI whose launcher has been silent for some time, and may still run."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.down = 0.0
        self.runs = True
        self.said: list[tuple[str, str]] = []
        self.vmi = decode(
            VirtualMachineInstance,
            {
                "metadata": {"name": "web", "namespace": "shop", "uid": "uid-web"},
                "status": {"phase": "Running", "nodeName": NODE, "activePods": {"pod-uid": NODE}},
            },
        )
        monkeypatch.setattr(sync_loop, "runs_here", lambda *_: self.runs)
        self.loop = a_sync_loop(
            vmis=SimpleNamespace(get=lambda *_: self.vmi, observe=lambda _: None),
            connections=SimpleNamespace(
                note=lambda *_: None,
                ensure=lambda *_: None,
                drop=lambda _: None,
                view=lambda _: LauncherView(down_seconds=self.down),
            ),
            network=SimpleNamespace(forget=lambda _: None, plugins={}),
            patch=self._patch,
            said=self.said,
        )

    def _patch(self, _kind: object, _namespace: str, _name: str, patch: MergePatch) -> VirtualMachineInstance:
        self.vmi = decode(VirtualMachineInstance, _merged(encode(self.vmi), patch.body))
        return self.vmi

    def settled(self, down: float) -> Again | None:
        """When it looks again after so many seconds of silence, once all of it has been written."""
        self.down = down
        look: Callable[[tuple[str, str]], Again | None] = self.loop.reconcile
        while (again := look(KEY)) == Again(0.0):
            pass
        return again


def _merged(old: JsonObject, patch: JsonObject) -> JsonObject:
    result = dict(old)
    for key, value in patch.items():
        before = result.get(key)
        result[key] = _merged(before, value) if isinstance(value, dict) and isinstance(before, dict) else value
    return {key: value for key, value in result.items() if value is not None}


def test_a_silent_launcher_is_looked_for_less_often_also_when_that_has_been_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scene = Scene(monkeypatch)
    assert scene.settled(UNRESPONSIVE_SECONDS) == Again(SILENT_SECONDS)
    assert [reason for reason, _ in scene.said] == [LAUNCHER_SILENT]
    assert scene.settled(2 * UNRESPONSIVE_SECONDS) == Again(SILENT_SECONDS)


def test_a_launcher_that_was_silent_and_has_ended_is_not_said_to_run(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene(monkeypatch)
    scene.settled(UNRESPONSIVE_SECONDS)
    scene.runs = False
    scene.settled(47.0)
    why = "the launcher has not answered for 47 s, and nothing of it runs"
    assert (scene.vmi.status.phase, scene.vmi.status.reason) == ("Failed", why)
    assert ("SyncFailed", why) in scene.said

"""A disk that is being filled: what is told of it, and when waiting ends."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self, cast

import pytest

from kvedge.client.disk_wait import DiskWait, disk_summary
from kvedge.client.errors import RefusedError, TimedOutError
from kvedge.client.session import Session
from kvedge.kube.errors import NotFound
from kvedge.resources.codec import decode
from kvedge.resources.types.data_volumes import DataVolume


class Shown:
    """Keeps what was shown."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def show(self, text: str) -> None:
        self.texts.append(text)


class PlayedDisk:
    """A server on which a DataVolume goes through these statuses, and stays in the last one."""

    def __init__(self, *statuses: dict[str, Any] | None) -> None:
        self._statuses = list(statuses)
        self.client = self
        self.namespace = "ns"
        self.now = 0.0

    def get(self, kind: type[DataVolume], namespace: str, name: str) -> DataVolume:
        found = self._statuses.pop(0) if len(self._statuses) > 1 else self._statuses[0]
        if found is None:
            raise NotFound(404, "NotFound", "no such thing")
        return decode(kind, {"metadata": {"name": name, "namespace": namespace}, "spec": {}, "status": found})

    def wait(self, shown: Shown) -> None:
        def pause(seconds: float) -> None:
            self.now += seconds

        DiskWait(cast("Session", self), "web-disk", 10.0, lambda: shown, lambda: self.now, pause).wait_until_filled()


def importing(progress: str) -> dict[str, Any]:
    return {"phase": "ImportInProgress", "progress": progress}


def test_each_step_is_shown_until_it_is_filled() -> None:
    shown = Shown()
    PlayedDisk(None, {"phase": "Pending"}, importing("50.00%"), {"phase": "Succeeded"}).wait(shown)
    assert shown.texts == ["web-disk: not made yet", "web-disk: Pending", "web-disk: ImportInProgress 50.00%"]


def test_a_disk_may_take_any_time_while_it_gets_on() -> None:
    server = PlayedDisk(*(importing(f"{n}.00%") for n in range(100)), {"phase": "Succeeded"})
    server.wait(Shown())
    assert server.now > 10.0


def test_a_disk_that_does_not_get_on_is_told_with_its_reason() -> None:
    waiting = {"conditions": [{"type": "Running", "status": "False", "message": "no such image"}], "phase": "Pending"}
    with pytest.raises(TimedOutError, match="for 10 s: Pending: no such image; `kvedge describe dv web-disk`"):
        PlayedDisk(waiting).wait(Shown())


def test_a_disk_that_fails_and_begins_again_for_ever_is_told() -> None:
    running = {"type": "Running", "status": "False", "message": "no such image"}
    tries = [{"phase": "Pending", "conditions": [running]}, {"phase": "ImportScheduled"}] * 100
    server = PlayedDisk(*tries)
    with pytest.raises(TimedOutError, match=r"nothing new happened.*Pending: no such image"):
        server.wait(Shown())
    assert server.now < 15.0


def test_an_import_that_begins_again_gets_on() -> None:
    once = [importing(f"{n}.00%") for n in range(60)]
    server = PlayedDisk(*once, *once, {"phase": "Succeeded"})
    server.wait(Shown())
    assert server.now > 30.0


def test_a_disk_that_failed_is_not_waited_for() -> None:
    failed = {"phase": "Failed", "conditions": [{"type": "Running", "status": "False", "message": "wrong checksum"}]}
    with pytest.raises(RefusedError, match="web-disk cannot be filled: Failed: wrong checksum"):
        PlayedDisk(failed).wait(Shown())


def test_a_condition_that_holds_is_no_reason() -> None:
    found = decode(DataVolume, {"metadata": {"name": "d"}, "spec": {}, "status": {
        "phase": "ImportInProgress",
        "progress": "N/A",
        "conditions": [
            {"type": "Bound", "status": "True", "message": "PVC d Bound"},
            {"type": "Ready", "status": "False", "message": "not yet"},
        ],
    }})  # fmt: skip
    assert disk_summary(found.status) == "ImportInProgress"

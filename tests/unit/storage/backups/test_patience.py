"""A process that moves nothing for too long is found out; the processes are real, the time is a test's."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from kvedge.storage.backups.patience import Patience, Stalled, read_room


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def copier() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        yield process
        process.kill()


def test_one_that_hangs_is_given_up_and_one_that_goes_on_is_not(copier: subprocess.Popen[bytes]) -> None:
    assert copier.stdin is not None
    assert copier.stdout is not None
    clock = Clock()
    patience = Patience(copier.pid, 10, clock)
    patience.check()
    clock.now = 9
    patience.check()
    copier.stdin.write(bytes(8192))
    copier.stdin.flush()
    assert len(copier.stdout.read(8192)) == 8192
    clock.now = 11
    patience.check()
    clock.now = 20.9
    patience.check()
    clock.now = 21
    with pytest.raises(Stalled, match="10 s"):
        patience.check()


def test_one_of_which_nothing_is_known_is_not_given_up() -> None:
    clock = Clock()
    patience = Patience(0, 10, clock)
    clock.now = 100
    patience.check()


def test_the_time_in_which_nothing_moved_is_told(copier: subprocess.Popen[bytes]) -> None:
    clock = Clock()
    patience = Patience(copier.pid, 10, clock)
    patience.check()
    clock.now = 4
    patience.check()
    assert patience.quiet_seconds == 4


def test_a_place_has_room_and_of_one_that_is_not_there_nobody_knows(tmp_path: Path) -> None:
    assert (read_room(str(tmp_path)) or 0) > 0
    assert read_room(str(tmp_path / "absent")) is None

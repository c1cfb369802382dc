"""A freeze is a promise to thaw: kept on disk, by whoever is there when it is due."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from kvedge.launcher.agent.guest_freeze import GuestFreeze
from kvedge.launcher.launcher_options import LauncherOptions
from kvedge.launcher.run.run_record import RunRecord


@pytest.fixture
def options(tmp_path: Path) -> LauncherOptions:
    return LauncherOptions(namespace="default", name="web", uid="u-1", root=str(tmp_path))


@pytest.fixture
def record(options: LauncherOptions) -> RunRecord:
    return RunRecord(options)


def path(options: LauncherOptions) -> Path:
    return Path(options.run_directory) / "freeze.json"


def test_nothing_is_promised_at_first(record: RunRecord) -> None:
    freeze = GuestFreeze(record)
    assert not freeze.is_on
    assert freeze.wait(0.0) == math.inf


def test_a_freeze_ends_in_time(record: RunRecord) -> None:
    freeze = GuestFreeze(record)
    freeze.begin(300, 1000.0)
    assert freeze.is_on
    assert freeze.wait(1000.0) == 300
    assert freeze.wait(1300.0) == 0.0


def test_the_next_launcher_keeps_the_promise(record: RunRecord) -> None:
    GuestFreeze(record).begin(300, 1000.0)
    assert GuestFreeze(record).wait(1100.0) == 200
    GuestFreeze(record).note_thaw()
    assert not GuestFreeze(record).is_on


def test_a_freeze_without_end_is_remembered_too(record: RunRecord) -> None:
    freeze = GuestFreeze(record)
    freeze.begin(0, 1000.0)
    assert GuestFreeze(record).is_on
    assert GuestFreeze(record).wait(1e9) == math.inf
    freeze.thaw_soon(2000.0)
    assert freeze.wait(2000.0) == 0.0


def test_of_two_freezes_the_later_end_counts(record: RunRecord) -> None:
    freeze = GuestFreeze(record)
    freeze.begin(300, 1000.0)
    freeze.begin(10, 1001.0)
    assert freeze.wait(1001.0) == 299
    freeze.begin(300, 1100.0)
    assert freeze.wait(1100.0) == 300
    assert GuestFreeze(record).wait(1100.0) == 300


def test_a_thaw_that_fails_is_tried_on_for_ever(record: RunRecord) -> None:
    freeze = GuestFreeze(record)
    freeze.begin(5, 0.0)
    waits, now = [], 5.0
    for _ in range(50):
        assert freeze.wait(now) == 0.0
        freeze.note_failure(now)
        waits.append(freeze.wait(now))
        now += waits[-1]
    assert waits[:6] == [1, 2, 4, 8, 10, 10]
    assert max(waits) == 10
    assert freeze.is_on


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"thawAt": "soon"}', '{"thawAt": null}'])
def test_a_promise_that_cannot_be_read_is_due(record: RunRecord, options: LauncherOptions, text: str) -> None:
    path(options).write_text(text)
    freeze = GuestFreeze(record)
    assert freeze.is_on
    assert freeze.wait(1.0) == 0.0


def test_a_promise_that_cannot_be_written_is_not_given(record: RunRecord, options: LauncherOptions) -> None:
    (Path(options.run_directory) / "freeze.json.new").mkdir()
    freeze = GuestFreeze(record)
    with pytest.raises(OSError, match="Is a directory"):
        freeze.begin(5, 0.0)
    assert not freeze.is_on


def test_what_is_thawed_is_forgotten_even_if_its_file_stays(record: RunRecord, options: LauncherOptions) -> None:
    freeze = GuestFreeze(record)
    freeze.begin(5, 0.0)
    path(options).unlink()
    path(options).mkdir()
    freeze.note_thaw()
    assert not freeze.is_on


def test_the_record_is_json_without_surprises(record: RunRecord, options: LauncherOptions) -> None:
    GuestFreeze(record).begin(5, 10.5)
    assert json.loads(path(options).read_text()) == {"thawAt": 15.5}

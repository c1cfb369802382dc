from __future__ import annotations

import fcntl
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from kvedge.standalone.agent.container.container_files import ContainerFiles, PodFiles
from kvedge.standalone.agent.container.container_logs import ContainerLogs
from kvedge.standalone.agent.container.container_state import ExitRecord, record_exit
from kvedge.standalone.agent.container.log_times import read_times
from kvedge.standalone.agent.pod import log_keeper
from kvedge.standalone.agent.pod.log_keeper import LogKeeper
from kvedge.standalone.apiserver.routes.log_source import LogRequest, NoLog


@pytest.fixture
def files(tmp_path: Path) -> ContainerFiles:
    made = PodFiles(tmp_path / "uid").container("c")
    made.log.parent.mkdir(parents=True)
    return made


def _read(files: ContainerFiles, **wanted: Any) -> str:
    request = LogRequest(namespace="ns", pod="p", pod_uid="uid", container="c", **wanted)
    logs = ContainerLogs(files.pod.parent, "boot")
    return b"".join(logs.read_log(request, threading.Event())).decode()


def _append(files: ContainerFiles, text: str) -> None:
    with files.log.open("a") as stream:
        stream.write(text)


def _at(second: int) -> datetime:
    return datetime.fromtimestamp(second, UTC)


def test_all_or_the_last_lines_are_given_out(files: ContainerFiles) -> None:
    _append(files, "one\ntwo\nthree\nunfinished")

    assert _read(files) == "one\ntwo\nthree\nunfinished"
    assert _read(files, tail_lines=2) == "three\nunfinished"
    assert _read(files, tail_lines=0) == ""


def test_lines_have_the_time_at_which_they_were_seen(files: ContainerFiles) -> None:
    keeper = LogKeeper(files.pod.parent)
    _append(files, "one\ntwo\n")
    keeper.look(100.0)
    _append(files, "three\n")
    keeper.look(200.0)

    assert _read(files, timestamps=True) == (
        "1970-01-01T00:01:40.000000Z one\n1970-01-01T00:01:40.000000Z two\n1970-01-01T00:03:20.000000Z three\n"
    )
    assert _read(files, since=_at(150)) == "three\n"
    assert _read(files, since=_at(50)) == "one\ntwo\nthree\n"
    assert _read(files, since=_at(250)) == ""


def test_a_log_that_does_not_grow_costs_no_entry(files: ContainerFiles) -> None:
    keeper = LogKeeper(files.pod.parent)
    _append(files, "one\n")
    for second in range(10):
        keeper.look(float(second))

    assert read_times(files.log).times == (0,)


def test_a_log_that_is_too_long_is_cut_and_its_older_half_is_still_read(files: ContainerFiles) -> None:
    keeper = LogKeeper(files.pod.parent, most_bytes=100)
    # As the container does: it keeps its descriptor, and appends.
    with files.log.open("ab", buffering=0) as container:
        container.write(b"old\n" * 30)
        keeper.look(1.0)
        container.write(b"new\n")
        keeper.look(2.0)

        assert files.log.read_text() == "new\n"
        assert _read(files) == "old\n" * 30 + "new\n"
        container.write(b"newer\n" * 30)
        keeper.look(3.0)
    assert _read(files) == "new\n" + "newer\n" * 30
    assert sum(path.stat().st_size for path in files.log.parent.iterdir()) < 500


def test_of_a_log_that_grows_as_fast_as_it_is_copied_only_what_was_seen_is_copied(
    files: ContainerFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    keeper = LogKeeper(files.pod.parent, most_bytes=100)
    monkeypatch.setattr(log_keeper, "_PIECE", 10)
    _append(files, "y\n" * 60)
    beats: list[int] = []

    def write_on() -> None:
        beats.append(len(beats))
        # The first is before the look; with no end in sight, the test has one.
        if 0 < beats[-1] < 1000:
            _append(files, "z\n" * 20)

    monkeypatch.setattr(keeper.rounds, "beat", write_on)
    keeper.look(1.0)
    assert len(beats) == 1 + 120 / 10
    assert files.log.with_name(f"{files.log.name}.1").read_text() == "y\n" * 60
    assert files.log.read_text() == ""


def test_following_ends_with_the_container_and_misses_nothing(files: ContainerFiles) -> None:
    _append(files, "before\n")
    record_exit(files, ExitRecord(exit_code=0, reason="Completed", finished_at=0.0))

    assert _read(files, follow=True) == "before\n"


def test_following_goes_on_until_the_reader_goes(files: ContainerFiles) -> None:
    _append(files, "before\n")
    lock = files.lock
    lock.parent.mkdir(parents=True)
    with lock.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        stopped = threading.Event()
        request = LogRequest(namespace="ns", pod="p", pod_uid="uid", container="c", follow=True)
        pieces = ContainerLogs(files.pod.parent, "boot").read_log(request, stopped)
        assert next(pieces) == b"before\n"
        _append(files, "after\n")
        assert next(pieces) == b"after\n"
        stopped.set()
        assert list(pieces) == []


def test_a_line_without_end_is_given_out_in_pieces(files: ContainerFiles) -> None:
    _append(files, "x" * 200_000)

    assert _read(files) == "x" * 200_000


@pytest.mark.parametrize(
    ("wanted", "words"),
    [({}, "waiting to start"), ({"previous": True}, "previous terminated container")],
)
def test_no_log_is_said_before_anything_is_sent(files: ContainerFiles, wanted: dict[str, Any], words: str) -> None:
    with pytest.raises(NoLog, match=words):
        _read(files, **wanted)


@pytest.mark.parametrize("name", ["../../x", "a/b"])
def test_a_name_that_is_a_path_is_no_container(files: ContainerFiles, name: str) -> None:
    request = LogRequest(namespace="ns", pod="p", pod_uid="uid", container=name)

    with pytest.raises(NoLog):
        ContainerLogs(files.pod.parent, "boot").read_log(request, threading.Event())

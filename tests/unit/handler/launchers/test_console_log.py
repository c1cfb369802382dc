"""What is kept of a guest's serial console: which part is asked for, and what is never read."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kvedge.handler.launchers import console_log
from kvedge.handler.launchers.console_log import MOST_BYTES, BadLogRequest, LogRequest, log_request, read_console_log
from kvedge.handler.launchers.launcher_socket import NotThere, Unexpected

UID = "0b6a1ff0-5a0c-4a3e-9a52-000000000001"


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    (tmp_path / UID).mkdir()
    return tmp_path


def log_of(volume: Path, suffix: str = "") -> Path:
    return volume / UID / f"virt-serial0-log{suffix}"


def test_all_that_is_kept_is_read_in_the_order_it_was_written(volume: Path) -> None:
    log_of(volume, ".1").write_bytes(b"older \x1b[31m")
    log_of(volume).write_bytes(b"newer \xff")
    assert read_console_log(volume, UID, LogRequest()) == b"older \x1b[31mnewer \xff"
    assert read_console_log(volume, UID, LogRequest(tail_bytes=9)) == b"1mnewer \xff"
    assert read_console_log(volume, UID, LogRequest(tail_bytes=3)) == b"r \xff"
    assert read_console_log(volume, UID, LogRequest(previous=True)) == b"older \x1b[31m"
    assert read_console_log(volume, UID, LogRequest(4, previous=True)) == b"[31m"


def test_a_log_that_was_never_cut_has_nothing_older(volume: Path) -> None:
    log_of(volume).write_bytes(b"text")
    assert read_console_log(volume, UID, LogRequest()) == b"text"
    with pytest.raises(NotThere):
        read_console_log(volume, UID, LogRequest(previous=True))


def test_without_a_log_there_is_nothing(volume: Path) -> None:
    with pytest.raises(NotThere):
        read_console_log(volume, UID, LogRequest())
    with pytest.raises(NotThere):
        read_console_log(volume / "gone", UID, LogRequest())


def test_a_log_that_is_cut_while_it_is_read_is_read_again(volume: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log_of(volume).write_bytes(b"first part")
    real, cuts = console_log._read_tail, []

    def cutting(place: Path, relative: str, limit: int) -> tuple[bytes, tuple[int, int]]:
        found = real(place, relative, limit)
        if not relative.endswith(".1") and not cuts:
            cuts.append(log_of(volume).rename(log_of(volume, ".1")))
            log_of(volume).write_bytes(b", second")
        return found

    monkeypatch.setattr(console_log, "_read_tail", cutting)
    assert read_console_log(volume, UID, LogRequest()) == b"first part, second"


def test_links_and_pipes_of_a_guest_that_broke_out_are_not_read(volume: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("of the host")
    log_of(volume).symlink_to(secret)
    with pytest.raises(Unexpected):
        read_console_log(volume, UID, LogRequest())
    log_of(volume).unlink()
    os.mkfifo(log_of(volume))
    with pytest.raises(Unexpected):
        read_console_log(volume, UID, LogRequest())
    log_of(volume).unlink()
    log_of(volume).write_bytes(b"")
    log_of(volume, ".1").symlink_to(secret)
    with pytest.raises(Unexpected):
        read_console_log(volume, UID, LogRequest())


def test_of_a_file_however_large_a_bounded_part_is_read(volume: Path) -> None:
    with log_of(volume).open("wb") as file:
        file.truncate(1 << 40)
    assert len(read_console_log(volume, UID, log_request({"tailBytes": "9" * 30}))) == MOST_BYTES


def test_a_query_says_which_part() -> None:
    assert log_request({}) == LogRequest(MOST_BYTES, previous=False)
    assert log_request({"tailBytes": "10", "previous": "true"}) == LogRequest(10, previous=True)


@pytest.mark.parametrize(
    "query", [{"tailBytes": "0"}, {"tailBytes": "-1"}, {"tailBytes": "1e3"}, {"tailBytes": "٣"}, {"previous": "yes"}]
)
def test_a_query_without_sense_names_its_parameter(query: dict[str, str]) -> None:
    with pytest.raises(BadLogRequest, match=next(iter(query))):
        log_request(query)

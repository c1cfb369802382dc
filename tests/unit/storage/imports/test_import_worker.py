"""What the worker's process ends with, and what it leaves."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvedge.resources.codec import decode_json, encode_json
from kvedge.resources.types.import_job import HttpSource, ImportJob, ImportOutcome
from kvedge.storage.imports import import_run, import_worker
from kvedge.storage.imports.import_run import ImportPlaces
from kvedge.storage.imports.import_worker import AGAIN, NEVER, SUCCESS, carry_out, leave


def done(job: ImportJob, directory: Path) -> tuple[int, ImportOutcome]:
    return carry_out(encode_json(job).decode(), ImportPlaces(directory=directory), 0)


def test_a_claim_that_is_filled_ends_with_0_and_says_how_large_the_disk_is(tmp_path: Path) -> None:
    code, outcome = done(ImportJob(name="d", size=1 << 20), tmp_path)
    assert (code, outcome.virtual_size, outcome.reason) == (SUCCESS, 1 << 20, "")


def test_a_server_that_may_not_be_reached_ends_with_1_and_says_why(tmp_path: Path) -> None:
    code, outcome = done(ImportJob(name="d", size=1 << 20, http=HttpSource(url="http://127.0.0.1:1/x")), tmp_path)
    assert (code, outcome.fatal) == (AGAIN, False)
    assert "never imported from" in outcome.message


def test_what_no_attempt_can_mend_ends_with_3(tmp_path: Path) -> None:
    job = ImportJob(name="d", size=1 << 20, http=HttpSource(url="http://x/", checksum="md5:1"))
    assert done(job, tmp_path)[0] == NEVER
    assert carry_out("{", ImportPlaces(directory=tmp_path), 0)[1].fatal


def test_an_unexpected_error_is_told_and_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stumble(*_: object) -> None:
        raise KeyError("x" * 10_000)

    monkeypatch.setattr(import_run, "_run", stumble)
    code, outcome = done(ImportJob(name="d"), tmp_path)
    assert code == AGAIN
    assert outcome.message.startswith("Unable to process data: KeyError")
    assert len(outcome.message) <= 2000


def test_the_outcome_is_left_as_json(tmp_path: Path) -> None:
    outcome = ImportOutcome(message="m", reason="Error", virtual_size=7)
    leave(outcome, tmp_path / "log")
    assert decode_json(ImportOutcome, (tmp_path / "log").read_bytes()) == outcome
    # A container without such a file ends all the same.
    leave(outcome, tmp_path / "nowhere/log")
    assert Path("/dev/termination-log") == import_worker.TERMINATION_LOG

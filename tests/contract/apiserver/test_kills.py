"""kill -9 while clients write: a few rounds; `python -m tests.bench.api_bench` does a thousand."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bench.kill_rounds import run_rounds
from tests.support.api_nursery import nursery

pytestmark = pytest.mark.contract


def test_what_was_answered_is_there_and_whole_after_each_kill(tmp_path: Path) -> None:
    with nursery() as born:
        outcome = run_rounds(born, tmp_path, rounds=12, seed=3)
    assert outcome.faults == []
    assert outcome.rounds == 12
    assert outcome.answered >= 12 * 4

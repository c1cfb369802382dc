"""A program of the site: what it is given, and what it cannot do."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from kvedge.controller.alarms.words.hook_program import WordsFailed, call_hook, find_hook


def program(path: Path, text: str, mode: int = 0o755) -> Path:
    made = path / "alert-hook"
    made.write_text(f"#!/bin/sh\n{text}\n")
    made.chmod(mode)
    for each in (path, *path.parents):
        if each.stat().st_uid == os.geteuid() and each != Path("/"):
            each.chmod(each.stat().st_mode | 0o011)
    return made


def test_it_gets_the_alert_as_json_and_no_rights(tmp_path: Path) -> None:
    heard = tmp_path / "heard"
    heard.touch()
    heard.chmod(0o666)
    call_hook(program(tmp_path, f"(cat; id -u; env) > {heard}"), {"state": "firing", "name": 'a "job"'})
    first, user, *variables = heard.read_text().splitlines()
    assert json.loads(first) == {"state": "firing", "name": 'a "job"'}
    assert int(user) == (65534 if os.geteuid() == 0 else os.geteuid())
    assert {each.partition("=")[0] for each in variables} <= {"PATH", "LANG", "PWD", "_", "SHLVL"}


@pytest.mark.parametrize(
    ("text", "words"),
    [("echo no carrier >&2; exit 3", "ended with 3: no carrier"), ("sleep 60 & sleep 60", "longer than 0.5 s")],
)
def test_what_fails_or_hangs_is_told_and_ended(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(WordsFailed, match=words):
        call_hook(program(tmp_path, text), {}, seconds=0.5 if "sleep" in text else 30)


def test_one_that_is_not_there_is_no_fault(tmp_path: Path) -> None:
    assert find_hook(tmp_path / "alert-hook") is None


@pytest.mark.parametrize("mode", [0o644, 0o700, 0o757, 0o775])
def test_one_that_others_may_write_or_nobody_may_start_is_refused(tmp_path: Path, mode: int) -> None:
    with pytest.raises(WordsFailed, match="chmod 755"):
        find_hook(program(tmp_path, "true", mode))

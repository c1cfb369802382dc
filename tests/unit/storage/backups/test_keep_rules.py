# Tests: kvedge/storage/backups/keep_rules.py
"""Which backups go: by a table, and against restic's own rules where it is installed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from kvedge.resources.types.protection.backup_tasks import KeepRules
from kvedge.storage.backups.keep_rules import plan_pruning, plan_removal
from kvedge.storage.backups.restic_client import KeptFile
from kvedge.storage.backups.stored_backups import StoredBackup
from tests.support.quick_repository import lay_repository

NOW = datetime(2026, 3, 10, 12, tzinfo=UTC)
# Two in an hour, days of one week and of two, and the turn of a year within an ISO week. Each costs a process.
TIMES = [
    "2025-12-31 10:00:00",
    "2026-01-01 10:00:00",
    "2026-03-01 09:00:00",
    "2026-03-02 09:00:00",
    "2026-03-09 10:05:00",
    "2026-03-09 10:55:00",
]
RULES = [
    KeepRules(hourly=2),
    KeepRules(weekly=4),
    KeepRules(last=3, daily=2, monthly=2),
]


def backup(name: str, time: str, *, complete: bool = True) -> StoredBackup:
    disk = KeptFile(f"disk-{name}", time, frozenset({"volume=root"}))
    record = KeptFile(f"record-{name}", time, frozenset({"record"}))
    return StoredBackup("default", "web", "uid", name, (record,) if complete else (), (disk,))


def at(moment: datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")


ALL = [backup(time, f"{time.replace(' ', 'T')}Z") for time in TIMES]


def kept(keep: KeepRules, backups: list[StoredBackup] = ALL) -> set[str]:
    gone = {each.id for each in plan_pruning(backups, keep, (), NOW).gone}
    return {each.id for each in backups} - gone


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("restic") is None:
        pytest.skip("needs restic (apt: restic)")
    place = tmp_path_factory.mktemp("repository")
    (place / "file").write_text("file")
    lay_repository(place / "r", "x")
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda time: restic(place, "backup", "--time", time, str(place / "file")), TIMES))
    return place


def restic(place: Path, *words: str) -> str:
    environment = {**os.environ, "RESTIC_PASSWORD": "x", "TZ": "UTC"}
    command = ["restic", "-q", "--no-cache", "-r", str(place / "r"), *words]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout


def test_rules_mean_what_restics_do(repository: Path) -> None:
    def ask(keep: KeepRules) -> set[str]:
        words = [f"--keep-{name}={count}" for name in keep.__struct_fields__ if (count := getattr(keep, name))]
        answer = json.loads(restic(repository, "forget", "--dry-run", "--json", "--no-lock", *words))
        return {each["time"][:19].replace("T", " ") for group in answer for each in group["keep"]}

    with ThreadPoolExecutor(2) as pool:
        for keep, theirs in zip(RULES, pool.map(ask, RULES), strict=True):
            # Newer ones keep the oldest too while a rule names more than there are; so does kvedge.
            assert kept(keep) - {TIMES[0]} == theirs - {TIMES[0]}, keep
            assert kept(keep) >= theirs, keep


@pytest.mark.parametrize(
    ("keep", "stay"),
    [
        (KeepRules(last=1), TIMES[5:]),
        (KeepRules(last=4), TIMES[2:]),
        (KeepRules(hourly=2), [TIMES[3], TIMES[5]]),
        (KeepRules(daily=3), [TIMES[2], TIMES[3], TIMES[5]]),
        (KeepRules(weekly=3), [TIMES[2], TIMES[3], TIMES[5]]),
        # The last day of a year and the first of the next are of one week.
        (KeepRules(weekly=4), [TIMES[1], TIMES[2], TIMES[3], TIMES[5]]),
        (KeepRules(monthly=2), [TIMES[1], TIMES[5]]),
        (KeepRules(monthly=3), [TIMES[0], TIMES[1], TIMES[5]]),
        (KeepRules(monthly=40), [TIMES[0], TIMES[1], TIMES[5]]),
        (KeepRules(last=2, monthly=1), TIMES[4:]),
        (KeepRules(last=0, daily=1), TIMES[5:]),
    ],
)
def test_the_newest_of_each_time_stays(keep: KeepRules, stay: list[str]) -> None:
    assert kept(keep) == set(stay)


def test_without_rules_nothing_goes() -> None:
    assert kept(KeepRules()) == set(TIMES)


def test_the_newest_complete_one_stays_whatever_came_after_it() -> None:
    backups = [
        backup("old", at(NOW - timedelta(days=9))),
        backup("good", at(NOW - timedelta(days=8))),
        backup("broken", at(NOW - timedelta(days=2)), complete=False),
    ]
    plan = plan_pruning(backups, KeepRules(last=1), (), NOW)
    assert [each.id for each in plan.gone] == ["old"]
    assert [each.id for each in plan.abandoned] == ["broken"]
    assert plan.kept == 1


def test_a_try_is_abandoned_after_a_day_of_all_its_disks_and_never_while_it_is_worked_with() -> None:
    young = KeptFile("young", at(NOW - timedelta(hours=23)), frozenset({"volume=data"}))
    old = backup("try", at(NOW - timedelta(days=3)), complete=False)
    both = StoredBackup("default", "web", "uid", "try", (), (*old.disks, young))
    assert plan_pruning([both], KeepRules(last=1), (), NOW).abandoned == ()
    assert plan_pruning([old], KeepRules(last=1), ("try",), NOW).abandoned == ()
    assert plan_pruning([old], KeepRules(last=1), (), NOW).abandoned == (old,)


def test_what_is_in_use_stays() -> None:
    plan = plan_pruning(ALL, KeepRules(last=1), (TIMES[0], TIMES[3]), NOW)
    assert {each.id for each in plan.gone} == set(TIMES) - {TIMES[0], TIMES[3], TIMES[-1]}


def test_a_backup_that_goes_half_is_none_at_once() -> None:
    plan = plan_pruning(ALL, KeepRules(last=5), (), NOW)
    assert plan.numbers() == ([f"record-{TIMES[0]}"], [f"disk-{TIMES[0]}"])


def test_backups_of_two_vms_are_never_judged_together() -> None:
    other = StoredBackup("default", "web", "another uid", "x", (), ())
    with pytest.raises(ValueError, match="several VMs"):
        plan_pruning([*ALL, other], KeepRules(last=1), (), NOW)


def test_by_their_ids_all_go_but_the_last_and_what_is_in_use() -> None:
    plan, reasons = plan_removal(ALL, {TIMES[0], TIMES[1], TIMES[-1]}, (TIMES[1],))
    assert [each.id for each in plan.gone] == [TIMES[0]]
    assert reasons == [
        f"backup {TIMES[-1]} is the last complete one of its VM",
        f"backup {TIMES[1]} is in use",
    ]

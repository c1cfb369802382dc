"""One schedule of backups with what it has made, to which its plan's actions are applied as an API server would."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from kvedge.controller.backups.upkeep.rounds import run_name
from kvedge.controller.backups.upkeep.schedule_plan import ScheduleView, next_sequence, plan_schedule
from kvedge.controller.snapshots.snapshot_actions import Create, Delete, Patch, Told
from kvedge.resources.codec import decode, encode
from kvedge.resources.meta import condition
from kvedge.resources.types.protection.backup_schedules import BackupSchedule
from kvedge.resources.types.protection.backup_tasks import BackupTask
from kvedge.resources.types.protection.backup_tests import BackupTest
from kvedge.resources.types.protection.backups import BackupRun
from kvedge.runtime.clock import rfc3339
from tests.support.builders import NOW, patched

UID = "0f5c0000-0000-4000-8000-00000000000c"


class World:
    """A schedule of two VMs."""

    def __init__(self, **spec: Any) -> None:
        self.now: datetime = NOW
        body = {"vmNames": ["db", "web"], "repositoryName": "usb", "every": "24h", **spec}
        metadata = {"name": "nightly", "namespace": "default", "uid": UID}
        self.schedule = decode(BackupSchedule, {"metadata": metadata, "spec": body})
        self.vms, self.absent = ["db", "web"], list[str]()
        self.runs: dict[str, BackupRun] = {}
        self.tasks: dict[str, BackupTask] = {}
        self.tests: dict[str, BackupTest] = {}
        self.strangers: set[str] = set()
        self.has_repository = True
        self.refusal = ""
        self.refuses = ""
        self.told: list[Told] = []

    def settle(self) -> float | None:
        """Do what the plan says until it says nothing more; in how many seconds it looks again."""
        for _ in range(12):
            runs = list(self.runs.values())
            names = {run_name(self.schedule, vm, next_sequence(self.schedule, runs)) for vm in self.vms}
            view = ScheduleView(
                schedule=self.schedule,
                vms=self.vms,
                absent=self.absent,
                runs=runs,
                tasks=list(self.tasks.values()),
                tests=list(self.tests.values()),
                taken=names & self.strangers,
                has_repository=self.has_repository,
                refusal=self.refusal,
            )
            plan = plan_schedule(view, self.now)
            if not plan.actions:
                self.refusal = ""
                return plan.again_after
            for action in plan.actions:
                self._do(action)
            self.told += plan.told
        raise AssertionError(f"the plan does not settle: {plan}")

    def open_runs(self) -> list[str]:
        return sorted(each.metadata.name for each in self.runs.values() if not each.is_final)

    def end(self, name: str, phase: str = "Succeeded", message: str = "") -> None:
        """Play a run's or a task's end."""
        places: list[dict[str, Any]] = [self.runs, self.tasks, self.tests]
        place = next(each for each in places if name in each)
        status = {"phase": phase, "message": message, "completionTime": rfc3339(self.now)}
        if name in self.runs:
            status["backupID"] = f"id-of-{name}"
        place[name] = decode(type(place[name]), {**encode(place[name]), "status": status})

    def end_all(self) -> None:
        for name in self.open_runs():
            self.end(name)
        self.settle()

    def wait(self, **time: float) -> None:
        self.now += timedelta(**time)

    def ready(self) -> tuple[str, str, str]:
        found = condition(self.schedule.status.conditions, "Ready")
        assert found is not None
        return found.status, found.reason, found.message

    def _do(self, action: Any) -> None:
        match action:
            case Create(BackupRun() as item):
                assert item.metadata.name not in self.runs, "made twice"
                if self.refuses:
                    self.refusal = self.refuses
                else:
                    self.runs[item.metadata.name] = item
            case Create(BackupTask() as item):
                assert item.metadata.name not in self.tasks, "made twice"
                item.metadata.creation_timestamp = rfc3339(self.now)
                self.tasks[item.metadata.name] = item
            case Create(BackupTest() as item):
                assert item.metadata.name not in self.tests, "made twice"
                item.metadata.creation_timestamp = rfc3339(self.now)
                item.metadata.uid = item.metadata.name
                self.tests[item.metadata.name] = item
            case Delete(BackupTest() as item):
                del self.tests[item.metadata.name]
            case Delete(BackupRun() as item):
                del self.runs[item.metadata.name]
            case Delete(BackupTask() as item):
                del self.tasks[item.metadata.name]
            case Patch(BackupSchedule() as item, body, "status"):
                self.schedule = decode(BackupSchedule, patched(encode(item), body))
            case _:
                raise AssertionError(f"no action that a schedule has: {action}")

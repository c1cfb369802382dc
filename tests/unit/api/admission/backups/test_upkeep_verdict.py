"""Which schedules of backups and which tasks enter."""

from __future__ import annotations

from typing import Any

import pytest

from kvedge.api.admission.admission_plan import plan_verdict
from kvedge.api.admission.rules.subject import Cluster
from kvedge.resources.codec import JsonObject
from tests.support.reviews import request

CLUSTER = Cluster("amd64")
ID = "0f5c0000-0000-4000-8000-000000000000"


def document(kind: str, spec: Any, name: str = "x") -> JsonObject:
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "backup.kvedge.io/v1alpha1", "kind": kind, "metadata": metadata, "spec": spec}


def schedule(**spec: Any) -> JsonObject:
    body = {"vmNames": ["web"], "repositoryName": "usb", "every": "24h", **spec}
    return document("BackupSchedule", {name: value for name, value in body.items() if value is not None})


def task(action: str, **spec: Any) -> JsonObject:
    return document("BackupTask", {"action": action, "repositoryName": "usb", **spec})


def boot_test(**spec: Any) -> JsonObject:
    return document("BackupTest", {"vmName": "web", "repositoryName": "usb", **spec})


PRUNE = {"vmNames": ["web"], "keep": {"last": 1}}


@pytest.mark.parametrize(
    "written",
    [
        schedule(),
        schedule(every=None, cron="30 2 * * *"),
        schedule(every=None, cron="@daily", keep={"last": 3, "daily": 7, "weekly": 4, "monthly": 12}),
        schedule(vmNames=None, selector={}),
        schedule(selector={"matchLabels": {"tier": "shop"}}, verifyEvery="24h", verifyParts=7, testEvery="168h"),
        schedule(deadline="8h", successfulRunsHistoryLimit=1, failedRunsHistoryLimit=9),
        task("Prune", **PRUNE),
        task("Prune", vmNames=["web"], backupIDs=[ID], dryRun=True),
        task("Verify", parts=7),
        task("Verify", full=True, deadline="8h"),
        task("List"),
        boot_test(),
        boot_test(
            backupID=ID, vmNamespace="old", seconds=60, requireAgent=True, storageClassName="fast", deadline="1h"
        ),
    ],
)
def test_what_is_right_enters(written: JsonObject) -> None:
    assert plan_verdict(request(written, None), CLUSTER).causes == ()


@pytest.mark.parametrize(
    ("written", "field", "words"),
    [
        (schedule(vmNames=[]), "spec", "vmNames or selector must say which VMs"),
        (schedule(vmNames=["Web"]), "spec.vmNames[0]", "no name of a VM"),
        (schedule(vmNames=["w"] * 201), "spec.vmNames", "at most 200 VMs"),
        (schedule(selector={"matchLabels": {"a b": "c"}}), "spec.selector.matchLabels", "no key of a label"),
        (schedule(repositoryName=""), "spec.repositoryName", "must be given"),
        (schedule(every=None), "spec", "one of every and cron"),
        (schedule(cron="0 2 * * *"), "spec", "one of every and cron"),
        (schedule(every="1d"), "spec.every", "write it as 8h or 90m"),
        (schedule(every="1m"), "spec.every", "between 5 minutes and 366 days"),
        (schedule(every=None, cron="0 2 * *"), "spec.cron", "five fields"),
        (schedule(every=None, cron="0 0 31 2 *"), "spec.cron", "never due"),
        (schedule(keep={}), "spec.keep", "at least one"),
        (schedule(keep={"last": 0}), "spec.keep", "at least one"),
        (schedule(keep={"daily": -1}), "spec.keep.daily", "between 0 and"),
        (schedule(keep={"last": 1, "yearly": 1}), "spec.keep.yearly", "unknown"),
        (schedule(verifyEvery="1s"), "spec.verifyEvery", "between"),
        (schedule(testEvery="often"), "spec.testEvery", "write it as 8h"),
        (schedule(verifyParts=300), "spec.verifyParts", "between 1 and 256"),
        (schedule(failedRunsHistoryLimit=0), "spec.failedRunsHistoryLimit", "between 1 and 1000"),
        (document("BackupSchedule", schedule()["spec"], "x" * 64), "metadata.name", "at most 63"),
        (task("Shred"), "spec.action", "must be Prune, Verify or List"),
        (task("Prune", keep={"last": 1}), "spec.vmNames", "must be named"),
        (task("Prune", vmNames=["web"]), "spec", "one of keep and backupIDs"),
        (task("Prune", **PRUNE, backupIDs=[ID]), "spec", "one of keep and backupIDs"),
        (task("Prune", vmNames=["web"], backupIDs=["latest"]), "spec.backupIDs[0]", "no ID of a backup"),
        (task("Prune", vmNames=["web"], backupIDs=[ID] * 101), "spec.backupIDs", "at most 100"),
        (task("Prune", **PRUNE, parts=3), "spec.parts", "means nothing for action Prune"),
        (task("Verify", vmNames=["web"]), "spec.vmNames", "means nothing for action Verify"),
        (boot_test(vmName=""), "spec.vmName", "must be given"),
        (boot_test(seconds=0), "spec.seconds", "between 1 and 3600"),
        (boot_test(backupID="latest"), "spec.backupID", "no ID of a backup"),
        (task("List", full=True), "spec.full", "means nothing for action List"),
    ],
)
def test_what_is_wrong_is_refused_with_its_field(written: JsonObject, field: str, words: str) -> None:
    causes = plan_verdict(request(written, None), CLUSTER).causes
    assert [each.field for each in causes] == [field], causes
    assert words in causes[0].message


def test_a_task_does_not_change_and_a_schedule_does() -> None:
    changed = plan_verdict(request(task("List"), task("Verify")), CLUSTER)
    assert [each.field for each in changed.causes] == ["spec"]
    changed = plan_verdict(request(boot_test(seconds=9), boot_test()), CLUSTER)
    assert [each.field for each in changed.causes] == ["spec"]
    assert plan_verdict(request(schedule(every="48h"), schedule()), CLUSTER).causes == ()

# Tests: kvedge/controller/datavolumes/crons/cron_objects.py, kvedge/controller/datavolumes/crons/cron_status.py
# Tests: kvedge/resources/types/data_import_cron.py
"""A DataImportCron from its first look at the source on: what it imports, points at and takes away."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any

import pytest

from kvedge.controller.datavolumes.crons.cron_objects import import_of
from kvedge.controller.datavolumes.crons.cron_plan import (
    IN_THE_WAY_SECONDS,
    POLL_AGAIN_SECONDS,
    CreateImport,
    CronAction,
    CronPlan,
    CronView,
    DeleteImport,
    EndPoll,
    PatchCron,
    PointAt,
    Poll,
    plan_cron,
)
from kvedge.resources.codec import decode, encode
from kvedge.resources.data_volume_names import CRON_LABEL, DESIRED_DIGEST, POLL_ANSWERED, POLL_REQUESTED
from kvedge.resources.meta import OwnerReference
from kvedge.resources.types.core import Pod
from kvedge.resources.types.data_import_cron import DataImportCron
from kvedge.resources.types.data_volumes import DataSource, DataVolume, data_volume_condition
from kvedge.runtime.clock import rfc3339
from tests.support.builders import NOW, patched
from tests.support.values import replace

FIRST, SECOND, THIRD, FOURTH, FIFTH = (f"sha256:{digit * 64}" for digit in "12345")


def a_cron(
    spec: dict[str, Any] | None = None, status: dict[str, Any] | None = None, **annotations: str
) -> DataImportCron:
    template = {
        "metadata": {"labels": {"os": "linux"}},
        "spec": {
            "source": {"registry": {"url": "docker://registry:5000/images/linux:9"}},
            "storage": {"resources": {"requests": {"storage": "1Gi"}}},
        },
    }
    document = {
        "metadata": {"name": "nightly", "namespace": "golden", "uid": "cron", "annotations": annotations},
        "spec": {"template": template, "schedule": "30 3 * * *", "managedDataSource": "linux", **(spec or {})},
        "status": status or {},
    }
    return decode(DataImportCron, document)


def a_rival(name: str) -> DataImportCron:
    made = a_cron()
    made.metadata.name = made.metadata.uid = name
    return made


def an_import(digest: str, phase: str = "Succeeded", day: int = 1) -> DataVolume:
    name = f"linux-{digest.removeprefix('sha256:')[:12]}"
    meta = {"name": name, "namespace": "golden", "uid": name, "labels": {CRON_LABEL: "nightly"}}
    document = {"metadata": {**meta, "creationTimestamp": f"2026-01-{day:02}T00:00:00Z"}, "status": {"phase": phase}}
    return decode(DataVolume, document)


def a_source(digest: str) -> DataSource:
    pvc = {"name": f"linux-{digest.removeprefix('sha256:')[:12]}", "namespace": "golden"}
    meta = {"name": "linux", "namespace": "golden", "labels": {CRON_LABEL: "nightly"}}
    return decode(DataSource, {"metadata": meta, "spec": {"source": {"pvc": pvc}}})


def a_poll(phase: str, outcome: dict[str, Any] | None = None, ended: datetime = NOW) -> Pod:
    state = (
        {}
        if outcome is None
        else {"terminated": {"exitCode": 0, "message": json.dumps(outcome), "finishedAt": rfc3339(ended)}}
    )
    statuses = [{"name": "importer", "ready": False, "restartCount": 0, "image": "", "imageID": "", "state": state}]
    meta = {"name": "poll-nightly", "namespace": "golden", "uid": "poll"}
    return decode(Pod, {"metadata": meta, "spec": {}, "status": {"phase": phase, "containerStatuses": statuses}})


LOOKED = {"lastExecutionTimestamp": rfc3339(NOW)}


def kinds(plan: CronPlan) -> list[type[CronAction]]:
    return [type(action) for action in plan.actions]


def after(cron: DataImportCron, plan: CronPlan) -> DataImportCron:
    document = encode(cron)
    for action in plan.actions:
        if isinstance(action, PatchCron):
            document = patched(document, action.body)
    return decode(DataImportCron, document)


def condition(cron: DataImportCron, type_: str) -> tuple[str, str, str]:
    found = data_volume_condition(cron.status.conditions, type_)
    assert found is not None
    return found.status, found.reason, found.message


def test_a_new_one_looks_at_its_source_at_once_and_then_by_its_schedule() -> None:
    plan = plan_cron(CronView(a_cron()), NOW)
    assert kinds(plan) == [Poll, PatchCron]
    looked = after(a_cron(), plan)
    assert looked.status.last_execution_timestamp == rfc3339(NOW)
    assert condition(looked, "UpToDate")[:2] == ("False", "NoDigest")
    plan = plan_cron(CronView(looked), NOW)
    assert plan.actions == ()
    assert plan.again_after == (NOW.replace(day=2, hour=3, minute=30, second=0) - NOW).total_seconds() % 86400
    assert Poll in kinds(plan_cron(CronView(looked), NOW + timedelta(days=1)))


def test_a_clock_that_was_set_back_puts_no_look_off_for_long() -> None:
    cron = a_cron(status={"lastExecutionTimestamp": rfc3339(NOW + timedelta(days=4000))})
    plan = plan_cron(CronView(cron), NOW)
    assert plan.again_after is not None
    assert plan.again_after <= 86400


def test_without_a_schedule_it_looks_on_demand_alone() -> None:
    assert plan_cron(CronView(a_cron({"schedule": ""}, LOOKED)), NOW).again_after is None
    assert Poll not in kinds(plan_cron(CronView(a_cron({"schedule": ""})), NOW))
    asked = a_cron({"schedule": ""}, LOOKED, **{POLL_REQUESTED: "today"})
    plan = plan_cron(CronView(asked), NOW)
    assert Poll in kinds(plan)
    answered = after(asked, plan)
    assert answered.metadata.annotations[POLL_ANSWERED] == "today"
    assert Poll not in kinds(plan_cron(CronView(answered), NOW))


def test_what_somebody_else_has_polled_is_imported() -> None:
    plan = plan_cron(CronView(a_cron({"schedule": ""}, **{DESIRED_DIGEST: FIRST})), NOW)
    assert CreateImport in kinds(plan)


def test_an_import_has_kubevirts_labels_of_its_cron_which_come_to_the_data_source_by_its_claim() -> None:
    cron = a_cron(status=LOOKED)
    told = {"instancetype.kubevirt.io/default-preference": "linux"}
    cron.metadata.labels = {**told, "team": "a", "cdi.kubevirt.io/dataImportCron": "other"}
    assert import_of(cron, FIRST).metadata.labels == {"os": "linux", **told, CRON_LABEL: "nightly"}


def test_a_new_digest_is_written_down_and_imported_by_that_digest() -> None:
    cron, poll = a_cron(status=LOOKED), a_poll("Succeeded", {"digest": FIRST})
    plan = plan_cron(CronView(cron, poll), NOW)
    assert kinds(plan) == [PatchCron, EndPoll, CreateImport]
    (made,) = (action.data_volume for action in plan.actions if isinstance(action, CreateImport))
    assert made.metadata.name == "linux-111111111111"
    assert made.metadata.labels == {"os": "linux", CRON_LABEL: "nightly"}
    assert made.metadata.owner_references == []
    assert made.spec.source is not None
    assert made.spec.source.registry is not None
    assert made.spec.source.registry.url == f"docker://registry:5000/images/linux@{FIRST}"
    looked = after(cron, plan)
    assert looked.metadata.annotations[DESIRED_DIGEST] == FIRST
    assert [(item.data_volume_name, item.digest) for item in looked.status.current_imports] == [
        ("linux-111111111111", FIRST)
    ]
    assert condition(looked, "Progressing")[:2] == ("True", "ImportScheduled")


def test_the_data_source_is_switched_when_the_import_is_complete_and_not_before() -> None:
    cron = a_cron(status=LOOKED, **{DESIRED_DIGEST: SECOND})
    imports = [an_import(FIRST), an_import(SECOND, "ImportInProgress", 2)]
    plan = plan_cron(CronView(cron, None, imports, a_source(FIRST)), NOW)
    assert PointAt not in kinds(plan)
    told = after(cron, plan)
    assert condition(told, "UpToDate") == (
        "False",
        "ImportProgressing",
        "DataVolume linux-222222222222 is imported; DataSource points at linux-111111111111 meanwhile",
    )
    imports[1].status.phase = "Succeeded"
    plan = plan_cron(CronView(told, None, imports, a_source(FIRST)), NOW)
    (switch,) = (action for action in plan.actions if isinstance(action, PointAt))
    assert switch.wanted.spec.source.pvc is not None
    assert switch.wanted.spec.source.pvc.name == "linux-222222222222"
    fresh = after(told, plan)
    assert condition(fresh, "UpToDate")[:2] == ("True", "UpToDate")
    assert condition(fresh, "Progressing")[:2] == ("False", "NoImport")
    assert fresh.status.last_imported_pvc is not None
    assert fresh.status.last_imported_pvc.name == "linux-222222222222"
    assert fresh.status.last_import_timestamp == rfc3339(NOW)
    assert plan_cron(CronView(fresh, None, imports, a_source(SECOND)), NOW).actions == ()


def test_without_a_network_the_last_good_one_stays_and_it_is_tried_again() -> None:
    cron = a_cron(status=LOOKED, **{DESIRED_DIGEST: FIRST})
    failed = a_poll("Failed", {"message": "registry: no route to host"})
    view = CronView(cron, failed, [an_import(FIRST)], a_source(FIRST))
    plan = plan_cron(view, NOW + timedelta(seconds=10))
    told = after(cron, plan)
    assert condition(told, "UpToDate") == (
        "True",
        "UpToDate",
        "the source was not reached: registry: no route to host",
    )
    assert plan.again_after == POLL_AGAIN_SECONDS - 10
    assert not {PointAt, DeleteImport, CreateImport, EndPoll} & set(kinds(plan))
    later = plan_cron(view, NOW + timedelta(seconds=POLL_AGAIN_SECONDS))
    assert EndPoll in kinds(later)
    waiting = after(told, later)
    again = plan_cron(CronView(waiting, None, view.imports, view.data_source), NOW + timedelta(minutes=6))
    assert Poll in kinds(again)
    assert "no route" in condition(after(waiting, again), "UpToDate")[2]
    answered = after(waiting, again)
    reached = plan_cron(CronView(answered, a_poll("Succeeded", {"digest": FIRST}), view.imports, view.data_source), NOW)
    assert condition(after(answered, reached), "UpToDate") == ("True", "UpToDate", "")
    assert Poll not in kinds(plan_cron(CronView(after(answered, reached), None, view.imports, view.data_source), NOW))


def test_a_poll_that_tells_no_digest_changes_nothing() -> None:
    cron = a_cron(status=LOOKED, **{DESIRED_DIGEST: FIRST})
    for digest in ("", "sha256:1", "../../etc", f"{FIRST}\n"):
        plan = plan_cron(CronView(cron, a_poll("Succeeded", {"digest": digest}), [an_import(FIRST)]), NOW)
        assert after(cron, plan).metadata.annotations[DESIRED_DIGEST] == FIRST


def test_an_import_that_has_failed_is_made_anew_with_the_next_look() -> None:
    cron = a_cron(status=LOOKED, **{DESIRED_DIGEST: SECOND})
    imports = [an_import(FIRST), an_import(SECOND, "Failed", 2)]
    quiet = plan_cron(CronView(cron, None, imports, a_source(FIRST)), NOW)
    assert DeleteImport not in kinds(quiet)
    assert condition(after(cron, quiet), "UpToDate")[:2] == ("False", "Outdated")
    looked = plan_cron(CronView(cron, a_poll("Succeeded", {"digest": SECOND}), imports, a_source(FIRST)), NOW)
    assert [a.data_volume.metadata.name for a in looked.actions if isinstance(a, DeleteImport)] == [
        "linux-222222222222"
    ]


ALL = [an_import(digest, day=day) for day, digest in enumerate((FIRST, SECOND, THIRD, FOURTH, FIFTH), 1)]


@pytest.mark.parametrize(
    ("spec", "gone"),
    [
        ({}, "12"),
        ({"garbageCollect": "Outdated", "importsToKeep": 1}, "1234"),
        ({"importsToKeep": 0}, "1234"),
        ({"importsToKeep": 9}, ""),
        ({"garbageCollect": "Never", "importsToKeep": 1}, ""),
    ],
    ids=["three are kept", "one is kept", "none beside the newest", "more than there are", "never"],
)
def test_old_imports_go_and_the_one_that_is_pointed_at_never_does(spec: dict[str, Any], gone: str) -> None:
    cron = a_cron(spec, LOOKED, **{DESIRED_DIGEST: FIFTH})
    plan = plan_cron(CronView(cron, None, ALL, a_source(FIFTH)), NOW)
    deleted = {a.data_volume.metadata.name for a in plan.actions if isinstance(a, DeleteImport)}
    assert deleted == {f"linux-{digit * 12}" for digit in gone}


def test_nothing_goes_while_nothing_good_is_there() -> None:
    cron = a_cron({"importsToKeep": 1}, LOOKED, **{DESIRED_DIGEST: SECOND})
    waiting = [an_import(FIRST, "ImportInProgress"), an_import(SECOND, "ImportScheduled", 2)]
    assert DeleteImport not in kinds(plan_cron(CronView(cron, None, waiting), NOW))


def test_an_older_image_that_is_named_again_is_pointed_at_without_an_import() -> None:
    cron = a_cron(status=LOOKED, **{DESIRED_DIGEST: FIRST})
    plan = plan_cron(CronView(cron, None, [an_import(FIRST), an_import(SECOND, day=2)], a_source(SECOND)), NOW)
    (switch,) = (action for action in plan.actions if isinstance(action, PointAt))
    assert switch.wanted.spec.source.pvc is not None
    assert switch.wanted.spec.source.pvc.name == "linux-111111111111"
    assert CreateImport not in kinds(plan)


def test_what_shall_go_with_it_is_owned_by_it() -> None:
    cron = a_cron({"retentionPolicy": "None"}, LOOKED, **{DESIRED_DIGEST: FIRST})
    (made,) = (a.data_volume for a in plan_cron(CronView(cron), NOW).actions if isinstance(a, CreateImport))
    assert [owner.uid for owner in made.metadata.owner_references] == ["cron"]


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "no source": ({"template": {"spec": {"source": {"blank": {}}}}}, "Missing source"),
    "no schedule": ({"schedule": "soon"}, "Illegal cron schedule"),
    "less than nothing kept": ({"importsToKeep": -1}, "Illegal ImportsToKeep value"),
    "another collector": ({"garbageCollect": "Sometimes"}, "Illegal GarbageCollect value"),
    "another policy": ({"retentionPolicy": "Some"}, "Illegal RetentionPolicy value"),
    "no name": ({"managedDataSource": "No_Name"}, "Illegal ManagedDataSource value"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_cannot_be_is_said_with_its_field_and_nothing_is_done(case: str) -> None:
    spec, told = BAD[case]
    cron = a_cron(spec, **{DESIRED_DIGEST: FIRST})
    plan = plan_cron(CronView(cron), NOW)
    assert kinds(plan) == [PatchCron]
    assert told in condition(after(cron, plan), "UpToDate")[2]


def test_one_that_is_deleted_does_nothing_more() -> None:
    cron = a_cron()
    cron.metadata.deletion_timestamp = rfc3339(NOW)
    assert plan_cron(CronView(cron), NOW).actions == ()


def test_of_two_that_manage_one_data_source_the_second_says_so_and_does_nothing() -> None:
    cron, theirs = a_cron(status=LOOKED, **{DESIRED_DIGEST: FIRST}), a_source(SECOND)
    theirs.metadata.labels = {CRON_LABEL: "weekly"}
    view = CronView(cron, None, [an_import(FIRST)], theirs, rivals=[a_rival("weekly")])
    plan = plan_cron(view, NOW)
    assert kinds(plan) == [PatchCron]
    assert "DataSource linux is managed by DataImportCron weekly" in condition(after(cron, plan), "UpToDate")[2]
    assert PointAt in kinds(plan_cron(replace(view, rivals=()), NOW)), "one that is gone leaves it to us"


@pytest.mark.parametrize(
    ("ours", "theirs", "rival", "leads"),
    [
        pytest.param("2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z", "weekly", True, id="the elder of both"),
        pytest.param("2026-01-02T00:00:00Z", "2026-01-01T00:00:00Z", "weekly", False, id="the younger of both"),
        pytest.param("2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z", "weekly", True, id="first by name"),
        pytest.param("2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z", "daily", False, id="second by name"),
    ],
)
def test_before_the_data_source_is_there_the_eldest_that_names_it_imports_alone(
    ours: str, theirs: str, rival: str, leads: bool
) -> None:
    cron, other = a_cron(status=LOOKED, **{DESIRED_DIGEST: FIRST}), a_rival(rival)
    cron.metadata.creation_timestamp, other.metadata.creation_timestamp = ours, theirs
    plan = plan_cron(CronView(cron, rivals=[other]), NOW)
    assert (CreateImport in kinds(plan)) is leads
    told = condition(after(cron, plan), "UpToDate")[2]
    assert (f"DataSource linux is managed by DataImportCron {rival}" in told) is not leads


def test_a_data_source_that_somebody_has_made_by_hand_is_not_written_over() -> None:
    cron, theirs = a_cron(status=LOOKED, **{DESIRED_DIGEST: FIRST}), a_source(SECOND)
    theirs.metadata.labels = {}
    plan = plan_cron(CronView(cron, None, [an_import(FIRST)], theirs), NOW)
    assert kinds(plan) == [PatchCron]
    told = condition(after(cron, plan), "UpToDate")[2]
    assert "DataSource linux is not a DataImportCron's and stays as it is" in told
    assert f"label it {CRON_LABEL}=nightly" in told


def test_something_else_with_the_name_of_an_import_is_told_and_waited_for_long() -> None:
    cron = a_cron({"schedule": ""}, LOOKED, **{DESIRED_DIGEST: FIRST})
    plan = plan_cron(CronView(cron, in_the_way=True), NOW)
    assert kinds(plan) == [PatchCron]
    assert plan.again_after == IN_THE_WAY_SECONDS
    assert condition(after(cron, plan), "UpToDate") == (
        "False",
        "Outdated",
        "DataVolume linux-111111111111 exists and is not this DataImportCron's, which needs the name: delete it",
    )


def test_a_vms_disk_and_what_only_has_the_label_never_go() -> None:
    cron = a_cron({"importsToKeep": 1}, LOOKED, **{DESIRED_DIGEST: FIFTH})
    by_hand, owned = an_import(FIRST), an_import(SECOND, day=2)
    by_hand.metadata.name = "linux-of-mine"
    owned.metadata.owner_references = [
        OwnerReference(api_version="kubevirt.io/v1", kind="VirtualMachine", name="vm", uid="vm", controller=True)
    ]
    imports = [by_hand, owned, *ALL[2:]]
    view = CronView(cron, None, imports, a_source(FIFTH), used={"linux-333333333333"})
    deleted = [a.data_volume.metadata.name for a in plan_cron(view, NOW).actions if isinstance(a, DeleteImport)]
    assert deleted == ["linux-444444444444"]


def test_what_only_has_the_label_is_neither_pointed_at_nor_taken_for_a_failed_import() -> None:
    cron = a_cron(status=LOOKED, **{DESIRED_DIGEST: FIRST})
    theirs, failed = an_import(SECOND), an_import(THIRD, "Failed")
    theirs.metadata.name, failed.metadata.name = "mine", "mine-too"
    view = CronView(cron, a_poll("Succeeded", {"digest": FIRST}), [theirs, failed])
    assert not {PointAt, DeleteImport} & set(kinds(plan_cron(view, NOW)))

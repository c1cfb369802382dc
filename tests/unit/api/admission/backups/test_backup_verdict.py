"""Which repositories, backups and restores of backups enter."""

from __future__ import annotations

from typing import Any

import pytest

from kvedge.api.admission.admission_plan import plan_verdict
from kvedge.api.admission.rules.subject import Cluster
from kvedge.resources.codec import JsonObject
from tests.support.reviews import request

CLUSTER = Cluster("amd64")
ID = "0f5c0000-0000-4000-8000-000000000000"


def document(kind: str, spec: Any) -> JsonObject:
    return {
        "apiVersion": "backup.kvedge.io/v1alpha1",
        "kind": kind,
        "metadata": {"name": "x", "namespace": "default"},
        "spec": spec,
    }


def repository(**spec: Any) -> JsonObject:
    return document("BackupRepository", {"secretName": "key", **spec})


def run(**spec: Any) -> JsonObject:
    return document("BackupRun", {"vmName": "web", "repositoryName": "usb", **spec})


def restore(**spec: Any) -> JsonObject:
    return document("BackupRestore", {"vmName": "web", "repositoryName": "usb", **spec})


@pytest.mark.parametrize(
    "written",
    [
        repository(claimName="usb"),
        repository(url="s3:https://store.example/bucket/site-1"),
        repository(url="s3:s3.amazonaws.com/bucket"),
        repository(url="rest:https://backup.example:8000/site"),
        repository(url="sftp:user@host.example:/srv/backups"),
        run(),
        run(snapshotName="before", deadline="8h"),
        restore(),
        repository(url="sftp://user@host.example:2222//srv/backups"),
        restore(volumes=[{"volumeName": "root", "claimName": "old-root"}, {"volumeName": "data"}]),
        restore(backupID=ID, targetName="web2", vmNamespace="old", storageClassName="fast"),
        restore(live=True),
    ],
)
def test_what_is_right_enters(written: JsonObject) -> None:
    assert plan_verdict(request(written, None), CLUSTER).causes == ()


@pytest.mark.parametrize(
    ("written", "field", "words"),
    [
        (restore(volumes=[{"volumeName": "root"}], targetName="b"), "spec.targetName", "no VM is made"),
        (restore(volumes=[{"volumeName": "root"}], live=True), "spec.live", "leave out one of live and volumes"),
        (restore(isolated=True, live=True), "spec.live", "leave out one of live and isolated"),
        (restore(volumes=[{"volumeName": "root"}] * 2), "spec.volumes", "named once"),
        (restore(volumes=[{"volumeName": "root", "claimName": "A b"}]), "spec.volumes[0].claimName", "no name"),
        (restore(volumes=[{"volumeName": "v"}] * 257), "spec.volumes", "at most 256"),
        (repository(url="sftp://-oProxyCommand=x//y"), "spec.url", "must be s3"),
        (repository(), "spec", "one of url and claimName"),
        (repository(url="s3:https://a/b", claimName="c"), "spec", "one of url and claimName"),
        (repository(url="/etc"), "spec.url", "must be s3:"),
        (repository(url="local:/repository"), "spec.url", "must be s3:"),
        (repository(url="sftp:-oProxyCommand=x:/y"), "spec.url", "must be s3:"),
        (repository(url="sftp:user@host:/a b"), "spec.url", "must be s3:"),
        (repository(url="rclone:remote:x"), "spec.url", "must be s3:"),
        (repository(url="rest:https://user:secret@host/x"), "spec.url", "put it into the Secret"),
        (document("BackupRepository", {"claimName": "c"}), "spec.secretName", "must be given"),
        (repository(claimName="C C"), "spec.claimName", "no name"),
        (repository(claimName="c", retries=3), "spec.retries", "unknown"),
        (run(vmName=""), "spec.vmName", "must be given"),
        (run(vmName="x" * 64), "spec.vmName", "at most 63"),
        (run(repositoryName=""), "spec.repositoryName", "must be given"),
        (run(deadline="soon"), "spec.deadline", "8h"),
        (run(deadline="0s"), "spec.deadline", "more than nothing"),
        (restore(backupID="latest"), "spec.backupID", "leave it out"),
        (restore(targetName="Web"), "spec.targetName", "no name"),
    ],
)
def test_what_is_wrong_is_refused_with_the_field_and_the_remedy(written: JsonObject, field: str, words: str) -> None:
    causes = plan_verdict(request(written, None), CLUSTER).causes
    assert [cause.field for cause in causes] == [field]
    assert words in causes[0].message


@pytest.mark.parametrize(("old", "new"), [(run(), run(vmName="db")), (restore(), restore(targetName="b"))])
def test_what_was_asked_for_stays_as_it_is(old: JsonObject, new: JsonObject) -> None:
    causes = plan_verdict(request(new, old), CLUSTER).causes
    assert [cause.field for cause in causes] == ["spec"]


def test_a_repository_may_move() -> None:
    old, new = repository(claimName="usb"), repository(url="s3:https://a/b")
    assert plan_verdict(request(new, old), CLUSTER).causes == ()

"""Which of KubeVirt's backups and trackers enter."""

from __future__ import annotations

from typing import Any

import pytest

from kvedge.api.admission.admission_plan import plan_verdict
from kvedge.api.admission.rules.subject import Cluster
from kvedge.resources.codec import JsonObject
from kvedge.resources.configuration.configuration import DEFAULTS
from kvedge.resources.configuration.feature_gates import FeatureGates
from tests.support.reviews import request
from tests.support.values import replace

OFF = Cluster("amd64")
ON = Cluster("amd64", replace(DEFAULTS, gates=FeatureGates(frozenset({"IncrementalBackup"}))))
VM = {"apiGroup": "kubevirt.io", "kind": "VirtualMachine", "name": "web"}
TRACKER = {"apiGroup": "backup.kubevirt.io", "kind": "VirtualMachineBackupTracker", "name": "chain"}


def document(kind: str, spec: Any, name: str = "x") -> JsonObject:
    return {
        "apiVersion": "backup.kubevirt.io/v1alpha1",
        "kind": kind,
        "metadata": {"name": name, "namespace": "default"},
        "spec": spec,
    }


def backup(**spec: Any) -> JsonObject:
    return document("VirtualMachineBackup", {"source": TRACKER, "pvcName": "usb", **spec})


def tracker(**spec: Any) -> JsonObject:
    return document("VirtualMachineBackupTracker", {"source": VM, **spec})


@pytest.mark.parametrize(
    "written",
    [
        backup(),
        backup(source=VM, mode="Push", skipQuiesce=True, forceFullBackup=True),
        backup(mode="Pull", tokenSecretRef="token", ttlDuration="30m"),
        tracker(),
    ],
)
def test_what_is_right_enters_where_the_gate_is_on(written: JsonObject) -> None:
    assert plan_verdict(request(written, None), ON).causes == ()
    (cause,) = plan_verdict(request(written, None), OFF).causes
    assert "IncrementalBackup feature gate not enabled" in cause.message


@pytest.mark.parametrize(
    ("written", "field", "words"),
    [
        (backup(pvcName=None), "spec.pvcName", "pvcName is required"),
        (backup(pvcName="a/b"), "spec.pvcName", "no name of a claim"),
        (backup(mode="Pull"), "spec.tokenSecretRef", "tokenSecretRef is required when mode is Pull"),
        (backup(source={**VM, "apiGroup": None}), "spec.source.apiGroup", "apiGroup is required"),
        (backup(source={**VM, "apiGroup": "apps"}), "spec.source.apiGroup", "kubevirt.io or backup.kubevirt.io"),
        (backup(source={**VM, "kind": "Pod"}), "spec.source.kind", "VirtualMachine for kubevirt.io"),
        (backup(source={**VM, "name": ""}), "spec.source.name", "name is required"),
        (backup(ttlDuration="soon"), "spec.ttlDuration", "write it as 30m or 2h"),
        (backup(ttlDuration="0s"), "spec.ttlDuration", "more than nothing"),
        (backup(mode="Fetch"), "spec.mode", "Fetch"),
        (backup(spare=1), "spec.spare", "spare"),
        (document("VirtualMachineBackup", {"source": VM, "pvcName": "p"}, "x" * 129), "metadata.name", "at most 128"),
        (tracker(source=TRACKER), "spec.source.apiGroup", "apiGroup must be kubevirt.io"),
    ],
)
def test_what_is_wrong_is_told_with_its_field(written: JsonObject, field: str, words: str) -> None:
    causes = plan_verdict(request(written, None), ON).causes
    assert any(str(cause.field) == field and words in cause.message for cause in causes), causes


def test_what_it_was_made_for_stays() -> None:
    (cause,) = plan_verdict(request(backup(pvcName="other"), backup()), ON).causes
    assert cause.message == "spec is immutable after creation"
    labelled = {**backup(), "metadata": {"name": "x", "namespace": "default", "labels": {"a": "b"}}}
    assert plan_verdict(request(labelled, backup()), OFF).causes == ()

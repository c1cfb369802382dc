"""Which snapshots and restores enter."""

from __future__ import annotations

from typing import Any

import pytest

from kvedge.api.admission.admission_plan import plan_verdict
from kvedge.api.admission.rules.subject import Cluster
from kvedge.api.admission.spec_verdict import Verdict
from kvedge.resources.codec import JsonObject
from tests.support.builders import small_vmi, vm_of
from tests.support.reviews import request

CLUSTER = Cluster("amd64")
WEB = {"apiGroup": "kubevirt.io", "kind": "VirtualMachine", "name": "web"}
COPY = "vmsnapshot-0f5c0000-0000-4000-8000-000000000000-volume-root"


def document(kind: str, spec: Any) -> JsonObject:
    return {
        "apiVersion": "snapshot.kubevirt.io/v1beta1",
        "kind": kind,
        "metadata": {"name": "x", "namespace": "default"},
        "spec": spec,
    }


def snapshot(**spec: Any) -> JsonObject:
    return document("VirtualMachineSnapshot", {"source": WEB, **spec})


def restore(**spec: Any) -> JsonObject:
    return document("VirtualMachineRestore", {"target": WEB, "virtualMachineSnapshotName": "before", **spec})


def with_memory(value: str) -> JsonObject:
    made = snapshot()
    made["metadata"]["annotations"] = {"kvedge.io/snapshot-memory": value}
    return made


def verdict(written: JsonObject, old: JsonObject | None = None) -> Verdict:
    return plan_verdict(request(written, old), CLUSTER)


def patch(path: str, value: str = '"a"') -> str:
    return f'{{"op": "replace", "path": "{path}", "value": {value}}}'


@pytest.mark.parametrize(
    "written",
    [
        snapshot(),
        snapshot(deletionPolicy="Retain", failureDeadline="1h30m"),
        snapshot(failureDeadline="0s"),
        with_memory("false"),
        restore(),
        restore(
            targetReadinessPolicy="StopTarget",
            volumeRestorePolicy="PrefixTargetName",
            volumeOwnershipPolicy="None",
            volumeRestoreOverrides=[{"volumeName": "root", "restoreName": "new"}],
            patches=[
                patch("/spec/template/spec/domain/devices/interfaces/0/macAddress", '"02:00:00:00:00:0a"'),
                patch("/metadata/labels/a", '"b,c"'),
                '{"op": "remove", "path": "/metadata/annotations/a"}',
            ],
        ),
    ],
)
def test_what_works_enters_without_a_word(written: JsonObject) -> None:
    assert verdict(written) == Verdict()


@pytest.mark.parametrize(
    ("written", "field", "message"),
    [
        (snapshot(source={**WEB, "apiGroup": None}), "spec.source.apiGroup", "missing apiGroup"),
        (snapshot(source={**WEB, "apiGroup": "apps"}), "spec.source.apiGroup", "invalid apiGroup"),
        (snapshot(source={**WEB, "kind": "Pod"}), "spec.source.kind", "invalid kind"),
        (snapshot(source={**WEB, "name": ""}), "spec.source.name", "which VM must be given"),
        (snapshot(source={**WEB, "name": "A" * 64}), "spec.source.name", "no name of a VM"),
        (snapshot(failureDeadline="soon"), "spec.failureDeadline", "write it as 10m or 1h30m"),
        (snapshot(failureDeadline="-1s"), "spec.failureDeadline", "must not be negative"),
        (snapshot(deletionPolicy="Never"), "spec.deletionPolicy", "Never"),
        (snapshot(memory=True), "spec.memory", "unknown field"),
        (restore(target={**WEB, "kind": "Pod"}), "spec.target.kind", "invalid kind"),
        (restore(virtualMachineSnapshotName=""), "spec.virtualMachineSnapshotName", "which snapshot must be given"),
        (restore(targetReadinessPolicy="Now"), "spec.targetReadinessPolicy", "one of WaitGracePeriod"),
        (restore(volumeRestorePolicy="X"), "spec.volumeRestorePolicy", 'volume restore policy "X" doesn\'t exist'),
        (restore(volumeOwnershipPolicy="X"), "spec.volumeOwnershipPolicy", "volume ownership policy"),
        (restore(volumeRestoreOverrides=[{}]), "spec.volumeRestoreOverrides[0]", "must provide a volume name"),
        (
            restore(volumeRestoreOverrides=[{"volumeName": "a"}]),
            "spec.volumeRestoreOverrides[0]",
            "must provide at least one overriden field",
        ),
        (
            restore(volumeRestoreOverrides=[{"volumeName": "a", "restoreName": COPY}]),
            "spec.volumeRestoreOverrides[0].restoreName",
            "no name for a new claim",
        ),
        (
            restore(
                volumeRestoreOverrides=[
                    {"volumeName": "a", "annotations": {"a": "b", "cdi.kubevirt.io/allowClaimAdoption": "true"}}
                ]
            ),
            "spec.volumeRestoreOverrides[0].annotations[cdi.kubevirt.io/allowClaimAdoption]",
            "without its data",
        ),
        (
            restore(volumeRestoreOverrides=[{"volumeName": name, "restoreName": "new"} for name in ("a", "b")]),
            "spec.volumeRestoreOverrides[1].restoreName",
            "gets new already",
        ),
        (restore(patches=["{"]), "spec.patches[0]", "patch format is not valid"),
        (restore(patches=["[]"]), "spec.patches[0]", "patch format is not valid"),
        (restore(patches=['{"op": "grow", "path": "/spec/a"}']), "spec.patches[0]", "patch format is not valid"),
        (restore(patches=[patch("/status/a")]), "spec.patches[0]", "/spec/ only"),
        (restore(patches=['{"op": "copy", "path": "/spec/a", "from": "/status"}']), "spec.patches[0]", "/spec/ only"),
        (restore(patches=["1"] * 257), "spec.patches", "256 element limit"),
    ],
)
def test_what_can_never_be_done_is_refused_with_its_field(written: JsonObject, field: str, message: str) -> None:
    causes = verdict(written).causes
    assert any(cause.field == field and message in cause.message for cause in causes), causes


@pytest.mark.parametrize("make", [snapshot, restore])
def test_what_was_asked_for_stays(make: Any) -> None:
    old = make()
    assert verdict({**old, "metadata": {"name": "x", "labels": {"a": "b"}}}, old) == Verdict()
    changed = {**old, "spec": {**old["spec"], "patches": []}}
    (cause,) = verdict(changed, old).causes
    assert cause.message == "spec in immutable after creation"


@pytest.mark.parametrize("source", [{"persistentVolumeClaim": {"claimName": COPY}}, {"dataVolume": {"name": COPY}}])
def test_no_guest_writes_to_the_copy_of_a_snapshot(source: JsonObject) -> None:
    vmi = small_vmi(volumes=[{"name": "root", **source}])
    for written in (vmi, vm_of(vmi)):
        (cause,) = verdict(written).causes
        assert "holds a volume's copy for a VirtualMachineSnapshot" in cause.message


@pytest.mark.parametrize("value", ["true", "false"])
def test_a_snapshot_may_ask_for_memory(value: str) -> None:
    assert verdict(with_memory(value)) == Verdict()


@pytest.mark.parametrize("value", ["", "yes"])
def test_a_word_for_memory_that_nobody_understands_is_refused(value: str) -> None:
    (cause,) = verdict(with_memory(value)).causes
    assert cause.field == "metadata.annotations[kvedge.io/snapshot-memory]"
    assert '"true" or "false"' in cause.message


def test_the_class_of_the_memorys_claim_is_a_name() -> None:
    asked = with_memory("true")
    asked["metadata"]["annotations"]["kvedge.io/snapshot-memory-class"] = "no name"
    (cause,) = verdict(asked).causes
    assert cause.field == "metadata.annotations[kvedge.io/snapshot-memory-class]"


def test_a_restore_says_clearly_whether_memory_is_left_out() -> None:
    asked = restore()
    asked["metadata"]["annotations"] = {"kvedge.io/restore-memory": "no"}
    (cause,) = verdict(asked).causes
    assert cause.field == "metadata.annotations[kvedge.io/restore-memory]"
    asked["metadata"]["annotations"] = {"kvedge.io/restore-memory": "false"}
    assert verdict(asked) == Verdict()


def test_a_snapshot_that_is_there_may_be_written_whatever_its_annotations_say() -> None:
    assert verdict(with_memory("yes"), with_memory("yes")) == Verdict()


def test_a_vm_that_a_restore_would_make_has_a_name_that_fits_with_its_namespace() -> None:
    longest = "a" * (244 - len("default"))
    assert verdict(restore(target={**WEB, "name": longest})) == Verdict()
    (cause,) = verdict(restore(target={**WEB, "name": f"{longest}a"})).causes
    assert (cause.field, "at most 237 characters" in cause.message) == ("spec.target.name", True)

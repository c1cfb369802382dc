"""Which snapshot schedules enter."""

from __future__ import annotations

from typing import Any

import pytest

from kvedge.api.admission.admission_plan import plan_verdict
from kvedge.api.admission.rules.subject import Cluster
from kvedge.api.admission.spec_verdict import Verdict
from kvedge.resources.codec import JsonObject
from tests.support.reviews import request

WEB = {"apiGroup": "kubevirt.io", "kind": "VirtualMachine", "name": "web"}


def document(name: str = "hourly", **spec: Any) -> JsonObject:
    return {
        "apiVersion": "snapshot.kvedge.io/v1alpha1",
        "kind": "VirtualMachineSnapshotSchedule",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"source": WEB, "every": "1h", **spec},
    }


def verdict(written: JsonObject, old: JsonObject | None = None) -> Verdict:
    return plan_verdict(request(written, old), Cluster("amd64"))


def test_a_schedule_enters_and_may_be_changed() -> None:
    assert verdict(document(keep=24, suspend=True)) == Verdict()
    assert verdict(document(every="30m"), document()) == Verdict()


@pytest.mark.parametrize(
    ("written", "field", "text"),
    [
        (document(every=""), "spec.every", "write it as 1h"),
        (document(every="1d"), "spec.every", "write it as 1h"),
        (document(every="59s"), "spec.every", "between a minute and a year"),
        (document(every="-1h"), "spec.every", "between a minute and a year"),
        (document(every="9000h"), "spec.every", "between a minute and a year"),
        (document(keep=0), "spec.keep", "the last one always stays"),
        (document(keep=1001), "spec.keep", "between 1 and 1000"),
        (document(source={**WEB, "kind": "Pod"}), "spec.source.kind", "invalid kind"),
        (document(cron="* * * * *"), "spec.cron", "unknown field"),
        (document(name="x" * 64), "metadata.name", "at most 63"),
        (document(keep="2"), "spec.keep", ""),
    ],
)
def test_a_schedule_that_cannot_work_is_refused_with_its_field(written: JsonObject, field: str, text: str) -> None:
    causes = verdict(written).causes
    assert [cause.field for cause in causes] == [field]
    assert text in causes[0].message


def test_a_schedule_keeps_its_vm() -> None:
    (cause,) = verdict(document(source={**WEB, "name": "db"}), document()).causes
    assert cause.field == "spec.source"

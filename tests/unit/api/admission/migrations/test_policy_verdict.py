"""Which policies of migrations enter."""

from __future__ import annotations

from typing import Any

import pytest

from kvedge.api.admission.admission_plan import plan_verdict
from kvedge.api.admission.rules.subject import Cluster
from kvedge.api.admission.spec_verdict import Verdict
from kvedge.resources.codec import JsonObject
from tests.support.reviews import request

CLUSTER = Cluster("amd64")
SELECTORS = {"virtualMachineInstanceSelector": {"tier": "web"}}


def policy(**spec: Any) -> JsonObject:
    return {
        "apiVersion": "migrations.kubevirt.io/v1alpha1",
        "kind": "MigrationPolicy",
        "metadata": {"name": "p"},
        "spec": {"selectors": SELECTORS, **spec},
    }


def verdict(document: JsonObject, old: JsonObject | None = None) -> Verdict:
    return plan_verdict(request(document, old), CLUSTER)


def test_a_policy_with_all_that_works_enters_without_a_word() -> None:
    document = policy(
        allowAutoConverge=True,
        bandwidthPerMigration="64Mi",
        completionTimeoutPerGiB=120,
        allowPostCopy=False,
        allowWorkloadDisruption=True,
        maxDowntimeMs=2_000_000,
    )
    assert verdict(document) == Verdict()


@pytest.mark.parametrize(
    ("spec", "field", "message"),
    [
        ({"completionTimeoutPerGiB": -1}, "spec.completionTimeoutPerGiB", "must not be negative"),
        ({"bandwidthPerMigration": "-1Mi"}, "spec.bandwidthPerMigration", "must not be negative"),
        ({"bandwidthPerMigration": "fast"}, "spec.bandwidthPerMigration", "fast"),
        ({"maxDowntimeMs": 0}, "spec.maxDowntimeMs", "greater than or equal to 1 and less than or equal to 2000000"),
        ({"maxDowntimeMs": 2_000_001}, "spec.maxDowntimeMs", "less than or equal to 2000000"),
        ({"allowPostCopy": True}, "spec.allowPostCopy", "post-copy is not supported yet: set it to false"),
        ({"experimental": {"stallDetector": {}}}, "spec.experimental", "not supported: remove it"),
        ({"selectors": None}, "spec.selectors", "which VMIs the policy is for"),
        ({"selectors": {"namespaceSelector": {"a b": "c"}}}, "spec.selectors.namespaceSelector", '"a b"'),
        ({"selectors": {"vmSelector": {}}}, "spec.selectors.vmSelector", "unknown field"),
        ({"maxDownTimeMs": 5}, "spec.maxDownTimeMs", "unknown field"),
    ],
)
def test_what_no_policy_can_be_is_refused_by_its_field(spec: dict[str, Any], field: str, message: str) -> None:
    causes = {cause.field: cause.message for cause in verdict(policy(**spec)).causes}
    assert list(causes) == [field]
    assert message in causes[field]


@pytest.mark.parametrize(
    ("selectors", "whom"),
    [
        ({}, "without a selector the policy is for no VMI"),
        ({"namespaceSelector": {}}, "a selector without labels is for all VMIs"),
        ({"namespaceSelector": {}, "virtualMachineInstanceSelector": {}}, "a selector without labels is for all VMIs"),
    ],
    ids=["none", "all", "all by both"],
)
def test_a_policy_for_no_vmi_or_all_is_warned_of(selectors: JsonObject, whom: str) -> None:
    assert verdict(policy(selectors=selectors)).warnings == (f"spec.selectors: {whom}",)


def test_a_policy_that_contradicts_itself_is_warned_of() -> None:
    [warning] = verdict(policy(bandwidthPerMigration="1Mi", completionTimeoutPerGiB=150)).warnings
    assert warning == (
        "spec.completionTimeoutPerGiB: 150: at bandwidthPerMigration 1Mi one GiB takes 1024 seconds: guests that use "
        "all their memory do not move in time"
    )
    assert verdict(policy(bandwidthPerMigration="1Mi")).warnings == ()


def test_a_policy_of_before_is_not_judged_again_until_it_changes() -> None:
    old = policy(allowPostCopy=True)
    labelled = {**old, "metadata": {"name": "p", "labels": {"a": "b"}}}
    assert verdict(labelled, old) == Verdict()
    assert verdict(policy(allowPostCopy=True, maxDowntimeMs=5), old).causes != ()

"""Which pools enter: their template is judged as the VM that it becomes."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from kvedge.api.admission.admission_plan import plan_verdict
from kvedge.api.admission.rules.subject import Cluster
from kvedge.resources.codec import JsonObject
from tests.support.builders import pool_of, put, small_vmi
from tests.support.reviews import request

CLUSTER = Cluster("amd64")
TEMPLATE = "spec.virtualMachineTemplate"


def causes(document: JsonObject, old: JsonObject | None = None) -> list[tuple[str, str]]:
    return [(cause.field, cause.message) for cause in plan_verdict(request(document, old), CLUSTER).causes]


def changed(paths: dict[str, Any] | None = None) -> JsonObject:
    document = pool_of(small_vmi())
    for path, value in (paths or {}).items():
        put(document, path, value)
    return document


def test_a_pool_as_users_write_it_enters() -> None:
    policy = {"sortPolicy": "Newest", "selectors": {"labelSelector": {"matchLabels": {"a": "b"}}}}
    node = {"key": "age", "operator": "Gt", "values": ["5"]}
    strategies = {
        "spec.maxUnavailable": "50%",
        "spec.scaleInStrategy": {"proactive": {"statePreservation": "Offline", "selectionPolicy": policy}},
        "spec.updateStrategy": {
            "proactive": {"selectionPolicy": {"selectors": {"nodeSelectorRequirementMatcher": [node]}}}
        },
        "spec.autohealing": {"startUpFailureThreshold": 2, "minFailingToStartDuration": "1m30s"},
        "spec.nameGeneration": {"appendIndexToSecretRefs": True},
    }
    assert plan_verdict(request(changed(strategies)), CLUSTER) == plan_verdict(request(changed()), CLUSTER)
    assert causes(changed(strategies)) == []


@pytest.mark.parametrize(
    ("path", "value", "field", "message"),
    [
        (TEMPLATE, None, TEMPLATE, "missing virtual machine template."),
        ("spec.selector", None, "spec.selector", "selector does not match labels."),
        ("spec.selector.matchLabels.app", "db", "spec.selector", "selector does not match labels."),
        ("spec.replicas", -1, "spec.replicas", "spec.replicas: Invalid value: -1"),
        ("spec.maxUnavailable", "50", "spec.maxUnavailable", "maxUnavailable percentage must end with %"),
        (
            "spec.maxUnavailable",
            "101%",
            "spec.maxUnavailable",
            "maxUnavailable percentage value 101 must be between 1 and 100",
        ),
        ("spec.maxUnavailable", "x%", "spec.maxUnavailable", 'maxUnavailable percentage value "x" is invalid'),
        ("spec.maxUnavailable", 0, "spec.maxUnavailable", "maxUnavailable must be greater than 0"),
        (
            "spec.updateStrategy",
            {"unmanaged": {}, "proactive": {}},
            "spec.updateStrategy",
            "only one strategy can be configured at a time: but found unmanaged, proactive strategies",
        ),
        (
            "spec.scaleInStrategy",
            {"opportunistic": {}, "proactive": {}},
            "spec.scaleInStrategy",
            "only one strategy can be configured at a time: but found opportunistic, proactive strategies",
        ),
        (
            "spec.updateStrategy",
            {
                "proactive": {
                    "selectionPolicy": {
                        "selectors": {"nodeSelectorRequirementMatcher": [{"key": "a", "operator": "Gt"}]}
                    }
                }
            },
            "spec.updateStrategy.proactive.selectionPolicy.selectors.nodeSelectorRequirementMatcher[0].values",
            "spec.updateStrategy",
        ),
        (
            "spec.autohealing.minFailingToStartDuration",
            "soon",
            "spec.autohealing.minFailingToStartDuration",
            "spec.autohealing",
        ),
        (
            "spec.autohealing.startUpFailureThreshold",
            0,
            "spec.autohealing.startUpFailureThreshold",
            "spec.autohealing",
        ),
        ("metadata.name", "x" * 56, "metadata.name", "metadata.name: Invalid value"),
        ("spec.scaleInStrategi", {}, "spec.scaleInStrategi", "unknown field"),
        (f"{TEMPLATE}.spec.runStrategy", "Sometimes", f"{TEMPLATE}.spec.runStrategy", "Invalid RunStrategy"),
        (f"{TEMPLATE}.spec.runStrateg", "Always", f"{TEMPLATE}.spec.runStrateg", "unknown field"),
        (
            f"{TEMPLATE}.spec.template.spec.domain.clock",
            {"utc": {}, "timer": {"pit": {"frequency": 1}}},
            f"{TEMPLATE}.spec.template.spec.domain.clock.timer.pit.frequency",
            f"{TEMPLATE}.spec.template.spec.domain.clock.timer.pit.frequency: not supported",
        ),
        (
            f"{TEMPLATE}.spec.template.spec.domain.devices.disks[1]",
            {"name": "none", "disk": {}},
            f"{TEMPLATE}.spec.template.spec.domain.devices.disks[1].name",
            TEMPLATE,
        ),
    ],
)
def test_what_does_not_enter(path: str, value: Any, field: str, message: str) -> None:
    found = causes(changed({path: value}))
    assert [at for at, _ in found] == [field]
    assert found[0][1].startswith(message)


def test_a_pool_whose_namespace_is_not_written_down_enters() -> None:
    assert causes(changed({"metadata": {"name": "web"}})) == []


@pytest.mark.parametrize(
    ("selector", "path"),
    [
        (
            {
                "matchLabels": {"app": "web"},
                "matchExpressions": [{"key": "kubevirt.io/vm-pool-revision-name", "operator": "DoesNotExist"}],
            },
            "matchExpressions[0].key",
        ),
        ({"matchLabels": {"kubevirt.io/vm-pool-revision-name": "x"}}, "matchLabels[kubevirt.io/vm-pool-revision-name]"),
    ],
    ids=["an expression", "a label"],
)
def test_a_selector_by_the_label_that_kvedge_changes_is_refused(selector: JsonObject, path: str) -> None:
    document = changed({"spec.selector": selector})
    document["spec"]["virtualMachineTemplate"]["metadata"]["labels"]["kubevirt.io/vm-pool-revision-name"] = "x"
    found = dict(causes(document))
    assert "kvedge itself writes this label on VMs" in found[f"spec.selector.{path}"]
    # One that is there is still scaled.
    assert f"spec.selector.{path}" not in dict(
        causes({**document, "spec": {**document["spec"], "replicas": 7}}, document)
    )


def test_the_selector_never_changes() -> None:
    new = changed({"spec.selector": {"matchExpressions": [{"key": "app", "operator": "Exists"}]}})
    assert causes(new, changed()) == [("spec.selector", "selector is immutable after creation.")]


def test_a_pool_of_before_is_scaled_though_newer_rules_refuse_its_template() -> None:
    old = changed({f"{TEMPLATE}.spec.template.spec.domain.cpu": {"realtime": {}}})
    assert causes(old)
    new = copy.deepcopy(old)
    new["spec"]["replicas"] = 5
    assert causes(new, old) == []
    new["spec"]["virtualMachineTemplate"]["spec"]["template"]["spec"]["hostname"] = "x"
    assert causes(new, old)

"""Which presets enter."""

from __future__ import annotations

from typing import Any

import pytest

from kvedge.api.admission.admission_plan import plan_verdict
from kvedge.api.admission.rules.subject import Cluster
from kvedge.resources.codec import JsonObject
from tests.support.reviews import request

CLUSTER = Cluster("amd64")


def preset(**spec: Any) -> JsonObject:
    return {
        "apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachineInstancePreset",
        "metadata": {"name": "small", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "domain": {"cpu": {"cores": 2}}, **spec},
    }


def test_a_preset_enters_and_its_author_is_told_what_replaces_it() -> None:
    verdict = plan_verdict(request(preset()), CLUSTER)
    assert verdict.causes == ()
    assert verdict.warnings == (
        "Use an instance type with a preference, or write the fields into the VM's own template.",
    )


def test_what_no_vmi_gets_is_named() -> None:
    devices = {"disks": [{"name": "d", "disk": {}}], "networkInterfaceMultiqueue": False}
    domain = {"memory": {"guest": "128Mi"}, "devices": devices, "resources": {"limits": {"cpu": "1"}}}
    verdict = plan_verdict(request(preset(domain=domain)), CLUSTER)
    assert verdict.causes == ()
    assert [warning.partition(": no VMI gets")[0] for warning in verdict.warnings] == [
        "spec.domain.devices.disks",
        "spec.domain.memory",
        "spec.domain.resources.limits",
    ]


PIT = "spec.domain.clock.timer.pit"


@pytest.mark.parametrize(
    ("spec", "field", "message"),
    [
        ({"domain": None}, "spec.domain", "missing domain."),
        ({"selector": None}, "spec.selector", "spec.selector: which VMIs"),
        (
            {"selector": {"matchExpressions": [{"key": "app", "operator": "Like"}]}},
            "spec.selector.matchExpressions[0].operator",
            "spec.selector.matchExpressions[0].operator: ",
        ),
        ({"domain": {"firmware": {"uuid": "x"}}}, "spec.domain.firmware.uuid", "spec.domain.firmware.uuid 'x' is not"),
        ({"domain": {"clock": {"timer": {"pit": {"frequency": 1}}}}}, f"{PIT}.frequency", f"{PIT}.frequency: not supp"),
        ({"domain": {"cpu": {"treads": 4}}}, "spec.domain.cpu.treads", "unknown field"),
        ({"domain": {"cpu": {"cores": "x"}}}, "spec.domain.cpu.cores", "spec.domain.cpu.cores: Expected"),
    ],
    ids=lambda value: value if isinstance(value, str) and value.startswith("spec.") and " " not in value else "",
)
def test_what_does_not_enter(spec: JsonObject, field: str, message: str) -> None:
    (cause,) = plan_verdict(request(preset(**spec)), CLUSTER).causes
    assert cause.field == field
    assert cause.message.startswith(message)


def test_a_preset_that_stays_as_it_is_is_not_judged_again() -> None:
    old = preset(domain={"clock": {"timer": {"pit": {"frequency": 1}}}})
    assert (
        plan_verdict(request({**old, "metadata": {"name": "small", "labels": {"a": "b"}}}, old), CLUSTER).causes == ()
    )

"""Which ReplicaSets enter: their template is judged as a VMI is, and must be found again."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from kvedge.api.admission.admission_plan import plan_verdict
from kvedge.api.admission.rules.subject import Cluster
from kvedge.resources.codec import JsonObject
from tests.support.builders import put, replica_set_of, small_vmi
from tests.support.reviews import request

CLUSTER = Cluster("amd64")
UNPLACED = {"key": "kubevirt.io/nodeName", "operator": "DoesNotExist"}


def causes(document: JsonObject, old: JsonObject | None = None) -> list[tuple[str, str]]:
    return [(cause.field, cause.message) for cause in plan_verdict(request(document, old), CLUSTER).causes]


def changed(**paths: Any) -> JsonObject:
    """A set that enters, with changes; `__` stands for dots."""
    document = replica_set_of(small_vmi())
    for path, value in paths.items():
        put(document, path.replace("__", "."), value)
    return document


def test_a_set_as_users_write_it_enters() -> None:
    verdict = plan_verdict(request(changed()), CLUSTER)
    assert (verdict.causes, verdict.warnings) == ((), ())


@pytest.mark.parametrize(
    ("document", "field", "message"),
    [
        (changed(spec__template=None), "spec.template", "missing virtual machine template."),
        (changed(spec__selector=None), "spec.selector", "selector does not match labels."),
        (changed(spec__selector__matchLabels__app="db"), "spec.selector", "selector does not match labels."),
        (
            changed(spec__selector__matchExpressions=[{"key": "app", "operator": "Like"}]),
            "spec.selector.matchExpressions[0].operator",
            'spec.selector.matchExpressions[0].operator: "Like" is not a valid label selector operator',
        ),
        (
            changed(spec__selector__matchExpressions=[UNPLACED]),
            "spec.selector.matchExpressions[0].key",
            "spec.selector.matchExpressions[0].key: kvedge itself writes the label kubevirt.io/nodeName on VMIs",
        ),
        (
            changed(spec__selector={}, spec__template__metadata={}),
            "spec.template.metadata.labels",
            "spec.template.metadata.labels: the template needs a label by which its copies are known",
        ),
        (
            changed(spec__replicas=-1),
            "spec.replicas",
            "spec.replicas: Invalid value: -1: must be greater than or equal to 0 and less than or equal to 2147483647",
        ),
        (
            changed(spec__template__metadata__name="Web"),
            "spec.template.metadata.name",
            'spec.template.metadata.name: Invalid value: "Web": a lowercase RFC 1123 subdomain must consist of',
        ),
        (
            changed(metadata__name="x" * 250),
            "metadata.name",
            f'metadata.name: Invalid value: "{"x" * 250}": must be no more than 248 characters',
        ),
        (changed(spec__repliccas=1), "spec.repliccas", 'unknown field "spec.repliccas"'),
        (changed(spec__replicas="two"), "spec.replicas", "spec.replicas: Expected"),
    ],
    ids=lambda value: value if isinstance(value, str) and value.startswith(("spec", "meta")) else "",
)
def test_what_does_not_enter(document: JsonObject, field: str, message: str) -> None:
    found = causes(document)
    assert [at for at, _ in found] == [field]
    assert found[0][1].startswith(message)


def test_the_template_is_judged_as_a_vmi_is() -> None:
    document = changed(spec__template__spec__domain__launchSecurity={"sev": {}})
    put(document, "spec.template.spec.domain.devices.disks[1]", {"name": "no-volume", "disk": {}})
    put(document, "spec.template.spec.domian", {})
    assert {at for at, _ in causes(document)} == {
        "spec.template.spec.domain.devices.disks[1].name",
        "spec.template.spec.domain.launchSecurity",
        "spec.template.spec.domian",
    }


def test_a_set_of_before_is_scaled_and_paused_though_newer_rules_refuse_its_template() -> None:
    old = changed(spec__template__spec__domain__cpu={"realtime": {}})
    assert causes(old)
    new = copy.deepcopy(old)
    new["spec"] |= {"replicas": 5, "paused": True}
    assert causes(new, old) == []
    new["spec"]["template"]["spec"]["hostname"] = "x"
    assert causes(new, old)
    old["metadata"]["labels"] = {"a": "b"}
    assert causes(old, changed(spec__template__spec__domain__cpu={"realtime": {}})) == []


def test_a_set_of_before_that_selects_by_a_label_of_the_controller_is_scaled() -> None:
    old = changed(spec__selector__matchExpressions=[UNPLACED])
    new = copy.deepcopy(old)
    new["spec"]["replicas"] = 0
    assert causes(new, old) == []
    assert [field for field, _ in causes(new, changed())] == ["spec.selector.matchExpressions[0].key"]


def test_what_only_one_guest_should_have_is_warned_of() -> None:
    document = changed(spec__template__spec__domain__firmware={"uuid": "6f5b0eea-1a7c-4fd8-a7a8-2d2d6b7a2e71"})
    put(document, "spec.template.spec.domain.devices.interfaces[0].macAddress", "02:00:00:00:00:01")
    put(document, "spec.template.metadata.annotations", {"sidecar.example.com/x": "y"})
    at = "spec.template.spec.domain"
    share = "all VMIs of the set get this one; leave it out, and each gets its own"
    assert [*plan_verdict(request(document), CLUSTER).warnings][-2:] == [
        f"{at}.devices.interfaces[0].macAddress: {share}",
        f"{at}.firmware.uuid: {share}",
    ]


def test_a_monster_is_refused_for_its_size_alone() -> None:
    document = changed(spec__template__metadata__labels={f"k{number}": "v" for number in range(30_000)})
    assert [at for at, _ in causes(document)] == ["spec"]

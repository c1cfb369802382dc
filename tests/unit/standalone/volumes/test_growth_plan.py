# Tests: kvedge/standalone/volumes/claim_users.py
"""How a claim grows, step by step, and which Pods keep a claim."""

from __future__ import annotations

from typing import Any

import pytest

from kvedge.resources.codec import decode
from kvedge.resources.types.core import Pod
from kvedge.resources.types.storage import PersistentVolumeClaim
from kvedge.standalone.volumes.claim_plan import Tell
from kvedge.standalone.volumes.claim_users import users_of
from kvedge.standalone.volumes.growth_plan import BeginGrowth, EndGrowth, GrowVolume, plan_growth
from tests.unit.standalone.volumes.claims import bound_claim, ref, volume

MIB = 1 << 20


def grown(claim: PersistentVolumeClaim, size: str) -> PersistentVolumeClaim:
    claim.status.capacity = {"storage": size}
    return claim


def test_a_claim_that_has_what_it_asks_for_needs_nothing() -> None:
    assert plan_growth(grown(bound_claim(size="1Gi"), "1Gi"), volume(ours=True, claimRef=ref())) == ()


def test_a_claim_says_that_it_grows_before_its_volume_does() -> None:
    has = volume(size="1Mi", ours=True, claimRef=ref())
    claim = grown(bound_claim(size="2Mi"), "1Mi")
    assert plan_growth(claim, has) == (BeginGrowth(2 * MIB), GrowVolume(has, 2 * MIB))


def test_a_claim_has_more_once_its_volume_has() -> None:
    claim = grown(bound_claim(size="2Mi"), "1Mi")
    assert plan_growth(claim, volume(size="2Mi", ours=True, claimRef=ref())) == (EndGrowth(2 * MIB),)


def test_a_growth_that_was_taken_back_ends_with_what_the_volume_has() -> None:
    claim = grown(bound_claim(size="1Mi"), "1Mi")
    claim.status.conditions = decode(
        PersistentVolumeClaim, {"status": {"conditions": [{"type": "Resizing", "status": "True"}]}}
    ).status.conditions
    assert plan_growth(claim, volume(size="1Mi", ours=True, claimRef=ref())) == (EndGrowth(MIB),)


def test_a_foreign_volume_is_grown_by_somebody_else() -> None:
    steps = plan_growth(grown(bound_claim(size="2Mi"), "1Mi"), volume(size="1Mi", claimRef=ref()))
    assert [step.reason for step in steps if isinstance(step, Tell)] == ["ExternalExpanding"]


@pytest.mark.parametrize(
    ("spec", "status", "users"),
    [
        pytest.param({"nodeName": "box"}, {"phase": "Running"}, ["p"], id="one that runs"),
        pytest.param({"nodeName": "box"}, {"phase": "Pending"}, ["p"], id="one that is about to start"),
        pytest.param({"nodeName": "box"}, {"phase": "Succeeded"}, [], id="one that is over"),
        pytest.param({}, {"phase": "Pending"}, [], id="one without a node"),
    ],
)
def test_a_claim_is_used_by_pods_on_a_node(spec: dict[str, Any], status: dict[str, Any], users: list[str]) -> None:
    source = {"name": "v", "persistentVolumeClaim": {"claimName": "data"}}
    document = {"metadata": {"name": "p", "namespace": "default"}, "spec": {"volumes": [source], **spec}}
    pod = decode(Pod, {**document, "status": status})
    assert users_of("default", "data", [pod]) == users
    assert users_of("other", "data", [pod]) == []

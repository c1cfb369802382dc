"""A launcher is told again when a claim of its VMI has changed."""

from __future__ import annotations

from typing import Any

from kvedge.handler.guest.told_claims import summarize_claims
from tests.support.builders import vmi_with


def told(**info: Any) -> object:
    status = {
        "volumeStatus": [{"name": "a", "target": "vda", "persistentVolumeClaimInfo": info}, {"name": "b", "target": ""}]
    }
    return summarize_claims(vmi_with({}, status))


def test_growth_of_a_claim_is_something_new() -> None:
    before = told(requests={"storage": "1Gi"}, capacity={"storage": "1Gi"})
    assert told(requests={"storage": "2Gi"}, capacity={"storage": "1Gi"}) != before
    assert told(requests={"storage": "1Gi"}, capacity={"storage": "2Gi"}) != before
    assert told(requests={"storage": "1Gi"}, capacity={"storage": "1Gi"}, preallocated=True) == before

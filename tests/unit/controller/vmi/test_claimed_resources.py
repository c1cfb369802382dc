"""Whether a cluster gives devices to claims is asked before a Pod with some is made."""

from __future__ import annotations

from typing import cast

import pytest

from kvedge.controller.vmi.claimed_resources import ClaimsNotServed, check_claims_served
from kvedge.kube.errors import KubeError, NotFound, Unavailable
from kvedge.kube.kube_client import KubeClient
from tests.support.builders import a_vmi, vmi_with

CLAIMING = vmi_with({"resourceClaims": [{"name": "cards", "resourceClaimName": "cards"}]})


class PlayedApi:
    """One that serves the group of claims, or answers with an error."""

    def __init__(self, error: KubeError | None = None) -> None:
        self.error = error
        self.asked: list[str] = []

    def request(self, method: str, path: str) -> None:
        self.asked.append(f"{method} {path}")
        if self.error is not None:
            raise self.error


def test_a_vmi_without_claims_asks_nobody() -> None:
    api = PlayedApi()
    check_claims_served(a_vmi(), cast(KubeClient, api))
    assert api.asked == []
    check_claims_served(CLAIMING, cast(KubeClient, api))
    assert api.asked == ["GET /apis/resource.k8s.io"]


def test_a_cluster_without_claims_is_told_with_remedies_and_one_that_is_away_is_asked_again() -> None:
    with pytest.raises(ClaimsNotServed, match=r"^spec.resourceClaims: .*Kubernetes 1.34 or later, or permittedHostDe"):
        check_claims_served(CLAIMING, cast(KubeClient, PlayedApi(NotFound(404, "NotFound", "no such group"))))
    with pytest.raises(Unavailable):
        check_claims_served(CLAIMING, cast(KubeClient, PlayedApi(Unavailable(503, "ServiceUnavailable", "away"))))

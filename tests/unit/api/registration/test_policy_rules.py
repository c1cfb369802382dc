"""An API server without policies is not served: nothing else would keep a handler to its node."""

from __future__ import annotations

from typing import Any

import pytest

from kvedge.api.registration.policy_rules import judges_by_policies, without_policies


def served(*names: str) -> dict[str, Any]:
    return {"resources": [{"name": name} for name in names]}


@pytest.mark.parametrize(
    ("resources", "judges"),
    [
        pytest.param(served("validatingadmissionpolicies", "validatingadmissionpolicybindings"), True, id="served"),
        pytest.param(served("validatingwebhookconfigurations"), False, id="webhooks only"),
        pytest.param({"resources": None}, False, id="nothing in it"),
        pytest.param(None, False, id="no such group"),
    ],
)
def test_a_server_judges_by_policies_if_it_serves_their_kind(resources: dict[str, Any] | None, judges: bool) -> None:
    assert judges_by_policies(resources) is judges


def test_a_server_without_them_is_named_with_what_is_needed() -> None:
    text = without_policies({"gitVersion": "v1.28.4+k3s1"})
    assert "Kubernetes v1.28.4+k3s1, has no ValidatingAdmissionPolicy" in text
    assert "needs Kubernetes 1.30 or newer" in text
    assert "of an unknown version" in without_policies(None)

"""What is said of a Pod that the server refused; the servers' sentences are Kubernetes' own."""

from __future__ import annotations

import pytest

from kvedge.controller.vm.create_refusal import is_passing, is_unjudged, pod_refusal
from kvedge.kube.errors import Forbidden, KubeError

NAME = "virt-launcher-web-abcde"
REFUSALS = {
    "pod security": (
        f'pods "{NAME}" is forbidden: violates PodSecurity "baseline:latest": hostPath volumes (volume "host-usr")',
        "kubectl label namespace shop pod-security.kubernetes.io/enforce=privileged --overwrite",
    ),
    "quota": (
        f'pods "{NAME}" is forbidden: exceeded quota: small, requested: requests.memory=1Gi, used: 0, limited: 1Mi',
        "kubectl describe resourcequota -n shop",
    ),
    "a quota that wants limits": (
        f'pods "{NAME}" is forbidden: failed quota: small: must specify limits.memory for: compute',
        "set spec.domain.resources.limits",
    ),
    "no service account": (
        f'pods "{NAME}" is forbidden: error looking up service account shop/default: "default" not found',
        "kubectl create serviceaccount default -n shop",
    ),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_a_refusal_that_is_known_comes_with_what_to_do(case):
    said, advice = REFUSALS[case]
    text = pod_refusal(Forbidden(403, "Forbidden", said), "shop")
    assert text.startswith(f"Error creating pod: {said}")
    assert advice in text


def test_what_another_webhook_says_is_passed_on_as_it_is():
    said = 'admission webhook "policy.example.com" denied the request: no hostPath on Fridays'
    assert pod_refusal(KubeError(400, "", said), "shop") == f"Error creating pod: {said}"


@pytest.mark.parametrize(
    ("status", "passing"), [(0, True), (429, True), (503, True), (504, True), (500, False), (403, False), (422, False)]
)
def test_a_server_that_is_busy_or_away_has_judged_nothing(status, passing):
    assert is_passing(KubeError(status, "", "x")) is passing


@pytest.mark.parametrize(("status", "unjudged"), [(0, True), (503, True), (500, True), (502, True), (403, False)])
def test_a_webhook_that_could_not_be_called_decides_nothing(status, unjudged):
    assert is_unjudged(KubeError(status, "InternalError", 'failed calling webhook "x"')) is unjudged

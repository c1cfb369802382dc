# Tests: kvedge/kube/self_review.py
"""As whom the API server knows a client."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvedge.kube.kube_client import KubeClient
from kvedge.kube.self_review import ask_who
from kvedge.resources.codec import JsonObject
from tests.support.scripted_api import scripted_api


@pytest.mark.parametrize(
    ("answer", "user"),
    [
        (
            {"status": {"userInfo": {"username": "ada", "groups": ["admins"]}}},
            {"username": "ada", "groups": ["admins"]},
        ),
        ({"status": {}}, {}),
        ({}, {}),
    ],
    ids=["a user", "no user", "no status"],
)
def test_the_answer_is_the_user(answer: JsonObject, user: JsonObject, tmp_path: Path) -> None:
    with scripted_api(lambda exchange: exchange.answer(201, answer)) as api:
        client = KubeClient.from_kubeconfig(api.write_kubeconfig(tmp_path / "kubeconfig"))
        assert ask_who(client) == user
        client.close()
        (asked,) = api.requests
    assert (asked.method, asked.path) == ("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews")

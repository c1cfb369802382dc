"""As whom the API server knows a client. Used where a role, or a user, goes by the name behind its credentials."""

from __future__ import annotations

from typing import Final

from kvedge.kube.kube_client import KubeClient
from kvedge.resources.codec import JsonObject

_PATH: Final = "/apis/authentication.k8s.io/v1/selfsubjectreviews"


def ask_who(client: KubeClient) -> JsonObject:
    """The `userInfo` of the client's user; empty when the answer has none.

    Raises:
        KubeError: when the API server refuses or does not answer.
    """
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    answer = client.request("POST", _PATH, review)
    return (answer.get("status") or {}).get("userInfo") or {}

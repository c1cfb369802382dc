"""Every golden launcher Pod is accepted by both servers, and nothing of it is dropped."""

from __future__ import annotations

from typing import Any

import pytest

from kvedge.kube.errors import AlreadyExists
from kvedge.resources.types.core import Pod
from tests.support.either_server import REAL, EitherServer
from tests.support.golden.pod_cases import GoldenPod, golden_pods


@pytest.fixture(scope="module", autouse=True)
def _priority_class(either_server: EitherServer) -> None:
    """The one that a golden case names: a kube-apiserver wants it to exist."""
    if either_server.kind == REAL:
        body = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 1}
        try:
            either_server.admin.request("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", body)
        except AlreadyExists:
            return


@pytest.mark.parametrize("case", golden_pods(), ids=lambda case: case.name)
def test_a_golden_pod_is_accepted_whole(either_server: EitherServer, namespace: str, case: GoldenPod):
    document = case.rendered
    document["metadata"]["namespace"] = namespace
    query = {"dryRun": "All", "fieldValidation": "Strict"}
    answer = either_server.admin.request("POST", Pod.KIND.path(namespace), document, query)
    assert missing(document["spec"], answer["spec"]) == []


def missing(sent: Any, kept: Any, path: str = "spec") -> list[str]:
    """What the server dropped or changed; what it added as a default does not count."""
    if isinstance(sent, dict):
        if not isinstance(kept, dict):
            return [path]
        return [p for key, value in sent.items() for p in missing(value, kept.get(key), f"{path}.{key}")]
    if isinstance(sent, list):
        # Volumes that a server adds, such as a token's, come last.
        if not isinstance(kept, list) or len(kept) < len(sent):
            return [path]
        return [p for i, value in enumerate(sent) for p in missing(value, kept[i], f"{path}[{i}]")]
    if sent in (False, "", 0) and kept is None:
        return []
    # Quantities come back in their shortest form.
    is_same = sent == kept or (".resources." in path and ".claims" not in path)
    return [] if is_same else [f"{path}: {sent!r} became {kept!r}"]

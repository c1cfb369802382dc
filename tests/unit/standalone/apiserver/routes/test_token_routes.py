"""Of which Pods the node agent gets tokens; the route itself is tried against both servers by the contract tests."""

from __future__ import annotations

import pytest

from kvedge.resources.codec import JsonObject
from kvedge.standalone.apiserver.routes.token_routes import judge_agent

AGENT = "system:node:box"


def a_pod(node: str | None = "box", phase: str = "") -> JsonObject:
    return {"spec": {"nodeName": node} if node else {}, "status": {"phase": phase} if phase else {}}


@pytest.mark.parametrize("pod", [a_pod(), a_pod(phase="Pending"), a_pod(phase="Running"), {**a_pod(), "status": None}])
def test_the_agent_gets_tokens_of_pods_of_its_node(pod: JsonObject) -> None:
    assert judge_agent(AGENT, pod, "uid") == ""


@pytest.mark.parametrize(
    ("user", "pod", "uid", "word"),
    [
        (AGENT, a_pod(), "", "names the Pod's uid"),
        (AGENT, a_pod("other"), "uid", "on its node alone"),
        (AGENT, a_pod(None), "uid", "on its node alone"),
        ("system:node:", a_pod(None), "uid", "on its node alone"),
        ("box", a_pod(), "uid", "on its node alone"),
        (AGENT, a_pod(phase="Succeeded"), "uid", "have ended"),
        (AGENT, a_pod(phase="Failed"), "uid", "have ended"),
    ],
    ids=["no uid", "another node", "no node yet", "nobody's node", "no agent's name", "succeeded", "failed"],
)
def test_the_agent_gets_no_other_tokens(user: str, pod: JsonObject, uid: str, word: str) -> None:
    assert word in judge_agent(user, pod, uid)

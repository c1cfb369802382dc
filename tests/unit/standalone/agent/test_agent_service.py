"""The parts of the node agent: what runs here is known first, and Pods are run once the API has listed them."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import MagicMock

import pytest

from kvedge.kube.errors import Unavailable
from kvedge.network.errors import NetworkError
from kvedge.runtime.role import order_of_need
from kvedge.runtime.services import ServiceError
from kvedge.standalone.agent.agent_service import AgentConfig, NodeAgent


@pytest.fixture
def agent(tmp_path: Path) -> NodeAgent:
    return NodeAgent(AgentConfig("box", tmp_path, tmp_path / "kubelet"), MagicMock(), MagicMock())


def test_pods_run_once_all_that_they_need_is_there(agent: NodeAgent) -> None:
    names = [part.name for part in order_of_need(agent._make_parts([]))]
    assert names == [
        "adopted Pods",
        "images",
        "node network",
        "container starter",
        "events",
        "scheduler events",
        "troubles",
        "device manager",
        "node",
        "nodes",
        "pods",
        "addresses",
        "claims",
        "persistent volumes",
        "storage classes",
        "lists",
        "damaged Pods",
        "log-keeper",
        "resolv-conf-keeper",
        "volume-keeper",
        "network-keeper",
        "image pulls",
        "container watch",
        "probes",
        "pod loop",
        "scheduler",
        "address sweep",
    ]


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (NetworkError("cannot make a bridge", subject="kvedge0"), "node agent: .*cannot make a bridge"),
        (Unavailable(503, "", "it is away"), "node agent: .*it is away"),
        (FileNotFoundError(2, "No such file or directory", "/dev/x"), "node agent: /dev/x: No such file"),
    ],
    ids=["the network", "the API", "a file"],
)
def test_what_keeps_it_from_starting_is_said_with_its_name(
    error: Exception, words: str, agent: NodeAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent, "_prepare_images", lambda: None)

    def refuse(*_: object) -> None:
        raise error

    monkeypatch.setattr("kvedge.standalone.agent.node.network_keeper.NetworkKeeper.make", refuse)
    with pytest.raises(ServiceError, match=words):
        agent.start()
    assert agent.failure() is None
    agent.stop()


def test_the_status_line_counts_pods(agent: NodeAgent) -> None:
    assert agent.summary() == "0 Pods on this node"

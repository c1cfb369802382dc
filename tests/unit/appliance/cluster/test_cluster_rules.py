"""Clusters that are not fit, and versions in the wrong order."""

from __future__ import annotations

from typing import Literal

import pytest

from kvedge.appliance.cluster.cluster_rules import too_old, wrong_order


@pytest.mark.parametrize(
    ("version", "is_old"),
    [
        pytest.param("v1.29.15+k3s1", True, id="the last one without admission policies"),
        pytest.param("v1.30.0", False, id="the first one with them"),
        pytest.param("v1.36.2-rc.1", False, id="a new one"),
        pytest.param("v1.9.11", True, id="numbers, not texts, are compared"),
        pytest.param("v2.0.0", False, id="another major version"),
        pytest.param("", False, id="one that does not tell"),
    ],
)
def test_a_kubernetes_without_sidecars_is_refused(version: str, is_old: bool) -> None:
    assert bool(too_old(version, "it", "k3s")) is is_old


def test_a_refusal_says_what_is_to_be_upgraded() -> None:
    text = too_old("v1.28.4+k3s1", "the kubelet of edge-1", "this node's Kubernetes")
    assert text == (
        "the kubelet of edge-1 is Kubernetes v1.28.4+k3s1, and kvedge needs 1.30 or newer (admission policies):"
        " upgrade this node's Kubernetes"
    )


@pytest.mark.parametrize(
    ("role", "control_plane", "own", "expected"),
    [
        pytest.param("agent", "0.2.0", "0.2.1", "", id="a patch, on an agent first"),
        pytest.param("agent", "0.1.0", "0.2.0", "upgrade the servers first", id="an agent before its servers"),
        pytest.param("server", "0.1.0", "0.2.0", "", id="a server first"),
        pytest.param("agent", "0.2.0", "0.1.0", "", id="an agent that joins with the version before"),
        pytest.param("server", "0.1.0", "0.3.0", "go one minor version at a time", id="a version left out"),
        pytest.param("agent", "0.3.0", "0.1.0", "go one minor version at a time", id="an agent of long ago"),
        pytest.param("agent", "", "0.1.0", "", id="the first node"),
    ],
)
def test_servers_go_first_and_no_minor_version_is_left_out(
    role: Literal["server", "agent"], control_plane: str, own: str, expected: str
) -> None:
    found = wrong_order(role, control_plane, own)
    assert expected in found
    assert bool(found) is bool(expected)

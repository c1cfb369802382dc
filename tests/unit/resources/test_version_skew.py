"""Which versions may be mixed in one cluster: the table in k3s/README.md, row by row."""

from __future__ import annotations

import pytest

from kvedge.resources.version_skew import Skew, refusal, skew


@pytest.mark.parametrize(
    ("control_plane", "node", "expected"),
    [
        pytest.param("0.2.0", "0.2.0", Skew.SAME, id="one version"),
        pytest.param("0.2.7", "0.2.0", Skew.SAME, id="an older patch on the node"),
        pytest.param("0.2.0", "0.2.7", Skew.SAME, id="a newer patch on the node"),
        pytest.param("0.2.0", "0.1.9", Skew.BEHIND, id="a node that is upgraded next"),
        pytest.param("v0.2.0", "0.1.9", Skew.BEHIND, id="as the KubeVirt object writes it"),
        pytest.param("0.1.0", "0.2.0", Skew.AHEAD, id="the first of several servers is upgraded"),
        pytest.param("0.3.0", "0.1.0", Skew.APART, id="a node that was left out"),
        pytest.param("0.1.0", "0.3.0", Skew.APART, id="a node far ahead"),
        pytest.param("1.0.0", "0.9.0", Skew.APART, id="another major version"),
        pytest.param("", "0.1.0", Skew.UNKNOWN, id="no control plane has told yet"),
        pytest.param("0.2.0", "", Skew.UNKNOWN, id="a node that does not tell"),
        pytest.param("0.2.0+build", "0.2.0", Skew.SAME, id="a build of ones own"),
        pytest.param("main", "0.2.0", Skew.UNKNOWN, id="no release"),
    ],
)
def test_a_node_is_seen_from_its_control_plane(control_plane: str, node: str, expected: Skew) -> None:
    assert skew(control_plane, node) is expected
    assert bool(refusal(control_plane, node)) is (expected is Skew.APART)


def test_a_refusal_names_both_and_who_is_to_be_upgraded() -> None:
    behind, ahead = refusal("0.3.0", "0.1.0"), refusal("0.1.0", "0.3.0")
    assert behind.startswith("kvedge 0.1.0 here and 0.3.0 on the servers")
    assert behind.endswith("upgrade this node, one minor version at a time")
    assert ahead.endswith("upgrade the servers, one minor version at a time")

"""Whether container disks are image volumes, from what the cluster's nodes say of themselves."""

from __future__ import annotations

import pytest

from kvedge.controller.kubevirt.image_volume_rules import mounts_images, unable_nodes, uses_image_volumes
from kvedge.resources.configuration.configuration import Configuration
from kvedge.resources.configuration.feature_gates import FeatureGates
from kvedge.resources.meta import ObjectMeta
from kvedge.resources.types.core import Node, NodeStatus
from tests.support.builders import CONFIG

NEW = ("v1.35.0+k3s1", "containerd://2.1.4-k3s1")
OLD = ("v1.34.2", "containerd://1.6.20~ds1")
BOX = ("v0.1.0", "kvedge://0.1.0")
NOBODY = FeatureGates()


def node(name: str, versions: tuple[str, str], schedulable: str | None = "true") -> Node:
    labels = {} if schedulable is None else {"kubevirt.io/schedulable": schedulable}
    info = {"kubeletVersion": versions[0], "containerRuntimeVersion": versions[1]}
    return Node(metadata=ObjectMeta(name=name, labels=labels), status=NodeStatus(node_info=info))


@pytest.mark.parametrize(
    ("kubelet", "runtime", "able"),
    [
        pytest.param("v1.35.0", "containerd://2.1.0", True, id="the first that can"),
        pytest.param("v1.36.1+k3s1", "containerd://2.2.0-k3s1", True, id="k3s"),
        pytest.param("v1.34.9", "containerd://2.1.0", False, id="a kubelet whose gate is off"),
        pytest.param("v1.35.0", "containerd://2.0.9", False, id="a containerd before it could"),
        pytest.param("v1.35.0", "containerd://1.6.20~ds1", False, id="Debian 12's containerd"),
        pytest.param("v1.35.0", "containerd://1.7.24~ds1", False, id="Debian 13's containerd"),
        pytest.param("v1.35.0", "cri-o://1.31.0", True, id="the first CRI-O that can"),
        pytest.param("v1.35.0", "cri-o://1.30.8", False, id="a CRI-O before it could"),
        pytest.param("v1.36.0", "docker://28.0.1", False, id="Docker never could"),
        pytest.param("v0.1.0", "kvedge://0.1.0", True, id="a runtime that nobody knows"),
        pytest.param("", "", True, id="a node that says nothing"),
        pytest.param("v1.35.0", "containerd://Unknown", False, id="no version"),
        pytest.param("v2.0.0", "containerd://3.0.0", True, id="times to come"),
    ],
)
def test_a_node_mounts_images_when_kubelet_and_runtime_both_can(kubelet: str, runtime: str, able: bool) -> None:
    assert mounts_images(node("n", (kubelet, runtime))) is able


@pytest.mark.parametrize(
    ("nodes", "used"),
    [
        pytest.param([node("a", NEW), node("b", NEW)], True, id="all can"),
        pytest.param([node("a", NEW), node("b", OLD)], False, id="one cannot"),
        pytest.param([node("a", NEW), node("b", OLD, None)], True, id="one cannot but takes no VMs"),
        pytest.param([node("a", NEW), node("b", OLD, "false")], False, id="one cannot whose handler is away"),
        pytest.param([node("a", OLD, None)], False, id="no handler has come yet"),
        pytest.param([], True, id="no node has come yet"),
    ],
)
def test_image_volumes_are_used_where_every_node_for_vms_can(nodes: list[Node], used: bool) -> None:
    assert uses_image_volumes(nodes, NOBODY) is used


def test_the_kubevirt_object_has_the_last_word() -> None:
    asked, refused = FeatureGates(frozenset({"ImageVolume"})), FeatureGates(disabled=frozenset({"ImageVolume"}))
    assert uses_image_volumes([node("a", OLD)], asked)
    assert not uses_image_volumes([node("a", NEW)], refused)


@pytest.mark.parametrize(
    "gates",
    [
        pytest.param(NOBODY, id="no word"),
        pytest.param(FeatureGates(frozenset({"ImageVolume"})), id="enabled"),
        pytest.param(FeatureGates(disabled=frozenset({"ImageVolume"})), id="disabled"),
    ],
)
def test_on_one_box_the_gate_has_nothing_to_choose(gates: FeatureGates) -> None:
    """Its agent runs no init containers that go on: with containers of images no VM with a container disk started."""
    assert uses_image_volumes([node("box", BOX)], gates)
    assert uses_image_volumes([node("box", BOX, None)], gates)


def test_a_cluster_that_a_box_belongs_to_obeys_the_gate() -> None:
    refused = FeatureGates(disabled=frozenset({"ImageVolume"}))
    assert not uses_image_volumes([node("box", BOX), node("a", NEW)], refused)
    assert uses_image_volumes([node("box", BOX), node("a", NEW, None)], refused)


def test_the_nodes_that_cannot_are_named() -> None:
    assert unable_nodes([node("c", OLD), node("b", NEW), node("a", OLD)]) == ["a", "c"]


def test_the_configuration_in_force_follows_nodes_and_gates() -> None:
    assert CONFIG.with_configuration(Configuration()).image_volumes
    assert not CONFIG.with_configuration(Configuration(), [node("a", OLD)]).image_volumes
    asked = Configuration(gates=FeatureGates(frozenset({"ImageVolume"})))
    assert CONFIG.with_configuration(asked, [node("a", OLD)]).image_volumes

"""What the handler says of its node's bridges, and that one has gone."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, cast
from unittest.mock import MagicMock

import pytest

from kvedge.handler.node.kvm_check import Accelerator
from kvedge.handler.node.node_loop import NodeLoop, lasting_bridges
from kvedge.handler.node.node_manifest import NodeCapabilities
from kvedge.kube.events import EventRecorder
from kvedge.kube.kube_client import KubeClient
from kvedge.network.errors import NetworkError
from kvedge.network.link_types import Link
from kvedge.network.nics.nic_plan import nic_alias
from kvedge.resources.lan_bridges import BRIDGE_PREFIX, MOST_BRIDGES
from kvedge.resources.meta import ObjectMeta
from kvedge.resources.names import HEARTBEAT, HOST_DEVICES, SCHEDULABLE
from kvedge.resources.types.core import Node
from tests.support.clocks import FakeClock
from tests.support.values import replace

LAN, OTHER = "bridge.node.kvedge.io/br-lan", "bridge.node.kvedge.io/br-other"


class PlayedCluster:
    """One Node and its events."""

    def __init__(self, **labels: str) -> None:
        self.node = Node(metadata=ObjectMeta(name="edge-1", labels=labels))
        self.patched: dict[str, Any] = {}
        self.annotations: dict[str, Any] = {}
        self.events: list[tuple[str, str]] = []

    def get(self, *rest: Any) -> Node:
        return self.node

    def patch(self, kind: Any, namespace: str, name: str, patch: Any) -> None:
        self.patched = patch.body["metadata"]["labels"]
        self.annotations = patch.body["metadata"]["annotations"]

    def record(self, item: Node, kind: str, reason: str, text: str) -> None:
        self.events.append((reason, text))


def a_loop(cluster: PlayedCluster, bridges: Callable[[], Collection[str]]) -> NodeLoop:
    platform = MagicMock(capabilities=NodeCapabilities(), accelerator=Accelerator(emulation=True, detail="tcg"))
    client, events = cast(KubeClient, cluster), cast(EventRecorder, cluster)
    return NodeLoop(client, "edge-1", platform, lambda: "a:1", str, FakeClock(), events, bridges)


def written(cluster: PlayedCluster, *bridges: str) -> dict[str, Any]:
    """The labels of one write."""
    assert a_loop(cluster, lambda: bridges)._write(schedulable=True)
    return cluster.patched


def bridge(name: str, alias: str = "", kind: str = "bridge") -> Link:
    return Link(index=1, name=name, kind=kind, mac="52:54:00:00:00:01", mtu=1500, up=True, alias=alias)


def test_the_bridge_of_a_nic_lasts_and_those_of_guests_alone_do_not() -> None:
    links = [
        bridge("br-lan", "uplink"),
        bridge("kvb-eth0", nic_alias("eth0")),
        bridge("kvedge0", "kvedge"),
        bridge("kvn-1", "kvedge network n/lan"),
        bridge("docker0"),
        bridge("eth0", nic_alias("eth0"), kind=""),
    ]
    assert lasting_bridges(links) == ("br-lan", "kvb-eth0")


def test_a_node_says_which_bridges_it_has_and_takes_back_those_that_went() -> None:
    cluster = PlayedCluster(**{OTHER: "true"})
    found = written(cluster, "br-lan")
    assert (found[LAN], found[OTHER]) == ("true", None)
    [(reason, text)] = cluster.events
    assert reason == "BridgeGone"
    assert text.startswith("bridge br-other is no longer on this node")


def test_an_operator_who_writes_a_nodes_cpus_and_machines_keeps_them() -> None:
    gone = "machine-type.node.kubevirt.io/pc-old"
    assert written(PlayedCluster(**{gone: "true"}))[gone] is None
    mine = PlayedCluster(**{gone: "true", "host-model-cpu.node.kubevirt.io/mine": "true", OTHER: "true"})
    mine.node.metadata.annotations["node-labeller.kubevirt.io/skip-node"] = "true"
    assert written(mine) == {OTHER: None, SCHEDULABLE: "true"}


def test_the_node_says_what_guests_of_its_cpu_need_elsewhere_and_that_its_own_model_is_given_up() -> None:
    cluster = PlayedCluster(**{"cpu-model-migration.node.kubevirt.io/old": "true"})
    found = NodeCapabilities("EPYC", host_model_features=["vgif"], known_models=["EPYC", "Penryn"], cpu_vendor="AMD")
    found = replace(found, tsc_frequency=2399998000)
    platform = MagicMock(capabilities=found, accelerator=Accelerator(emulation=True, detail="tcg"))
    client, events = cast(KubeClient, cluster), cast(EventRecorder, cluster)
    loop = NodeLoop(client, "edge-1", platform, str, str, FakeClock(), events, lambda: ())
    assert loop._write(schedulable=True)
    labels = {
        "cpu-model-migration.node.kubevirt.io/EPYC": "true",
        "cpu-model-migration.node.kubevirt.io/Penryn": "true",
        "host-model-cpu.node.kubevirt.io/EPYC": "true",
        "host-model-required-features.node.kubevirt.io/vgif": "true",
        "cpu-vendor.node.kubevirt.io/AMD": "true",
        "cpu-timer.node.kubevirt.io/tsc-frequency": "2399998000",
        "cpu-timer.node.kubevirt.io/tsc-scalable": "false",
        SCHEDULABLE: "true",
    }
    assert cluster.patched == {**labels, "cpu-model-migration.node.kubevirt.io/old": None}
    assert cluster.events == []
    obsolete = "node-labeller.kubevirt.io/obsolete-host-model"
    platform.capabilities = replace(found, is_obsolete=True)
    for present, told in (({}, 1), ({obsolete: "true"}, 1)):
        cluster.node.metadata.labels = present
        assert loop._write(schedulable=True)
        assert len(cluster.events) == told, "once, when it becomes so"
    assert cluster.events[0][0] == "HostModelIsObsolete"
    platform.capabilities = found
    assert loop._write(schedulable=True)
    assert cluster.patched[obsolete] is None


def test_nothing_is_told_while_all_bridges_are_there() -> None:
    cluster = PlayedCluster(**{LAN: "true"})
    assert LAN not in written(cluster, "br-lan")
    assert cluster.events == []


def test_a_bridge_whose_label_has_no_more_room_has_not_gone() -> None:
    present = [f"br{number:02}" for number in range(MOST_BRIDGES)]
    cluster = PlayedCluster(**{BRIDGE_PREFIX + name: "true" for name in present})
    found = written(cluster, "br-lan", *present)
    assert (found[LAN], found[BRIDGE_PREFIX + present[-1]]) == ("true", None)
    assert cluster.events == []


def test_while_bridges_cannot_be_read_the_node_keeps_their_labels_and_says_all_else(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def unreadable() -> Collection[str]:
        raise NetworkError("cannot list links", errno=1)

    cluster = PlayedCluster(**{LAN: "true", SCHEDULABLE: "true"})
    loop = a_loop(cluster, unreadable)
    for _ in range(2):
        assert loop._write(schedulable=False)
    assert cluster.patched == {SCHEDULABLE: "false"}
    assert cluster.annotations[HEARTBEAT]
    assert cluster.events == []
    assert [record.message for record in caplog.records] == ["this node's bridges cannot be read"]


@pytest.mark.parametrize(("told", "written_text"), [('{"devices":[]}', '{"devices":[]}'), ("", None)])
def test_the_node_says_what_devices_it_has_for_guests(told: str, written_text: str | None) -> None:
    cluster = PlayedCluster()
    platform = MagicMock(capabilities=NodeCapabilities(), accelerator=Accelerator(emulation=True, detail="tcg"))
    client, events = cast(KubeClient, cluster), cast(EventRecorder, cluster)
    loop = NodeLoop(client, "edge-1", platform, str, str, FakeClock(), events, lambda: (), devices=lambda: told)
    assert loop._write(schedulable=True)
    assert cluster.annotations[HOST_DEVICES] == written_text


def test_the_node_says_what_it_does_for_guests_with_cpus_for_themselves() -> None:
    cluster = PlayedCluster(**{"kubevirt.io/realtime": "", "cpumanager": "false"})
    platform = MagicMock(capabilities=NodeCapabilities(), accelerator=Accelerator(emulation=True, detail="tcg"))
    client, events = cast(KubeClient, cluster), cast(EventRecorder, cluster)
    told = {"cpumanager": "true", "kubevirt.io/cpumanager": "true"}
    loop = NodeLoop(client, "edge-1", platform, str, str, FakeClock(), events, lambda: (), cpus=lambda: told)
    assert loop._write(schedulable=True)
    assert cluster.patched == {SCHEDULABLE: "true", "kubevirt.io/realtime": None, **told}

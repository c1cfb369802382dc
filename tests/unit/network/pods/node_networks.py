"""A host with a node network in the model of its kernel, for the tests of the plans of this folder."""

from __future__ import annotations

from pathlib import Path

from kvedge.network.drop_rules import DROPPED
from kvedge.network.link_types import Route
from kvedge.network.nft.nft_tables import Family, Table
from kvedge.network.pods.attachments import Attachment, NodeNetworkConfig, attachment_for
from kvedge.network.pods.pod_network_plan import plan_healing, plan_node_network, plan_removal
from kvedge.network.pods.pod_port_plan import plan_port
from kvedge.network.pods.pod_tables import our_tables
from kvedge.network.steps import SetLink, Step
from tests.unit.network.namespace_model import NamespaceModel

CONFIG = NodeNetworkConfig(bridge="kvedge0", cidr="10.99.0.0/24", table="kvedge0", netns_prefix="kvedge0-")
SECOND = NodeNetworkConfig(bridge="kve-abc123", cidr="10.98.0.0/24", table="kve-abc123", netns_prefix="kve-abc123-")
POD = attachment_for(CONFIG, "kvedge0-pod", "10.99.0.7", "52:54:00:00:00:07")
NETNS = Path("/run/netns/kvedge0-pod")


def host() -> NamespaceModel:
    """A host with one NIC of MTU 1400 and a default route."""
    model = NamespaceModel()
    model.add_link("eno1", "", mtu=1400)
    model.apply(SetLink("eno1", up=True))
    model._add_address(model.link("eno1"), "192.0.2.2", 24)
    model.routes.append(Route("0.0.0.0/0", "192.0.2.1", model.link("eno1").index, protocol=4))
    return model


def ensure(model: NamespaceModel, config: NodeNetworkConfig = CONFIG, stop_after: int | None = None) -> list[Step]:
    steps = plan_node_network(config, model.seen_by_node())
    for step in steps[:stop_after]:
        model.apply(step)
    return steps


def remove(model: NamespaceModel, config: NodeNetworkConfig = CONFIG, stop_after: int | None = None) -> list[Step]:
    steps = plan_removal(config, model.seen_by_node())
    for step in steps[:stop_after]:
        model.apply(step)
    return steps


def attach(
    model: NamespaceModel, pod: Attachment = POD, *, whole: bool = True, stop_after: int | None = None
) -> list[Step]:
    steps = plan_port(CONFIG, model.seen_by_node(), pod, NETNS, whole=whole)
    for step in steps[:stop_after]:
        model.apply(step)
    return steps


def sets_of(model: NamespaceModel) -> dict[str, set[bytes]]:
    """What the plans have put into the sets of the ports' table."""
    return {name: each for name, each in model.tables[Family.BRIDGE, CONFIG.table].items() if name != DROPPED.name}


def whole_of(model: NamespaceModel) -> list[Table]:
    return [table for table in our_tables(CONFIG) if (table.family, table.name) in model.tables]


def heal(model: NamespaceModel) -> list[Step]:
    steps = plan_healing(CONFIG, model.seen_by_node(), whole_of(model))
    for step in steps:
        model.apply(step)
    return steps

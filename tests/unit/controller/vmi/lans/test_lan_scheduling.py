"""What is told of a launcher whose networks no node has."""

from __future__ import annotations

import pytest

from kvedge.controller.vmi.lans.lan_scheduling import scheduled_with_networks
from kvedge.resources.meta import Condition
from kvedge.resources.types.core import Pod, PodSpec, PodStatus

NOWHERE = "0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector."


def pod(status: str = "False", **selector: str) -> Pod:
    scheduled = Condition(type="PodScheduled", status=status, reason="Unschedulable", message=NOWHERE)
    named = {f"bridge.node.kvedge.io/{bridge}": value for bridge, value in selector.items()}
    spec = PodSpec(node_selector={"kubevirt.io/schedulable": "true", **named})
    return Pod(spec=spec, status=PodStatus(conditions=[scheduled]))


def test_a_launcher_that_no_node_takes_names_the_bridges_of_its_networks_and_how_to_find_nodes() -> None:
    found = scheduled_with_networks(pod(lan="true", dmz="true"))
    assert found is not None
    assert found.reason == "Unschedulable"
    assert found.message.startswith(f"{NOWHERE} (spec.networks: its networks are on nodes with bridge dmz, lan alone; ")
    assert "`kubectl get nodes -l bridge.node.kvedge.io/dmz,bridge.node.kvedge.io/lan`" in found.message


@pytest.mark.parametrize(
    "given", [pod(), pod("True", lan="true")], ids=["it asks for no bridge", "it has found its node"]
)
def test_any_other_launcher_is_told_in_the_schedulers_words(given: Pod) -> None:
    found = scheduled_with_networks(given)
    assert found is not None
    assert found.message == NOWHERE


def test_a_pod_of_which_nobody_has_said_anything_has_no_such_condition() -> None:
    assert scheduled_with_networks(Pod(spec=PodSpec())) is None

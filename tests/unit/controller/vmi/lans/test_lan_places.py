"""The nodes to which networks of the LAN bind a launcher."""

from __future__ import annotations

from typing import Any, cast

import pytest

from kvedge.controller.vmi.lans.lan_places import NetworkMissing, on_its_lans
from kvedge.kube.errors import Forbidden, KubeError, NotFound, Unavailable
from kvedge.kube.kube_client import KubeClient
from kvedge.resources.lan_bridges import ONLY_WITH_BRIDGE
from kvedge.resources.meta import ObjectMeta
from kvedge.resources.types.attachments import NetworkAttachmentDefinition, NetworkAttachmentDefinitionSpec
from kvedge.resources.types.core import Pod, PodSpec
from kvedge.resources.types.devices import Interface
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.resources.types.volumes import MultusNetwork, Network, PodNetwork
from tests.support.builders import a_vmi


class PlayedApi:
    """An API with one network, or with an error in its place."""

    def __init__(self, error: KubeError | None = None) -> None:
        self.error = error
        self.asked: list[tuple[str, str]] = []

    def get(self, kind: Any, namespace: str, name: str) -> NetworkAttachmentDefinition:
        self.asked.append((namespace, name))
        if self.error is not None:
            raise self.error
        return NetworkAttachmentDefinition(
            metadata=ObjectMeta(annotations={ONLY_WITH_BRIDGE: "true"}),
            spec=NetworkAttachmentDefinitionSpec(config='{"type":"bridge","bridge":"br-lan"}'),
        )


def a_pod() -> Pod:
    return Pod(metadata=ObjectMeta(name="p"), spec=PodSpec(node_selector={"disk": "ssd"}))


def on(*networks: str) -> VirtualMachineInstance:
    vmi = a_vmi()
    vmi.spec.networks = [Network(name="default", pod=PodNetwork())]
    vmi.spec.networks += [Network(name=name, multus=MultusNetwork(network_name=name)) for name in networks]
    vmi.spec.domain.devices.interfaces += [Interface(name=name, bridge={}) for name in networks]
    return vmi


def selector(vmi: VirtualMachineInstance, api: PlayedApi) -> dict[str, str]:
    return on_its_lans(a_pod(), vmi, cast(KubeClient, api)).spec.node_selector


def test_a_launcher_goes_to_nodes_with_the_bridge_of_its_network_and_where_its_owner_wants_it() -> None:
    api = PlayedApi()
    vmi = on("site/lan", "own")
    assert selector(vmi, api) == {"disk": "ssd", "bridge.node.kvedge.io/br-lan": "true"}
    assert api.asked == [("site", "lan"), (vmi.metadata.namespace, "own")]


def test_without_such_networks_nothing_is_asked() -> None:
    api = PlayedApi()
    assert selector(on(), api) == {"disk": "ssd"}
    assert api.asked == []


def test_a_network_that_is_not_there_is_named_with_the_remedy() -> None:
    gone = NotFound(404, "NotFound", "gone")
    said = r"^spec\.networks\[1\]: there is no network site/lan: `kvedge network create lan -n site` makes one$"
    with pytest.raises(NetworkMissing, match=said):
        selector(on("site/lan"), PlayedApi(gone))
    vmi = on("site/lan")
    vmi.spec.domain.devices.interfaces[-1].state = "absent"
    # The Pod does not join it, nor do those of functions: these are asked for elsewhere.
    assert selector(vmi, PlayedApi(gone)) == {"disk": "ssd"}


def test_a_network_that_is_not_for_us_keeps_no_vm_from_starting() -> None:
    assert selector(on("lan"), PlayedApi(Forbidden(403, "Forbidden", "no rights"))) == {"disk": "ssd"}


@pytest.mark.parametrize(
    "error",
    [Unavailable(503, "ServiceUnavailable", "later"), KubeError(0, "", "no connection")],
    ids=["busy", "away"],
)
def test_a_server_that_is_away_lets_no_launcher_go_to_any_node(error: KubeError) -> None:
    with pytest.raises(type(error)):
        selector(on("lan"), PlayedApi(error))

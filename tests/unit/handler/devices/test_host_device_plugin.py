"""What the plugin of a resource tells the kubelet, and gives a container."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kvedge.handler.devices.device_facts import Offer
from kvedge.handler.devices.host_device_plugin import HostDevicePlugin, socket_name

GPU = "nvidia.com/TU104GL_Tesla-T4"


def an_offer(address: str, group: str, trouble: str = "") -> Offer:
    nodes = ("/dev/vfio/vfio", f"/dev/vfio/{group}")
    return Offer(resource=GPU, kind="pci", members=(address,), addresses=(address,), nodes=nodes, trouble=trouble)


@pytest.fixture
def plugin(tmp_path: Path) -> HostDevicePlugin:
    made = HostDevicePlugin(GPU, tmp_path, tmp_path / "nodes")
    offers = [an_offer("0000:65:00.0", "14"), an_offer("0000:66:00.0", "15"), an_offer("0000:67:00.0", "16", "is bad")]
    made.change({offer.id: offer for offer in offers})
    return made


def test_a_device_that_cannot_be_given_is_not_healthy(plugin: HostDevicePlugin) -> None:
    told = {device.ID: device.health for device in plugin.render(plugin.state)}
    assert told == {"0000:65:00.0": "Healthy", "0000:66:00.0": "Healthy", "0000:67:00.0": "Unhealthy"}


def test_a_container_gets_the_nodes_and_kubevirts_variable(plugin: HostDevicePlugin, tmp_path: Path) -> None:
    given: Any = plugin.give(["0000:65:00.0", "0000:66:00.0"])
    assert dict(given.envs) == {"PCI_RESOURCE_NVIDIA_COM_TU104GL_TESLA_T4": "0000:65:00.0,0000:66:00.0"}
    # Plain files are no devices: the plugin names the host's own.
    assert [(each.container_path, each.host_path, each.permissions) for each in given.devices] == [
        (path, f"{tmp_path}{path}", "mrw") for path in ("/dev/vfio/vfio", "/dev/vfio/14", "/dev/vfio/15")
    ]


@pytest.mark.parametrize(
    ("device", "words"),
    [("0000:67:00.0", "0000:67:00.0 is bad"), ("0000:68:00.0", "is no longer on this node")],
    ids=["one that is not healthy", "one that is gone"],
)
def test_a_device_that_cannot_be_had_is_refused_in_words(plugin: HostDevicePlugin, device: str, words: str) -> None:
    with pytest.raises(LookupError, match=words):
        plugin.give([device])


def test_sockets_of_long_names_are_short_and_differ() -> None:
    first, second = (socket_name(f"example.com/{'x' * 60}{n}") for n in (1, 2))
    assert first != second
    assert len(first) <= 73
    assert socket_name("example.com/gpu") == "kvedge-example.com-gpu-devices.sock"

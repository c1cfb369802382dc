"""What a device plugin tells the kubelet."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kvedge.handler.node.device_plugin import DevicePlugin, SharedDevice
from kvedge.handler.node.device_plugins import registration_due
from kvedge.rpc import deviceplugin_pb2

KUBELET, ANOTHER = (1, 2, 3), (1, 2, 4)


class OpenStream:
    """A kubelet that listens."""

    def is_active(self) -> bool:
        return True

    def add_callback(self, callback: Callable[[], None]) -> bool:
        return True


def test_another_number_of_vms_is_told_at_once(tmp_path: Path) -> None:
    device = tmp_path / "kvm"
    device.touch()
    plugin = DevicePlugin(SharedDevice("devices.kubevirt.io/kvm", str(device)))
    context: Any = OpenStream()
    answers = plugin.ListAndWatch(None, context)
    assert len(next(answers).devices) == 1000
    plugin.offer(3)
    assert [item.ID for item in next(answers).devices] == ["kvm0", "kvm1", "kvm2"]
    device.unlink()
    plugin.refresh()
    assert {item.health for item in next(answers).devices} == {"Unhealthy"}
    plugin.stop()
    assert list(answers) == []


def test_whether_anybody_reads_the_list_is_known(tmp_path: Path) -> None:
    plugin = DevicePlugin(SharedDevice("devices.kubevirt.io/tun", str(tmp_path)))
    context: Any = OpenStream()
    answers = plugin.ListAndWatch(None, context)
    assert not plugin.is_watched
    next(answers)
    assert plugin.is_watched
    answers.close()
    assert not plugin.is_watched


def test_a_list_of_the_most_devices_is_far_from_what_grpc_takes(tmp_path: Path) -> None:
    plugin = DevicePlugin(SharedDevice("devices.kubevirt.io/vhost-net", str(tmp_path)))
    plugin.offer(5000)
    context: Any = OpenStream()
    message: deviceplugin_pb2.ListAndWatchResponse = next(plugin.ListAndWatch(None, context))
    assert len(message.devices) == 5000
    assert message.ByteSize() < (4 << 20) // 10


@pytest.mark.parametrize(
    ("kubelet", "registered_with", "seconds", "watched", "due"),
    [
        pytest.param(None, None, 0.0, False, False, id="no kubelet"),
        pytest.param(KUBELET, None, 0.0, False, True, id="a first one"),
        pytest.param(KUBELET, KUBELET, 1.0, False, False, id="one that is about to connect"),
        pytest.param(KUBELET, KUBELET, 6.0, False, True, id="one that has lost the plugin"),
        pytest.param(KUBELET, KUBELET, 600.0, True, False, id="one that reads the list"),
        pytest.param(ANOTHER, KUBELET, 600.0, True, True, id="another one, before the end of the first was seen"),
    ],
)
def test_a_plugin_is_registered_when_its_kubelet_does_not_have_it(kubelet, registered_with, seconds, watched, due):
    assert registration_due(kubelet, registered_with, seconds, is_watched=watched) is due

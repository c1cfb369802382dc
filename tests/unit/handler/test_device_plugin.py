"""What a device plugin tells the kubelet."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kvedge.handler.device_plugin import DevicePlugin, SharedDevice


class OpenStream:
    """A kubelet that listens."""

    def is_active(self) -> bool:
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

"""What the API has and this converter does not: each a field, refused by name rather than left out in silence.

Called first by render_domain. Touches nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

from kvedge.launcher.domain.conversion_error import ConversionError
from kvedge.resources.types.vmi import VirtualMachineInstance


def check_supported(vmi: VirtualMachineInstance) -> None:
    """Raises:
    ConversionError: for the first field that is set and not supported.
    """
    for field, value in _list_unsupported(vmi):
        if value:
            raise ConversionError(field, "not supported by kvedge", "remove it")


def _list_unsupported(vmi: VirtualMachineInstance) -> Iterator[tuple[str, object]]:
    """Nobody tells a guest of the tags of devices."""
    devices = vmi.spec.domain.devices
    for index, gpu in enumerate(devices.gpus):
        at = f"spec.domain.devices.gpus[{index}]"
        yield f"{at}.tag", gpu.tag
    for index, device in enumerate(devices.host_devices):
        at = f"spec.domain.devices.hostDevices[{index}]"
        yield f"{at}.tag", device.tag

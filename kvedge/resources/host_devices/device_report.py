"""What a node says of its devices, in an annotation of the Node: written by its handler, read by `kvedge device list`.

Pure. The text is bounded, as each user of the Node gets it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from kvedge.resources.host_devices.passed_devices import DeviceKind

# 128 of these are 64 KiB at most; an object's annotations may have 256 KiB.
MOST_DEVICES: Final = 128
_LONGEST: Final = 80
_LONGEST_TROUBLE: Final = 200


class DeviceReport(msgspec.Struct, kw_only=True, omit_defaults=True, rename="camel", frozen=True):
    """One device: `device` is its address, UUID or port, `model` its numbers or its type, `resource` that by which VMs
    may have it, `used_by` the VM that has it, `trouble` why none can."""

    kind: DeviceKind
    device: str
    model: str = ""
    name: str = ""
    serial: str = ""
    driver: str = ""
    group: str = ""
    resource: str = ""
    used_by: str = ""
    trouble: str = ""


class _Report(msgspec.Struct, kw_only=True, omit_defaults=True):
    devices: list[DeviceReport] = []
    # How many are not shown.
    more: int = 0


_DECODER: Final = msgspec.json.Decoder(_Report)


def write_report(devices: Sequence[DeviceReport]) -> str:
    """The annotation: those that VMs may have first."""
    ordered = sorted(devices, key=lambda each: not each.resource)
    shown = [_shorten(each) for each in ordered[:MOST_DEVICES]]
    return msgspec.json.encode(_Report(devices=shown, more=len(ordered) - len(shown))).decode()


def read_report(text: str) -> tuple[list[DeviceReport], int]:
    """The devices, and how many more there are.

    Raises:
        ValueError: when it cannot be read.
    """
    found = _DECODER.decode(text)
    return found.devices, found.more


def _shorten(report: DeviceReport) -> DeviceReport:
    texts = {
        name: getattr(report, name)[:_LONGEST] for name in ("device", "model", "name", "serial", "driver", "group")
    }
    return msgspec.structs.replace(report, **texts, trouble=report.trouble[:_LONGEST_TROUBLE])

"""A line for each device of the nodes that may go to guests, or could: what `kvedge device list` shows.

Called by the verb. Pure. What a device says of itself is a stranger's text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec
from msgspec import Struct

from kvedge.client.harmless_text import harmless
from kvedge.resources.codec import JsonObject
from kvedge.resources.host_devices.device_report import DeviceReport, read_report
from kvedge.resources.names import HOST_DEVICES
from kvedge.resources.types.core import Node

HEADER: Final = ["NODE", "KIND", "DEVICE", "MODEL", "NAME", "SERIAL", "RESOURCE", "USED BY", "STATE"]
# What the state column says of a device: VMs may have it; one has it; nobody has permitted it; why it cannot be given.
_FREE, _USED, _NOT_PERMITTED = "free", "in use", "not permitted"


class DeviceRow(Struct, frozen=True):
    """One device of one node."""

    node: str
    report: DeviceReport

    @property
    def state(self) -> str:
        """Whether a VM may have it now."""
        report = self.report
        if report.trouble:
            return _plain(report.trouble)
        if report.used_by:
            return _USED
        if report.resource:
            return _FREE
        return f"{_NOT_PERMITTED}, driver {report.driver}" if report.driver else _NOT_PERMITTED

    def cells(self) -> list[str]:
        """The cells below :data:`HEADER`."""
        report = self.report
        told = [report.kind, report.device, report.model, report.name, report.serial, report.resource, report.used_by]
        return [self.node, *(_plain(text) or "-" for text in told), self.state]

    def document(self) -> JsonObject:
        """For scripts."""
        return {
            "node": self.node,
            **{name: value or None for name, value in msgspec.to_builtins(self.report).items()},
            "permitted": bool(self.report.resource),
        }


def _plain(text: str) -> str:
    """In one line."""
    return " ".join(harmless(text.encode()).split())


def device_rows(nodes: Iterable[Node], *, permitted_only: bool = False) -> tuple[list[DeviceRow], list[str]]:
    """The rows, by node and in the node's order, and what else is to be said."""
    rows: list[DeviceRow] = []
    notes: list[str] = []
    for node in sorted(nodes, key=lambda each: each.metadata.name):
        name, text = node.metadata.name, node.metadata.annotations.get(HOST_DEVICES, "")
        try:
            devices, more = read_report(text) if text else ([], 0)
        except ValueError:
            notes.append(f"node {name}: what it says of its devices cannot be read; see that its handler runs")
            continue
        if more:
            notes.append(f"node {name}: {more} more devices are not shown")
        rows += _rows_of(name, devices, permitted_only=permitted_only)
    return rows, notes


def _rows_of(node: str, devices: Iterable[DeviceReport], *, permitted_only: bool) -> Iterator[DeviceRow]:
    for device in devices:
        if device.resource or not permitted_only:
            yield DeviceRow(node, device)

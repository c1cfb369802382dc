"""What the pages of nodes, volumes, networks, tasks and alarms show, made of objects. Pure.

Called by `cluster_calls`. Every text goes through `showable`, every list has an end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Final

from kvedge.client.alarms import alarm_document
from kvedge.client.networks.network_rows import NetworkRow
from kvedge.client.tasks.task_rows import TaskRow
from kvedge.client.volumes.volume_rows import VolumeRow
from kvedge.resources.alarms.alarm_state import Alarm
from kvedge.resources.codec import JsonObject
from kvedge.resources.names import STORE_COPIED
from kvedge.resources.types.core import Node
from kvedge.resources.types.data_volumes import DataVolume
from kvedge.resources.types.migrations import VirtualMachineInstanceMigration
from kvedge.resources.types.protection.backup_tasks import BackupTask
from kvedge.resources.types.protection.clones import VirtualMachineClone
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.resources.values.quantities import Quantity, QuantityError, parse_bytes
from kvedge.web.texts.shown_text import showable

_MOST: Final = 1000
# What ends at a user's wish and leaves everything as it was.
_CANCELLED: Final = VirtualMachineInstanceMigration.KIND.kind
# About claims, two VMs, or many.
_NOT_OF_A_VM: Final = frozenset(cls.KIND.kind for cls in (DataVolume, VirtualMachineClone, BackupTask))
# Conditions of nodes that are good when they are true; all others are troubles then.
_GOOD: Final = frozenset(("Ready", STORE_COPIED))
_MOST_IN_ROW: Final = 32
_LONGEST: Final = 1024


def nodes_view(nodes: Iterable[Node], vmis: Iterable[VirtualMachineInstance]) -> JsonObject:
    """A row for each node, by name."""
    runs = Counter(vmi.status.node_name for vmi in vmis if not vmi.is_final)
    rows = sorted(nodes, key=lambda node: node.metadata.name)[:_MOST]
    return {"rows": [_node(node, runs[node.metadata.name]) for node in rows]}


def volumes_view(rows: Sequence[VolumeRow]) -> JsonObject:
    """A row for each claim, by namespace and name."""
    return _show(row.document() for row in rows)


def networks_view(rows: Sequence[NetworkRow]) -> JsonObject:
    """A row for each network besides the Pod network, by namespace and name."""
    return _show(row.document() for row in rows)


def tasks_view(rows: Sequence[TaskRow]) -> JsonObject:
    """A row for each piece of work, what is under way first; `cancel` and `ofVm` say what the page may make of it."""
    return _show(row.document() | _marks_of(row) for row in rows)


def alarms_view(alarms: Iterable[Alarm]) -> JsonObject:
    """A row for each alarm, the worst first, with what to do."""
    return _show(map(alarm_document, alarms))


def _show(documents: Iterable[JsonObject]) -> JsonObject:
    """As many of them as a page takes, and how many more there are."""
    rows = list(documents)
    return {"rows": [_make_showable(row) for row in rows[:_MOST]], "more": max(0, len(rows) - _MOST)}


def _marks_of(row: TaskRow) -> JsonObject:
    may_end = row.kind == _CANCELLED and row.is_active and not row.is_ending
    return {"cancel": may_end, "ofVm": row.kind not in _NOT_OF_A_VM}


def _node(node: Node, runs: int) -> JsonObject:
    status = node.status
    conditions: list[Any] = status.conditions
    ready: JsonObject = next((each for each in conditions if each.get("type") == "Ready"), {})
    state = "Ready" if ready.get("status") == "True" else "Not ready"
    if node.spec.unschedulable:
        state = f"{state}, takes no new guests"
    troubles = [
        f"{each.get('type')}: {each.get('message') or each.get('reason') or ''}"
        for each in conditions
        if (each.get("type") not in _GOOD) == (each.get("status") == "True")
    ]
    return {
        "name": showable(node.metadata.name),
        "state": state,
        "trouble": ready.get("status") != "True",
        "guests": runs,
        "cpus": showable(str(status.allocatable.get("cpu", ""))),
        "memory": _bytes_of(status.allocatable.get("memory")),
        "addresses": [showable(each.address) for each in status.addresses[:_MOST_IN_ROW]],
        "kernel": showable(str(status.node_info.get("kernelVersion") or "")),
        "version": showable(str(status.node_info.get("kubeletVersion") or "")),
        "troubles": [showable(text, _LONGEST) for text in troubles[:_MOST_IN_ROW]],
    }


def _bytes_of(amount: Quantity | None) -> int | None:
    """For the page to show in the user's units; None where nothing is told that could be."""
    try:
        return None if amount is None else parse_bytes(amount)
    except QuantityError:
        return None


def _make_showable(document: JsonObject) -> JsonObject:
    """The same with texts, and lists of them, that can be shown."""
    return {key: _cut(value) for key, value in document.items()}


def _cut(value: Any) -> Any:
    if isinstance(value, list):
        return [showable(str(each)) for each in value[:_MOST_IN_ROW]]
    return showable(value, _LONGEST) if isinstance(value, str) else value

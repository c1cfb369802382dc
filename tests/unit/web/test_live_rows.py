# Tests: kvedge/web/live_rows.py
"""The rows of the list: those that `kvedge list` has, of less than the whole objects."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

from kvedge.client.vm_rows import rows_of
from kvedge.resources.codec import JsonObject, decode, encode
from kvedge.resources.types.vm import VirtualMachine
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.web.live_rows import LiveRows, _SeenVm, _SeenVmi
from tests.support.builders import small_vmi, vm_of

_OWNER = {"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "name": "gone", "uid": "u", "controller": True}


def vmi(name: str, **more: Any) -> JsonObject:
    document = small_vmi()
    meta = {"name": name, "resourceVersion": "7", "creationTimestamp": "2026-01-02T03:04:05Z", **more}
    nics = [{"name": "no-address"}, {"name": "default", "ipAddress": "10.42.0.9"}]
    document["metadata"] |= meta
    document["status"] = {"phase": "Running", "nodeName": "n1", "interfaces": nics}
    return document


def vm(name: str, status: str) -> JsonObject:
    document = vm_of(small_vmi())
    document["metadata"] |= {"name": name, "resourceVersion": "5", "creationTimestamp": "2026-01-02T03:04:05Z"}
    document["status"] = {"printableStatus": status}
    return document


def test_rows_are_those_of_the_list_and_tell_nothing_that_changes_by_itself() -> None:
    vms = [vm("runs", "Running"), vm("broken", "ErrorUnschedulable\u202e")]
    vmis = [vmi("runs"), vmi("bare"), vmi("left", ownerReferences=[_OWNER])]
    session: Any = SimpleNamespace(client=None)
    live = LiveRows(session, None)
    live._vms = cast(Any, SimpleNamespace(list=lambda: [decode(_SeenVm, each) for each in vms]))
    live._vmis = cast(Any, SimpleNamespace(list=lambda: [decode(_SeenVmi, each) for each in vmis]))
    found = live.rows()
    full = rows_of(
        [decode(VirtualMachine, each) for each in vms],
        [decode(VirtualMachineInstance, each) for each in vmis],
        datetime.now(UTC),
    )
    assert set(found) == {(row.kind, row.namespace, row.name) for row in full}
    for row in full:
        told = found[row.kind, row.namespace, row.name]
        known = (told["node"], told["ip"], told["created"], told["trouble"])
        assert known == (row.node, row.ip, row.created, row.is_trouble)
    assert found["VirtualMachine", "default", "runs"]["version"] == "5/7"
    assert found["VirtualMachine", "default", "runs"]["ip"] == "10.42.0.9"
    # What hides its order is shown as what it is.
    assert "\u202e" not in found["VirtualMachine", "default", "broken"]["status"]
    assert "age" not in found["VirtualMachine", "default", "runs"]


def test_what_is_kept_of_an_object_is_small_however_large_its_annotations_are() -> None:
    large = {"annotations": {"note": "x" * 250_000}, "labels": {"l": "x" * 60}, "finalizers": ["f"]}
    for cls, document in ((_SeenVm, vm("runs", "Running")), (_SeenVmi, vmi("runs"))):
        document["metadata"] |= large
        assert len(str(encode(decode(cast(Any, cls), document)))) < 1000

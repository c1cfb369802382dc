"""What the page of a VM is told."""

from __future__ import annotations

from datetime import UTC, datetime

from kvedge.resources.codec import decode_json
from kvedge.resources.meta import Condition, ObjectReference
from kvedge.resources.types.core import Event
from kvedge.resources.types.vmi import InterfaceStatus, VirtualMachineInstance
from kvedge.web.vms.vm_view import view_of

_NOW = datetime(2026, 5, 1, tzinfo=UTC)


def vmi() -> VirtualMachineInstance:
    return decode_json(
        VirtualMachineInstance,
        b'{"metadata": {"name": "web", "namespace": "shop", "uid": "u1"}, "spec": {"domain": {"devices": {}}}}',
    )


def test_what_a_guest_says_is_cut_and_harmless() -> None:
    run = vmi()
    run.status.interfaces = [InterfaceStatus(name="\u202e" * 1000, ip_addresses=["10.0.0.1"] * 10_000)]
    run.status.conditions = [Condition(type="Ready", status="True", message="x" * 10_000)] * 1000
    view = view_of(None, run, [], _NOW)
    assert view["uid"] == "u1"
    assert len(view["conditions"]) == 64
    assert len(view["conditions"][0]["message"]) == 1024
    assert len(view["interfaces"][0]["name"]) == 256
    assert "\u202e" not in view["interfaces"][0]["name"]
    assert len(view["interfaces"][0]["addresses"]) == 64


def test_the_newest_events_come_first() -> None:
    events = [
        Event(
            reason=f"r{hour}",
            last_timestamp=f"2026-04-30T{hour:02}:00:00Z",
            involved_object=ObjectReference(kind="Pod"),
        )
        for hour in (3, 9, 1)
    ]
    view = view_of(None, vmi(), events, _NOW)
    assert [event["reason"] for event in view["events"]] == ["r9", "r3", "r1"]

"""What is done to a running domain's NICs."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kvedge.launcher.hotplug.nic_plan import NicAction, NicStep, NicWishes, plan_nics, read_nic_wishes
from kvedge.launcher.launcher_errors import BadRequest
from kvedge.launcher.libvirt.domain_facts import DomainNic

ATTACH, DETACH, LINK = NicAction.ATTACH, NicAction.DETACH, NicAction.LINK


def nic(name: str, *, is_down: bool = False) -> DomainNic:
    return DomainNic(name, "02:00:00:00:00:01", f"tap-{name}", is_down)


def wishes(*prepared: str, **states: str) -> NicWishes:
    return NicWishes(states, frozenset(prepared))


@pytest.mark.parametrize(
    ("wanted", "present", "steps"),
    [
        (wishes("a", "b", a="up", b="up"), [nic("a")], [NicStep(ATTACH, "b")]),
        (wishes("a", a="up", b="up"), [nic("a")], []),
        (wishes("a", a="up", b="absent"), [nic("a"), nic("b")], [NicStep(DETACH, "b")]),
        (wishes("a", a="up", b="absent"), [nic("a")], []),
        (wishes("a", a="up"), [nic("a"), nic("b")], []),
        (wishes(a="up"), [nic("a")], []),
        (wishes("a", a="down"), [nic("a")], [NicStep(LINK, "a", down=True)]),
        (wishes("a", a="up"), [nic("a", is_down=True)], [NicStep(LINK, "a")]),
        (wishes("a", a="down"), [nic("a", is_down=True)], []),
        (wishes("a", a="up", b="absent"), [nic("b")], [NicStep(DETACH, "b"), NicStep(ATTACH, "a")]),
    ],
    ids=[
        "one that comes",
        "one whose tap is not there yet",
        "one that is to be absent",
        "one that has gone",
        "one that the VMI does not name",
        "one that could not be prepared this time",
        "link down",
        "link up",
        "link as wanted",
        "what goes makes room first",
    ],
)
def test_the_steps_lead_to_what_is_wanted(wanted: NicWishes, present: list[DomainNic], steps: list[NicStep]) -> None:
    assert plan_nics(wanted, present) == steps


def test_wishes_are_read_from_the_document() -> None:
    interfaces = [{"name": "a"}, {"name": "b", "state": "down"}, {"name": "c", "state": "absent"}]
    document = json.dumps({"spec": {"domain": {"devices": {"interfaces": interfaces}}}}).encode()
    assert read_nic_wishes(document, ["a"]) == NicWishes({"a": "up", "b": "down", "c": "absent"}, frozenset({"a"}))
    assert read_nic_wishes(b"", ()) == NicWishes({}, frozenset())


@pytest.mark.parametrize("document", [b"{", b"[]", b'{"spec": {"domain": {"devices": {"interfaces": [{}]}}}}'])
def test_what_is_no_vmi_is_refused(document: Any) -> None:
    with pytest.raises(BadRequest):
        read_nic_wishes(document, ())


def test_a_function_needs_no_preparation_and_has_no_link() -> None:
    document = json.dumps({"spec": {"domain": {"devices": {"interfaces": [{"name": "fast", "sriov": {}}]}}}}).encode()
    wanted = read_nic_wishes(document, [])
    assert plan_nics(wanted, []) == [NicStep(ATTACH, "fast")]
    assert plan_nics(wanted, [DomainNic("fast", "", "", queues=0, is_function=True)]) == []
    other = wanted._replace(states={"fast": "down"})
    assert plan_nics(other, [DomainNic("fast", "", "", queues=0, is_function=True)]) == []

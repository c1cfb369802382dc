# Tests: kvedge/network/binding/bridge_unbinding.py
"""Giving a Pod's NIC back, against a model of a namespace: complete, resumable anywhere, and only what is ours."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvedge.network.binding.binding_state import Record, is_touched, names_for
from kvedge.network.binding.bridge_binding_plan import make_record, plan_binding
from kvedge.network.binding.bridge_unbinding_plan import plan_unbinding
from kvedge.network.steps import SetLink
from tests.unit.network.namespace_model import NamespaceModel

NIC = "pod0123456789a"
NAMES = names_for(NIC, 1)
OWN = names_for("eth0", 0)
MAC, GUEST_MAC = "52:54:00:aa:bb:cc", "02:00:00:00:00:99"


def bound(kind: str = "veth", stop_after: int | None = None) -> tuple[NamespaceModel, Record]:
    """A Pod's second NIC, bound to a guest, beside its first, which is bound as well."""
    model = NamespaceModel()
    model.add_link("lo", "")
    for name, names, of in (("eth0", OWN, "veth"), (NIC, NAMES, kind)):
        model.add_link(name, of, mac=MAC, mtu=1450)
        model.apply(SetLink(name, up=True))
        record = make_record("boot/4:1", model.seen(names), names)
        for step in plan_binding(record, model.seen(names), names, GUEST_MAC, (107, 107), 1)[
            : stop_after if name == NIC else None
        ]:
            model.apply(step)
    return model, record


def unbind(model: NamespaceModel, record: Record, stop_after: int | None = None) -> None:
    """As `bridge_unbinding` does it: a record counts only where a binding was begun."""
    seen = model.seen(NAMES)
    known = record if is_touched(seen, NAMES) else None
    for step in plan_unbinding(known, seen, NAMES)[:stop_after]:
        model.apply(step)


def names_in(model: NamespaceModel) -> set[str]:
    return {link.name for link in model.links.values()}


@settings(max_examples=100)
@given(
    st.one_of(st.none(), st.integers(0, 30)),
    st.lists(st.integers(0, 8), max_size=4),
    st.sampled_from(["veth", "macvlan", "dummy"]),
)
def test_after_any_interrupted_history_the_nic_is_as_it_came(begun: int | None, history: list[int], kind: str) -> None:
    model, record = bound(kind, begun)
    others = {name for name in names_in(model) if name.startswith(("lo", "k6t-eth0", "eth0", "tap0"))} - {
        "tap0123456789a"
    }
    for stop_after in history:
        unbind(model, record, stop_after)
    unbind(model, record)
    assert names_in(model) == {NIC} | others
    nic = model.link(NIC)
    assert (nic.index, nic.kind, nic.mac, nic.master) == (record.index, kind, MAC, 0)
    assert {name for _, name in model.tables} == {OWN.guard}
    assert plan_unbinding(None, model.seen(NAMES), NAMES) == []


def test_a_nic_that_has_gone_with_its_other_end_leaves_nothing_behind() -> None:
    model, record = bound()
    del model.links[record.index]
    unbind(model, record)
    assert names_in(model) == {"lo", "eth0", "eth0-nic", "k6t-eth0", "tap0"}
    assert {name for _, name in model.tables} == {OWN.guard}


def test_without_a_record_the_nic_is_found_by_its_name() -> None:
    model, record = bound()
    for step in plan_unbinding(None, model.seen(NAMES), NAMES):
        model.apply(step)
    assert (model.link(NIC).index, model.link(NIC).mac) == (record.index, MAC)


@pytest.mark.parametrize("kind", ["veth", "dummy"])
def test_a_nic_that_nobody_bound_is_left_alone(kind: str) -> None:
    model = NamespaceModel()
    model.add_link(NIC, kind, mac=MAC, mtu=1450)
    assert plan_unbinding(None, model.seen(NAMES), NAMES) == []

# Tests: kvedge/controller/replicas/replica_loop.py, kvedge/controller/replicas/replica_writes.py
"""In whatever order watches come, answers get lost and VMIs end: the wanted number is reached, and never exceeded."""

from __future__ import annotations

import random
from typing import Any

import pytest

from kvedge.controller.replicas import replica_writes
from kvedge.kube.errors import Forbidden, Unavailable
from kvedge.kube.reconcile_loop import Again
from kvedge.resources.codec import decode
from kvedge.resources.meta import LabelSelector
from kvedge.resources.names import NODE_NAME
from tests.unit.controller.replicas.late_server import KEY, MOMENT, LateServer
from tests.unit.controller.replicas.test_replica_plan import UNPLACED, a_vmi


@pytest.fixture(autouse=True)
def one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same seed is the same story."""
    monkeypatch.setattr(replica_writes, "_PARALLEL", 1)


def happen(server: LateServer, fate: random.Random) -> None:
    """Something happens beside the loop; nothing of it makes VMIs more."""
    vmis = list(server.live.values())
    match fate.randrange(9):
        case 0 | 1 | 2:
            server.vmis.deliver(fate.randrange(1, 4))
        case 3:
            server.sets.deliver(1)
        case 4:
            server.scale(fate.randrange(6))
        case 5 if vmis:
            vmi = fate.choice(vmis)
            # A run that has ended does not begin again.
            server.change(vmi, phase=vmi.status.phase if vmi.is_final else fate.choice(["Running", "Failed"]))
        case 6 if vmis:
            server.change(fate.choice(vmis), deletion_timestamp=MOMENT)
        case 7 if vmis:
            server.change(fate.choice(vmis), labels={})
        case 8:
            server.end_deleted()


@pytest.mark.parametrize("seed", range(40))
def test_the_wanted_number_is_reached_and_never_exceeded(seed: int) -> None:
    """The model itself fails when a VMI is made where there are as many as the set, as it was seen, wants."""
    fate = random.Random(seed)
    server = LateServer(fate.randrange(6), fate)
    for _ in range(60):
        happen(server, fate)
        if fate.random() < 0.6:
            server.turn()
        if fate.random() < 0.03:
            server.restart()
    server.settle()
    active = server.active()
    assert len(active) == server.replica_set.replicas
    assert len([vmi for vmi in server.live.values() if vmi.metadata.controller_reference()]) == len(active)
    status = server.replica_set.status
    assert (status.replicas, status.conditions, status.label_selector) == (len(active), [], "app=web")


@pytest.mark.parametrize("seed", range(25))
def test_no_vmi_too_many_is_ended_when_answers_get_lost(seed: int) -> None:
    server = LateServer(6)
    server.settle()
    for vmi in list(server.live.values())[:3]:
        server.change(vmi, phase="Running")
    fate = random.Random(seed)
    server._moods = fate
    server.scale(2)
    for _ in range(40):
        server.turn()
        server.sets.deliver(1)
        server.vmis.deliver(fate.randrange(2))
    server.settle()
    assert (len(server.active()), server.deleted_active, server.created) == (2, 4, 6)


def test_vmis_are_made_beside_each_other_and_fewer_where_the_server_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replica_writes, "_PARALLEL", 8)
    server = LateServer(20)
    tries = []
    create = server.create

    def refused(vmi: Any) -> Any:
        tries.append(vmi.metadata.name)
        if len(tries) > 3:
            raise Forbidden(403, "Forbidden", "exceeded quota")
        return create(vmi)

    monkeypatch.setattr(server, "create", refused)
    assert isinstance(server.loop.reconcile(KEY), Again)
    # One, two beside each other, four beside each other.
    assert (len(tries), len(server.live)) == (7, 3)
    (condition,) = server.replica_set.status.conditions
    assert (condition.type, condition.reason, condition.message) == ("ReplicaFailure", "FailedCreate", "exceeded quota")


def test_a_refused_vmi_is_not_tried_again_at_once_and_the_condition_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    server = LateServer(2)
    tries = []

    def refused(vmi: Any) -> Any:
        tries.append(vmi.metadata.name)
        raise Forbidden(403, "Forbidden", "exceeded quota")

    monkeypatch.setattr(server, "create", refused)
    server.loop.reconcile(KEY)
    again = server.loop.reconcile(KEY)
    assert again is not None
    assert again.after > 0
    assert len(tries) == 1
    assert [condition.type for condition in server.replica_set.status.conditions] == ["ReplicaFailure"]
    server.clock.seconds += again.after
    server.loop.reconcile(KEY)
    assert len(tries) == 2
    # A change of what is wanted is tried at once.
    server.replica_set.metadata.generation += 1
    server.scale(3)
    server.sets.deliver()
    server.loop.reconcile(KEY)
    assert len(tries) == 3


def test_a_busy_server_is_no_failure_of_the_set(monkeypatch: pytest.MonkeyPatch) -> None:
    server = LateServer(2)

    def busy(vmi: Any) -> Any:
        raise Unavailable(503, "", "later")

    monkeypatch.setattr(server, "create", busy)
    assert isinstance(server.turn(), Unavailable)
    assert server.replica_set.status.conditions == []
    assert not [call for call in server.events.record.call_args_list if call.args[1] == "Warning"]


def test_no_orphan_is_adopted_for_a_set_that_the_server_does_not_have_any_more() -> None:
    server = LateServer(1)
    server.settle()
    (vmi,) = server.live.values()
    vmi.metadata.owner_references = []
    server.change(vmi)
    server.vmis.deliver()
    # The cache has the set of before.
    server.replica_set.metadata.uid = "another"
    assert server.loop.reconcile(KEY) is not None
    assert vmi.metadata.owner_references == []


def test_changes_of_a_vmi_that_its_set_does_not_count_do_not_wake_it() -> None:
    server = LateServer(1)
    server.settle()
    (vmi,) = server.live.values()
    queue = server.loop.loop.queue
    for status, woken in (({"phase": "Running"}, 0), ({"phase": "Failed"}, 1)):
        old = server.vmis.get("default", vmi.metadata.name)
        server.change(vmi, **status)
        server.vmis.deliver()
        server.loop._on_vmi(old, server.vmis.get("default", vmi.metadata.name))
        assert len(queue) == woken
    assert queue.take(0) == KEY


def test_an_orphan_wakes_the_sets_that_would_adopt_it() -> None:
    server = LateServer(0)
    server.settle()
    server.loop._on_vmi(None, a_vmi("other", labels={"app": "x"}))
    assert len(server.loop.loop.queue) == 0
    server.loop._on_vmi(None, a_vmi("mine"))
    assert len(server.loop.loop.queue) == 1


def test_a_set_that_selects_by_a_label_of_the_controller_makes_nothing_and_says_why() -> None:
    server = LateServer(2)
    server.settle()
    known = server.replica_set.status.label_selector
    server.replica_set.spec.selector = decode(LabelSelector, UNPLACED)
    for vmi in list(server.live.values()):
        server.change(vmi, labels={**vmi.metadata.labels, NODE_NAME: "node-1"})
    server.scale(5)
    server.settle()
    assert (server.created, len(server.active())) == (2, 2)
    status = server.replica_set.status
    (condition,) = status.conditions
    assert (condition.type, condition.reason) == ("ReplicaFailure", "SelectorNotUsable")
    assert "writes the label kubevirt.io/nodeName" in condition.message
    assert (status.replicas, status.label_selector) == (2, known)
    # A selector that is mended is used again.
    server.replica_set.spec.selector = LabelSelector(match_labels={"app": "web"})
    server.scale(3)
    server.settle()
    assert (len(server.active()), server.replica_set.status.conditions) == (3, [])

"""What a pass over a VMI counts; what it tells stands with the tests of the sync loop."""

from __future__ import annotations

from typing import Any, cast

import pytest

from kvedge.handler.guest import pass_events
from kvedge.handler.guest.pass_events import PassEvents
from kvedge.handler.guest.pass_memory import PassMemory
from kvedge.handler.launchers.sync_plan import LauncherView
from kvedge.kube.figures.vmi_figures import VmiFigures
from kvedge.rpc import launcher_pb2 as pb


def test_a_panic_is_counted_once_in_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    figures = VmiFigures()
    monkeypatch.setattr(pass_events, "VMI_FIGURES", figures)
    told, memory = PassEvents(cast(Any, None), cast(Any, None)), PassMemory("u", 0.0)
    ended = [
        None,
        pb.DomainStatus(state=pb.DOMAIN_STATE_CRASHED, reason=pb.DOMAIN_REASON_CRASHED),
        pb.DomainStatus(state=pb.DOMAIN_STATE_CRASHED, reason=pb.DOMAIN_REASON_PANICKED),
        pb.DomainStatus(state=pb.DOMAIN_STATE_CRASHED, reason=pb.DOMAIN_REASON_PANICKED),
    ]
    counts = []
    for status in ended:
        told.note_panic(("shop", "web"), LauncherView(connected=True, synced=True, status=status), memory)
        counts.append(sum(each.count for each in figures.tell_panics()))
    assert counts == [0, 0, 1, 1]
    told.note_panic(("shop", "web"), LauncherView(connected=True, synced=True, status=ended[-1]), PassMemory("v", 0))
    assert [each.count for each in figures.tell_panics()] == [2], "the next run of the VM"

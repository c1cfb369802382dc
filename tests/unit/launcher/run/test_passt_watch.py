# Tests: kvedge/launcher/run/passt_watch.py
"""A passt that has ended is told of, and one whose QEMU ends with it is not."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from kvedge.launcher.libvirt.domain_facts import DomainFacts
from kvedge.launcher.run import passt_watch
from kvedge.launcher.run.passt_watch import PasstWatch
from kvedge.rpc.launcher_pb2 import GuestInterface, Passt, SyncRequest

RUNS = cast(DomainFacts, SimpleNamespace(is_active=True))
ENDED = cast(DomainFacts, SimpleNamespace(is_active=False))


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What the kernel says; the last word stays."""
    words: list[Any] = [True]
    monkeypatch.setattr(passt_watch, "is_connected", lambda: words[-1])
    return words


@pytest.fixture
def watch() -> PasstWatch:
    made = PasstWatch()
    interfaces = [GuestInterface(name="lan"), GuestInterface(name="default", passt=Passt(nic="eth0"))]
    made.follow(SyncRequest(interfaces=interfaces), RUNS)
    return made


def test_a_passt_that_has_ended_is_told_once_that_is_sure(watch: PasstWatch, answers: list[Any]) -> None:
    assert watch.look(RUNS, 100.0) == ""
    answers.append(False)
    assert (watch.look(RUNS, 110.0), watch.is_unsettled) == ("", True)
    assert watch.look(RUNS, 112.0) == ""
    assert (watch.look(RUNS, 113.5), watch.is_unsettled) == ("default", False)
    answers.append(True)
    assert watch.look(RUNS, 120.0) == "default", "nothing connects again"


@pytest.mark.parametrize("facts", [None, ENDED], ids=["no domain", "it has ended"])
def test_a_guest_that_ends_has_not_lost_its_network(
    facts: DomainFacts | None, watch: PasstWatch, answers: list[Any]
) -> None:
    answers.append(False)
    assert watch.look(RUNS, 100.0) == ""
    assert watch.look(facts, 104.0) == ""
    assert not watch.is_unsettled


@pytest.mark.parametrize("word", [True, None], ids=["connected", "the kernel does not tell"])
def test_nothing_is_told_of_one_that_may_serve(word: bool | None, watch: PasstWatch, answers: list[Any]) -> None:
    answers.append(False)
    watch.look(RUNS, 100.0)
    answers.append(word)
    assert watch.look(RUNS, 110.0) == ""
    answers.append(False)
    assert watch.look(RUNS, 120.0) == ""


def test_a_guest_without_passt_is_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passt_watch, "is_connected", lambda: pytest.fail("nobody needs to know"))
    watch = PasstWatch()
    assert watch.look(RUNS, 1.0) == ""
    watch.follow(SyncRequest(interfaces=[GuestInterface(name="lan")]), RUNS)
    assert watch.look(RUNS, 2.0) == ""

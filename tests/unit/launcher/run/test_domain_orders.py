# Tests: kvedge/launcher/run/memory_dumps.py
"""Orders that come at one time: what one has looked at before it begins, no other one changes meanwhile."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

from kvedge.launcher.launcher_errors import WrongState
from kvedge.launcher.launcher_options import LauncherOptions
from kvedge.launcher.libvirt.domain_facts import DomainFacts, Life, Why
from kvedge.launcher.run.domain_run import DomainRun
from kvedge.launcher.run.run_record import RunRecord
from kvedge.resources.disks.hotplug_places import dump_path
from kvedge.rpc import launcher_pb2 as m

if TYPE_CHECKING:
    from kvedge.launcher.libvirt.libvirt_session import LibvirtSession

LONG = 10.0


class SlowDomain:
    """A guest that runs; it stops and is dumped when the test lets it."""

    def __init__(self) -> None:
        self.life, self.why = Life.RUNNING, Why.BOOTED
        self.stopping, self.stops = threading.Event(), threading.Event()
        self.dumping, self.dumped = threading.Event(), threading.Event()

    def facts(self) -> DomainFacts:
        return DomainFacts(uuid="u", life=self.life, why=self.why, pid=1)

    def pause(self) -> None:
        self.stopping.set()
        assert self.stops.wait(LONG)
        self.life, self.why = Life.PAUSED, Why.USER

    def unpause(self) -> None:
        self.life, self.why = Life.RUNNING, Why.UNPAUSED

    def dump_memory(self, path: str) -> None:
        """As libvirt does it: the guest stands still, and goes on when it ran before."""
        before = (self.life, self.why)
        self.life, self.why = Life.PAUSED, Why.DUMP
        self.dumping.set()
        assert self.dumped.wait(LONG)
        self.life, self.why = before


@pytest.fixture
def domain() -> SlowDomain:
    return SlowDomain()


@pytest.fixture
def run(tmp_path: Path, domain: SlowDomain) -> DomainRun:
    target = Path(f"{tmp_path}{dump_path('vault')}")
    target.parent.mkdir(parents=True)
    target.touch()
    (tmp_path / "var/run/kubevirt").mkdir(parents=True, exist_ok=True)
    record = RunRecord(LauncherOptions(namespace="n", name="v", uid="u", root=str(tmp_path)))
    record.begin()
    session = cast("LibvirtSession", domain)
    return DomainRun(session, record, None, lambda: None, lambda: False, root=str(tmp_path))


def end_dump(run: DomainRun, domain: SlowDomain) -> None:
    domain.dumped.set()
    deadline = time.monotonic() + LONG
    while run.view.look().memory_dump.state == m.MEMORY_DUMP_STATE_ACTIVE and time.monotonic() < deadline:
        threading.Event().wait(0.01)
    run._look()


def test_a_dump_that_comes_while_a_guest_is_paused_leaves_it_paused(run: DomainRun, domain: SlowDomain) -> None:
    with ThreadPoolExecutor(2) as pool:
        pause = pool.submit(run.orders.pause)
        assert domain.stopping.wait(LONG)
        dump = pool.submit(run.orders.dump_memory, m.DumpMemoryRequest(id="d-1", volume="vault"))
        # The dump waits for the pause: it would find a guest that runs, and let it go on afterwards.
        assert not domain.dumping.wait(0.2)
        domain.stops.set()
        pause.result(LONG)
        dump.result(LONG)
    assert domain.dumping.wait(LONG)
    end_dump(run, domain)
    assert (domain.life, domain.why) == (Life.PAUSED, Why.USER)
    assert run.view.look().memory_dump.state == m.MEMORY_DUMP_STATE_COMPLETE


def test_a_guest_is_not_paused_while_its_memory_is_written(run: DomainRun, domain: SlowDomain) -> None:
    run.orders.dump_memory(m.DumpMemoryRequest(id="d-1", volume="vault"))
    assert domain.dumping.wait(LONG)
    with pytest.raises(WrongState, match="memory is being written"):
        run.orders.pause()
    end_dump(run, domain)
    assert domain.why is Why.BOOTED
    domain.stops.set()
    run.orders.pause()
    assert domain.facts().life is Life.PAUSED


def test_a_dump_that_was_begun_is_not_begun_again(run: DomainRun, domain: SlowDomain) -> None:
    request = m.DumpMemoryRequest(id="d-1", volume="vault")
    run.orders.dump_memory(request)
    end_dump(run, domain)
    domain.dumping.clear()
    run.orders.dump_memory(request)
    assert not domain.dumping.is_set()
    domain.life = Life.SHUTOFF
    with pytest.raises(WrongState, match="no guest whose memory"):
        run.orders.dump_memory(m.DumpMemoryRequest(id="d-2", volume="vault"))


class OffAtOnce(SlowDomain):
    """A guest whose agent obeys at once: libvirt's answer to the agent's order is that the domain is off."""

    def __init__(self, life: Life) -> None:
        super().__init__()
        self.after = life

    def shut_down(self, *, agent: bool) -> None:
        self.life, self.why = self.after, Why.SHUTDOWN
        raise WrongState("shutting down: domain is not running")


@pytest.mark.parametrize(
    ("domain", "state"),
    [
        pytest.param(OffAtOnce(Life.SHUTOFF), m.DOMAIN_STATE_SHUTOFF, id="off"),
        pytest.param(
            OffAtOnce(Life.SHUTTING_DOWN), m.DOMAIN_STATE_SHUTTING_DOWN, id="a moment before libvirt shows it"
        ),
    ],
)
def test_a_guest_that_was_off_before_its_agent_answered_has_shut_down(
    run: DomainRun, domain: OffAtOnce, state: int
) -> None:
    assert run.orders.shut_down().state == state


@pytest.mark.parametrize("domain", [OffAtOnce(Life.RUNNING)])
def test_a_guest_that_refuses_its_power_button_has_not(run: DomainRun, domain: OffAtOnce) -> None:
    with pytest.raises(WrongState, match="not running"):
        run.orders.shut_down()


def test_a_guest_that_is_being_started_is_let_run_by_its_start_alone(run: DomainRun, domain: SlowDomain) -> None:
    domain.life, domain.why = Life.PAUSED, Why.USER
    run.state.remember(starting=True)
    for order in (run.orders.unpause, run.orders.shut_down):
        with pytest.raises(WrongState, match="is being started"):
            order()
    assert domain.facts().life is Life.PAUSED
    run.state.remember(starting=False)
    run.orders.unpause()
    assert domain.facts().life is Life.RUNNING


def test_a_guest_whose_memory_is_about_to_be_saved_is_neither_let_go_nor_reset(
    run: DomainRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(run.copies), "keeps_state", property(lambda _: True))
    for order in (run.orders.pause, run.orders.unpause, run.orders.reset, run.orders.soft_reboot):
        with pytest.raises(WrongState, match="memory is being saved"):
            order()

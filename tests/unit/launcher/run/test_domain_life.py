"""A domain is made once: by the first Sync, of which a failure and a kill stay known."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

from kvedge.launcher.disks.prepared import Prepared
from kvedge.launcher.launcher_errors import BadRequest, LibvirtFailed, Postponed, Unanswered, WrongState
from kvedge.launcher.launcher_options import LauncherOptions
from kvedge.launcher.libvirt.domain_facts import DomainFacts, Life, Why
from kvedge.launcher.run import domain_life
from kvedge.launcher.run.domain_run import DomainRun
from kvedge.launcher.run.run_record import RunRecord
from kvedge.resources.values.hook_names import HOOK_SIDECARS
from kvedge.rpc import launcher_pb2 as m
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from kvedge.launcher.libvirt.libvirt_session import LibvirtSession


class PlayedDomain:
    """libvirt with one domain, which notes what is done to it."""

    libvirt_version = 9_000_000

    def __init__(self) -> None:
        self.done: list[str] = []
        self.life, self.why = Life.SHUTOFF, Why.OTHER
        self.refusal: LibvirtFailed | None = None

    def facts(self) -> DomainFacts | None:
        return DomainFacts(uuid="u-1", life=self.life, why=self.why) if self.done else None

    def define(self, xml: str) -> None:
        self.done.append(f"define {xml}")

    def start(self, *, paused: bool) -> None:
        self.done.append(f"start, {paused=}")
        if self.refusal is not None:
            raise self.refusal
        self.life, self.why = Life.RUNNING, Why.BOOTED

    def undefine(self) -> None:
        self.done.append("undefine")

    def unpause(self) -> None:
        self.done.append("unpause")
        self.why = Why.UNPAUSED

    def destroy(self, *, graceful: bool) -> None:
        self.done.append(f"destroy, {graceful=}")
        self.life, self.why = Life.SHUTOFF, Why.DESTROYED


class PlayedPreparation:
    """Files that are ready at once; `meanwhile` is called before they are."""

    def __init__(self, meanwhile: Any = None) -> None:
        self.meanwhile = meanwhile
        self.hooks: tuple[str, ...] = ()

    def prepare(self, request: m.SyncRequest, libvirt_version: int) -> Prepared:
        if self.meanwhile is not None:
            self.meanwhile()
        return Prepared("<domain/>", paused=False, hooks=self.hooks)


@pytest.fixture
def domain() -> PlayedDomain:
    return PlayedDomain()


@pytest.fixture
def record(tmp_path: Path) -> RunRecord:
    (tmp_path / "var/run/kubevirt").mkdir(parents=True)
    return RunRecord(LauncherOptions(namespace="n", name="v", uid="u", root=str(tmp_path)))


def run_of(domain: PlayedDomain, record: RunRecord, preparation: PlayedPreparation | None) -> DomainRun:
    return DomainRun(cast("LibvirtSession", domain), record, preparation, lambda: None, lambda: False)


def test_a_sync_makes_the_domain_and_the_next_one_leaves_it_alone(domain: PlayedDomain, record: RunRecord) -> None:
    run = run_of(domain, record, PlayedPreparation())
    assert run.life.sync(m.SyncRequest()).state == m.DOMAIN_STATE_RUNNING
    run.life.sync(m.SyncRequest())
    assert domain.done == ["define <domain/>", "start, paused=False"]
    assert record.begun_unix_ms > 0
    reached = ["handed-over", "files-ready", "domain-defined", "dhcp-ready", "start-asked", "started"]
    assert list(record.milestones.times()) == [*reached, "status-published"]


def test_a_domain_that_does_not_start_has_ended_with_the_reason(domain: PlayedDomain, record: RunRecord) -> None:
    domain.refusal = LibvirtFailed("starting", 1, 10, "no tap")
    run = run_of(domain, record, PlayedPreparation())
    status = run.life.sync(m.SyncRequest())
    assert (status.state, status.reason) == (m.DOMAIN_STATE_SHUTOFF, m.DOMAIN_REASON_FAILED)
    assert "no tap" in status.message
    assert run.state.ended.is_set()


@pytest.mark.parametrize(
    ("annotations", "field"),
    [
        ({HOOK_SIDECARS: "[{}]"}, "metadata.annotations[hooks.kubevirt.io/hookSidecars]"),
        ({}, "spec.domain.devices.interfaces"),
    ],
    ids=["the annotation", "a binding plugin"],
)
def test_what_libvirt_refuses_of_a_hooks_making_names_the_sidecar(
    domain: PlayedDomain,
    record: RunRecord,
    monkeypatch: pytest.MonkeyPatch,
    annotations: dict[str, str],
    field: str,
) -> None:
    def refuse(xml: str) -> None:
        raise BadRequest("the domain", "unknown machine")

    monkeypatch.setattr(domain, "define", refuse)
    preparation = PlayedPreparation()
    preparation.hooks = ("hook-sidecar-1",)
    request = m.SyncRequest(vmi_json=json.dumps({"metadata": {"annotations": annotations}}).encode())
    with pytest.raises(
        BadRequest, match=r"hook sidecar hook-sidecar-1 changed the domain .*: .*unknown machine"
    ) as caught:
        run_of(domain, record, preparation).life.sync(request)
    assert caught.value.field == field


class PlayedLink:
    """Of a passt, which serves unless it has a reason not to; what is done is noted beside what the domain does."""

    def __init__(self, done: list[str], why: str = "") -> None:
        self.done, self.why = done, why

    def connect(self) -> None:
        self.done.append("connect")
        if self.why:
            raise Unanswered(self.why)

    def close(self) -> None:
        self.done.append("close")


def test_a_guest_runs_only_once_passt_serves_it(
    domain: PlayedDomain, record: RunRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(domain_life, "open_link", lambda interfaces: PlayedLink(domain.done))
    assert run_of(domain, record, PlayedPreparation()).life.sync(m.SyncRequest()).state == m.DOMAIN_STATE_RUNNING
    assert domain.done[1:] == ["start, paused=True", "connect", "unpause", "close"]


@pytest.mark.parametrize("life", [Life.PAUSED, Life.RUNNING], ids=["not served", "served"])
def test_a_guest_whose_launcher_was_killed_before_passt_served_it_is_ended_with_the_reason(
    domain: PlayedDomain, record: RunRecord, life: Life
) -> None:
    record.begin()
    record.owe_link()
    domain.done.append("start, paused=True")
    domain.life, domain.why = life, Why.USER if life is Life.PAUSED else Why.UNPAUSED
    run = run_of(domain, record, None)
    run.life.end_unserved()
    status = run.view.look()
    if life is Life.RUNNING:
        assert (domain.done[1:], status.state) == ([], m.DOMAIN_STATE_RUNNING)
    else:
        assert domain.done[1:] == ["destroy, graceful=False"]
        assert (status.state, status.reason) == (m.DOMAIN_STATE_SHUTOFF, m.DOMAIN_REASON_FAILED)
        assert "killed before passt served" in status.message
    assert not record.owes_link


def test_a_guest_that_passt_serves_is_owed_nothing(
    domain: PlayedDomain, record: RunRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(domain_life, "open_link", lambda interfaces: PlayedLink(domain.done))
    run_of(domain, record, PlayedPreparation()).life.sync(m.SyncRequest())
    assert not record.owes_link


def test_a_link_that_cannot_be_opened_is_tried_again(
    domain: PlayedDomain, record: RunRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(interfaces: Any) -> None:
        raise Unanswered("port 1 is taken")

    run = run_of(domain, record, PlayedPreparation())
    monkeypatch.setattr(domain_life, "open_link", refuse)
    with pytest.raises(Unanswered):
        run.life.sync(m.SyncRequest())
    assert (domain.done, record.begun_unix_ms) == ([], 0)
    monkeypatch.setattr(domain_life, "open_link", lambda interfaces: None)
    assert run.life.sync(m.SyncRequest()).state == m.DOMAIN_STATE_RUNNING


def test_a_guest_that_is_being_prepared_when_its_launcher_goes_is_not_started(
    domain: PlayedDomain, record: RunRecord
) -> None:
    ending: list[threading.Thread] = []

    def go() -> None:
        ending.append(threading.Thread(target=run.life.clean_up))
        ending[0].start()
        wait_until(lambda: run.state.memory.kill_requested, "the launcher goes")

    run = run_of(domain, record, PlayedPreparation(go))
    run.life.sync(m.SyncRequest())
    ending[0].join(10)
    assert domain.done == ["define <domain/>", "undefine"]


def test_a_guest_whose_passt_does_not_serve_never_runs_and_says_why(
    domain: PlayedDomain, record: RunRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = PlayedLink(domain.done, "passt did not start: no routable interface")
    monkeypatch.setattr(domain_life, "open_link", lambda interfaces: link)
    status = run_of(domain, record, PlayedPreparation()).life.sync(m.SyncRequest())
    assert domain.done[1:] == ["start, paused=True", "connect", "destroy, graceful=False", "close"]
    assert (status.state, status.reason) == (m.DOMAIN_STATE_SHUTOFF, m.DOMAIN_REASON_FAILED)
    assert "no routable interface" in status.message


def test_a_kill_while_the_files_are_made_keeps_the_domain_from_starting(
    domain: PlayedDomain, record: RunRecord
) -> None:
    preparation = PlayedPreparation()
    run = run_of(domain, record, preparation)
    preparation.meanwhile = run.orders.kill
    run.life.sync(m.SyncRequest())
    assert not [step for step in domain.done if step.startswith("start")]
    assert record.begun_unix_ms == 0


def test_a_launcher_that_comes_after_another_one_starts_nothing(domain: PlayedDomain, record: RunRecord) -> None:
    with pytest.raises(WrongState, match="started in this Pod before"):
        run_of(domain, record, None).life.sync(m.SyncRequest())
    assert domain.done == []


def test_a_guest_that_runs_is_not_deleted(domain: PlayedDomain, record: RunRecord) -> None:
    run = run_of(domain, record, PlayedPreparation())
    run.life.sync(m.SyncRequest())
    with pytest.raises(WrongState, match="still runs"):
        run.life.delete()
    assert not run.state.acknowledged.is_set()
    run.orders.kill()
    run.life.delete()
    assert run.state.acknowledged.is_set()


def test_a_sync_while_the_guest_moves_is_not_taken_for_done(
    domain: PlayedDomain, record: RunRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = run_of(domain, record, PlayedPreparation())
    run.life.sync(m.SyncRequest())
    monkeypatch.setattr(run.outgoing, "_moving", True)
    with pytest.raises(Postponed, match="takes no changes"):
        run.life.sync(m.SyncRequest())
    # The end of its run is told whatever moves.
    domain.life, domain.why = Life.SHUTOFF, Why.SHUTDOWN
    assert run.life.sync(m.SyncRequest()).state == m.DOMAIN_STATE_SHUTOFF

"""Services of a role: order, failure, the way down."""

from __future__ import annotations

import signal

import pytest

from kvedge.runtime.notify import Notifier
from kvedge.runtime.services import NotYetError, ServiceError, ServiceRunner


class Recorder(Notifier):
    """Keeps what systemd would be told."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[str] = []
        self.lines: list[str] = []

    def ready(self) -> None:
        self.told.append("ready")

    def stopping(self) -> None:
        self.told.append("stopping")

    def status(self, text: str) -> None:
        self.lines.append(text)


class Part:
    """A service that notes its life in a shared list."""

    def __init__(self, name: str, life: list[str], refuses: bool = False, fails: str | None = None) -> None:
        self.name = name
        self._life = life
        self._refuses = refuses
        self._fails = fails

    def start(self) -> None:
        if self._refuses:
            raise ServiceError(self.name, "port 1 is in use")
        self._life.append(f"+{self.name}")

    def stop(self) -> None:
        self._life.append(f"-{self.name}")

    def failure(self) -> str | None:
        return self._fails


def test_services_start_in_order_and_stop_in_reverse_and_ready_is_told_once_after_the_last() -> None:
    life: list[str] = []
    recorder = Recorder()
    runner = ServiceRunner([Part("a", life), Part("b", life)], recorder)
    runner.start()
    assert recorder.told == ["ready"]
    runner.stop()
    assert life == ["+a", "+b", "-b", "-a"]
    assert recorder.told == ["ready", "stopping"]


def test_a_service_that_cannot_start_stops_the_role_and_systemd_never_hears_ready() -> None:
    life: list[str] = []
    recorder = Recorder()
    runner = ServiceRunner([Part("a", life), Part("b", life, refuses=True), Part("c", life)], recorder)
    with pytest.raises(ServiceError, match="b: port 1 is in use"):
        runner.run()
    assert life == ["+a", "-b", "-a"]
    assert recorder.told == ["stopping"]


class Hanging(Part):
    """A service whose end nobody waits for in vain, as its process is asked to end before."""

    def __init__(self, name: str, life: list[str]) -> None:
        super().__init__(name, life)
        self.is_asked_to_stop = lambda: False

    def stop(self) -> None:
        assert self.is_asked_to_stop()
        super().stop()


def test_the_way_down_of_a_start_that_failed_is_a_request_to_stop_that_the_last_exit_bounds() -> None:
    life: list[str] = []
    hanging = Hanging("a", life)
    runner = ServiceRunner([hanging, Part("b", life, refuses=True)], Recorder())
    hanging.is_asked_to_stop = runner._stop.is_set
    with pytest.raises(ServiceError, match="port 1"):
        runner.run()
    assert life == ["+a", "-b", "-a"]


def test_a_service_that_fails_later_stops_the_role_with_its_name_and_cause() -> None:
    life: list[str] = []
    runner = ServiceRunner([Part("a", life), Part("b", life, fails="the store is damaged")], Recorder())
    with pytest.raises(ServiceError) as caught:
        runner.run()
    assert (caught.value.service, caught.value.detail) == ("b", "the store is damaged")
    assert life == ["+a", "+b", "-b", "-a"]


class Ending(Part):
    """A service during whose start the program is asked to stop."""

    def start(self) -> None:
        super().start()
        signal.raise_signal(signal.SIGTERM)


def test_a_stop_that_was_asked_for_ends_the_role_without_an_error() -> None:
    life: list[str] = []
    recorder = Recorder()
    ServiceRunner([Ending("a", life), Part("b", life)], recorder).run()
    assert life == ["+a", "-a"]
    assert recorder.told == ["stopping"]


class Teller(Part):
    """A service that says what it does."""

    def summary(self) -> str:
        return "3 Pods on this node"


def test_the_status_line_says_what_starts_and_then_what_the_services_do() -> None:
    recorder = Recorder()
    runner = ServiceRunner([Part("a", []), Teller("agent", [])], recorder)
    runner.start()
    assert recorder.lines == ["starting a", "starting agent", "serving; 3 Pods on this node"]
    runner.stop()


class Late(Part):
    """A service for which something is missing, so many times."""

    def __init__(self, name: str, life: list[str], tries: int) -> None:
        super().__init__(name, life)
        self.tries = tries

    def start(self) -> None:
        if self.tries:
            self.tries -= 1
            raise NotYetError(self.name, "no rights yet")
        super().start()


def test_a_service_that_cannot_start_yet_is_tried_again_and_systemd_told_what_it_waits_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ServiceRunner, "RETRY_SECONDS", 0.0)
    life: list[str] = []
    recorder = Recorder()
    runner = ServiceRunner([Late("api", life, 3), Part("b", life)], recorder)
    runner.start()
    assert life == ["+api", "+b"]
    assert recorder.told == ["ready"]
    assert recorder.lines.count("api waits: no rights yet") == 3
    runner.stop()


def test_waiting_ends_when_the_program_is_asked_to_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    life: list[str] = []
    recorder = Recorder()
    runner = ServiceRunner([Late("api", life, 10**6)], recorder)
    monkeypatch.setattr(
        recorder, "status", lambda text: signal.raise_signal(signal.SIGTERM) if "waits" in text else None
    )
    runner.run()
    assert recorder.told == ["stopping"]
    assert life == ["-api"]

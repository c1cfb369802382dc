# Tests: kvedge/runtime/services.py, kvedge/runtime/serving/https_server.py, kvedge/standalone/apiserver/api_server.py
# Tests: kvedge/handler/launchers/launcher_connections.py
"""The watchdog is fed as long as every event loop turns, and no longer."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from kvedge.handler.launchers.launcher_connections import LauncherConnections
from kvedge.runtime.heartbeat import Heartbeat, LoopPulse
from kvedge.runtime.notify import Notifier
from kvedge.runtime.services import ServiceError, ServiceRunner
from kvedge.runtime.serving.https_server import HttpsServer
from kvedge.runtime.tls.certificates import CertificateAuthority, LeafRequest
from kvedge.runtime.tls.rotating_tls import RotatingTls
from kvedge.standalone.apiserver.api_server import ApiServerConfig, EmbeddedApi
from tests.support.clocks import TurnedClock
from tests.support.waiting import wait_until

# Far more than the beat of a loop, which is a second: a busy machine may hold one up for some.
LIMIT = 12.0
# How far the clock jumps at once. After five seconds without a question the whole process counts as having stood still.
JUMP = timedelta(seconds=4)


@dataclass
class Looping:
    """Something that serves in an event loop of its own, as a service."""

    name: str
    made: Any

    def start(self) -> None:
        return None

    def stop(self) -> None:
        return None

    def failure(self) -> str | None:
        return self.made.failure()  # type: ignore[no-any-return]

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        found = getattr(self.made, "_loop", self.made).loop
        assert isinstance(found, asyncio.AbstractEventLoop)
        return found

    @property
    def heartbeat(self) -> Heartbeat:
        found = self.made._loop.heartbeat if hasattr(self.made, "_loop") else self.made._heartbeat
        assert isinstance(found, Heartbeat)
        return found


@contextmanager
def embedded(path: Path) -> Iterator[Looping]:
    api = EmbeddedApi(ApiServerConfig(path, port=0, node_name="box"))
    api.start()
    yield Looping("embedded API", api)
    api.stop()


@contextmanager
def https(path: Path) -> Iterator[Looping]:
    now = datetime.now(UTC)
    material = CertificateAuthority.create("test", now).issue(LeafRequest("x", hosts=["127.0.0.1"]), now)
    server = HttpsServer("127.0.0.1", 0, "api")
    server.start(RotatingTls(material), web.Application)
    yield Looping("api", server)
    server.stop()


@contextmanager
def launchers(path: Path) -> Iterator[Looping]:
    connections = LauncherConnections(path, lambda key: None)
    connections.start()
    yield Looping("handler", connections)
    connections.stop()


class Watchdog(Notifier):
    """Counts the pings; each comes after the question for how long no beat has come."""

    def __init__(self) -> None:
        super().__init__()
        self.pings = 0

    def alive(self) -> None:
        self.pings += 1


def beats_and_feeds(heartbeat: Heartbeat, watchdog: Watchdog, moment: float) -> None:
    """Wait until the loop has beaten after this moment, and the watchdog is fed after that."""
    wait_until(lambda: heartbeat._stamped is not None and heartbeat._stamped >= moment, "the loop beats")
    fed = watchdog.pings
    wait_until(lambda: watchdog.pings > fed, "it is fed while the loop turns")


def next_question(watchdog: Watchdog, watching: threading.Thread) -> None:
    fed = watchdog.pings
    wait_until(lambda: watchdog.pings > fed or not watching.is_alive(), "the next question")


@pytest.mark.parametrize(
    ("serving", "words"),
    [
        pytest.param(embedded, "embedded API: the API server's event loop has been stuck for", id="the embedded API"),
        pytest.param(https, "api: the event loop of the api server has been stuck for", id="a role's server"),
        pytest.param(
            launchers, "handler: the event loop of the launcher connections has been stuck for", id="the launchers"
        ),
    ],
)
def test_a_blocked_loop_is_named_and_the_watchdog_is_not_fed_any_more(
    serving: Callable[[Path], Any], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The clock below is turned by hand, so that nobody has to wait for the real one.
    monkeypatch.setattr(LoopPulse, "BEAT_SECONDS", 0.05)
    monkeypatch.setattr(ServiceRunner, "POLL_SECONDS", 0.05)
    blocked, let_go = threading.Event(), threading.Event()

    def block() -> None:
        blocked.set()
        let_go.wait(120)

    with serving(tmp_path) as looping:
        clock, heartbeat = TurnedClock(), looping.heartbeat
        heartbeat.limit, heartbeat._monotonic = LIMIT, clock.monotonic
        watchdog, ended = Watchdog(), []
        runner = ServiceRunner([looping], watchdog)
        runner.start()

        def watch() -> None:
            try:
                runner._watch()
            except ServiceError as error:
                ended.append(str(error))

        watching = threading.Thread(target=watch)
        watching.start()
        begun = clock.monotonic()
        while clock.monotonic() < begun + 1.3 * LIMIT:
            beats_and_feeds(heartbeat, watchdog, clock.monotonic())
            assert not ended
            clock.turn(JUMP)
        looping.loop.call_soon_threadsafe(block)
        assert blocked.wait(30)
        while not ended:
            clock.turn(JUMP)
            next_question(watchdog, watching)
            assert clock.monotonic() < begun + 100 * LIMIT
        watching.join(60)
        assert ended[0].startswith(words)
        let_go.set()
        wait_until(lambda: looping.failure() is None, "a loop that turns again is well")

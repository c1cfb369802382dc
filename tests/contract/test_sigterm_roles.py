"""SIGTERM ends each role within its time-out while the API server has its connections and answers nobody."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from kvedge.resources.role_users import API_USER, CONTROLLER_USER
from kvedge.runtime.last_exit import EXIT_SECONDS
from kvedge.standalone.apiserver.access.authorizer_rules import APIS, CONTROLLERS
from kvedge.standalone.apiserver.api_server import ApiServerConfig, EmbeddedApi
from tests.support.waiting import wait_until

pytestmark = pytest.mark.timeout(200)

USERS = {"api": (API_USER, APIS), "controller": (CONTROLLER_USER, CONTROLLERS)}


class Stalling:
    """An API server whose event loop is held from some moment on."""

    def __init__(self, directory: Path) -> None:
        self.server = EmbeddedApi(ApiServerConfig(directory, port=0, node_name="box"))
        self.server.start()
        self._let_go = threading.Event()

    def stall(self) -> None:
        held = threading.Event()
        loop = self.server._loop.loop
        assert loop is not None

        def hold() -> None:
            held.set()
            self._let_go.wait(120)

        loop.call_soon_threadsafe(hold)
        assert held.wait(30)

    def end(self) -> None:
        self._let_go.set()
        self.server.stop()


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Stalling]:
    made = Stalling(tmp_path / "data")
    yield made
    made.end()


def role(name: str, path: Path, server: EmbeddedApi) -> tuple[subprocess.Popen[bytes], Path]:
    user, group = USERS[name]
    kubeconfig, log = path / f"{name}.kubeconfig", path / f"{name}.log"
    server.write_kubeconfig(kubeconfig, user, [group])
    command = [sys.executable, "-m", "kvedge", name, "--kubeconfig", str(kubeconfig), "--node-name", "box"]
    with log.open("wb") as out:
        return subprocess.Popen([*command, "--data-dir", str(path / "role")], stdout=out, stderr=out, cwd="/"), log


@pytest.mark.parametrize("when", ["it serves", "it starts"])
@pytest.mark.parametrize("name", USERS)
def test_sigterm_ends_a_role_whose_api_server_answers_nobody(
    name: str, when: str, api: Stalling, tmp_path: Path
) -> None:
    if when == "it starts":
        api.stall()
    process, log = role(name, tmp_path, api.server)
    try:
        if when == "it serves":
            words = "started" if name == "api" else "leading"
            wait_until(lambda: words in log.read_text(), f"{name} serves")
            api.stall()
        else:
            wait_until(lambda: _asks(process), f"{name} asks the API server")
        process.send_signal(signal.SIGTERM)
        process.wait(EXIT_SECONDS + 10)
    finally:
        process.kill()
        process.wait()
    # What is asked at the start may wait longer than the role may take: the last exit is for that.
    expected = (0,) if when == "it serves" else (0, 1)
    assert process.returncode in expected, log.read_text()
    assert "stopping" in log.read_text()


def _asks(process: subprocess.Popen[bytes]) -> bool:
    return any(connection.status == "ESTABLISHED" for connection in psutil.Process(process.pid).net_connections())

"""What waits for a QEMU, and for how long."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kvedge.launcher.shares.share_marks import LAUNCHER, hold, is_held
from kvedge.launcher.shares.share_server import AWAY_SECONDS, COMING_SECONDS, Patience, listen, main
from tests.support.waiting import wait_until


def test_a_launcher_that_never_comes_is_not_waited_for_for_ever() -> None:
    patience = Patience(100.0)
    assert patience.goes_on(100.0 + COMING_SECONDS - 1, launcher=False, asked=False)
    assert not patience.goes_on(100.0 + COMING_SECONDS, launcher=False, asked=False)


def test_a_launcher_that_is_started_again_finds_its_directories() -> None:
    patience = Patience(0.0)
    assert patience.goes_on(1.0, launcher=True, asked=False)
    assert patience.goes_on(AWAY_SECONDS, launcher=False, asked=False)
    assert not patience.goes_on(1.0 + AWAY_SECONDS, launcher=False, asked=False)


def test_a_pod_that_is_to_go_keeps_them_as_long_as_its_launcher() -> None:
    patience = Patience(0.0)
    assert patience.goes_on(1.0, launcher=True, asked=True)
    assert not patience.goes_on(2.0, launcher=False, asked=True)


def test_a_socket_takes_the_place_of_one_that_a_run_before_has_left(tmp_path: Path) -> None:
    path = tmp_path / "a.sock"
    listen(str(path)).close()
    with listen(str(path)), socket.socket(socket.AF_UNIX) as client:
        client.connect(str(path))
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["a.sock"]


def test_a_command_line_without_sense_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["a"]) == 2
    assert capsys.readouterr().err.startswith("usage: kvedge launcher-share")


# It becomes root of a namespace where the node's daemon is QEMU's: only in a process of its own.
@pytest.fixture
def waiting(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    (tmp_path / "shares").mkdir()
    command = [sys.executable, "-m", "kvedge", "launcher-share", "data", str(tmp_path), str(tmp_path / "shares")]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as started:
        yield started
        started.kill()


def test_its_mark_says_that_it_listens_while_a_socket_of_before_says_nothing(
    tmp_path: Path, waiting: subprocess.Popen[bytes]
) -> None:
    shares = tmp_path / "shares"
    # The launcher looks at the mark all the time, and must not keep it from its holder.
    wait_until(lambda: is_held(str(shares / "data.lock")) or (shares / "data.refused").exists(), "it is ready", 30, 0.0)
    if (shares / "data.refused").exists():
        pytest.skip("this machine has no virtiofsd, or no user namespaces: there is nobody to wait for")
    assert "data.sock" in os.listdir(shares)
    waiting.kill()
    waiting.wait(30)
    assert ((shares / "data.sock").exists(), is_held(str(shares / "data.lock"))) == (True, False)


def test_it_waits_as_long_as_there_is_a_launcher_and_ends_after_it(
    tmp_path: Path, waiting: subprocess.Popen[bytes]
) -> None:
    shares = tmp_path / "shares"
    mark = hold(str(shares / LAUNCHER), wait=True)
    refused = shares / "data.refused"
    wait_until(lambda: is_held(str(shares / "data.lock")) or refused.exists(), "it is ready")
    # Whoever finds the mark held can connect, at the first try.
    assert refused.exists() or (shares / "data.sock").exists()
    waiting.send_signal(signal.SIGTERM)
    with pytest.raises(subprocess.TimeoutExpired):
        waiting.wait(2)
    os.close(mark)
    assert waiting.wait(30) == 0
    assert not is_held(str(shares / "data.lock"))

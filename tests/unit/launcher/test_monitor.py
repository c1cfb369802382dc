"""The monitor with a launcher of the test's own: real processes, no namespaces."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.waiting import wait_until


class Monitored:
    """A monitor in a process of its own; its launcher runs `body`, which has `options`, `os`, `time` and `state`."""

    def __init__(self, directory: Path, body: str, *options: str, qemu_seconds: float = 10.0) -> None:
        self.directory = directory
        (directory / "var/run/kubevirt").mkdir(parents=True, exist_ok=True)
        program = f"""
import os, signal, subprocess, sys, time
from kvedge.launcher.command import _options, _parse
from kvedge.launcher import monitor
from pathlib import Path
monitor.QEMU_SECONDS = {qemu_seconds}
state = Path({str(directory)!r})
def launcher(options):
{textwrap.indent(textwrap.dedent(body), "    ")}
arguments = ["--namespace", "n", "--name", "v", "--uid", "u", "--root", {str(directory)!r}, *{list(options)!r}]
sys.exit(monitor.run_monitor(_options(*_parse(arguments)), launcher))
"""
        self.log = directory / "log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen([sys.executable, "-c", program], stdout=log, stderr=log)

    def marks(self, name: str) -> list[str]:
        """The lines that launchers have written to a file."""
        path = self.directory / name
        return path.read_text().split() if path.exists() else []

    def final(self) -> dict[str, str]:
        """The last word."""
        return dict(json.loads((self.directory / "var/run/kubevirt/final.json").read_text()))


@pytest.fixture
def started(tmp_path: Path) -> Iterator[list[Monitored]]:
    """Monitors to be ended after the test."""
    running: list[Monitored] = []
    yield running
    for monitored in running:
        monitored.process.kill()
        monitored.process.wait()


def alive(pid: int) -> bool:
    """Whether a process runs, zombies not counted."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.parametrize("code", [0, 1])
def test_the_launchers_verdict_is_the_pods_exit_code(tmp_path: Path, started: list[Monitored], code: int) -> None:
    started.append(Monitored(tmp_path, f"return {code}"))
    assert started[0].process.wait(20) == code


def test_an_orphan_is_reaped_while_the_launcher_runs(tmp_path: Path, started: list[Monitored]) -> None:
    body = """
        grandchild = subprocess.run(["sh", "-c", "sleep 0.1 & echo $!"], capture_output=True, text=True).stdout.strip()
        (state / "orphan").write_text(grandchild)
        deadline = time.monotonic() + 20
        while os.path.exists(f"/proc/{grandchild}"):
            if time.monotonic() > deadline:
                return 1
            time.sleep(0.01)
        return 0
    """
    started.append(Monitored(tmp_path, body))
    assert started[0].process.wait(30) == 0


def test_a_launcher_that_is_killed_is_started_again(tmp_path: Path, started: list[Monitored]) -> None:
    body = """
        with open(state / "lives", "a") as file:
            file.write("x\\n")
        if len((state / "lives").read_text().split()) < 3:
            os.kill(os.getpid(), signal.SIGKILL)
        return 0
    """
    started.append(Monitored(tmp_path, body))
    assert started[0].process.wait(20) == 0
    assert len(started[0].marks("lives")) == 3


def test_a_launcher_that_always_dies_is_given_up_with_a_last_word(tmp_path: Path, started: list[Monitored]) -> None:
    started.append(Monitored(tmp_path, "raise RuntimeError('broken')"))
    assert started[0].process.wait(30) == 1
    assert started[0].final()["state"] == "DOMAIN_STATE_CRASHED"
    assert "died 6 times, last with exit code 70" in started[0].final()["message"]
    assert "RuntimeError: broken" in started[0].log.read_text()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals_reach_the_launcher(tmp_path: Path, started: list[Monitored], number: signal.Signals) -> None:
    body = f"""
        signal.pthread_sigmask(signal.SIG_BLOCK, [{int(number)}])
        (state / "ready").write_text("x")
        return 0 if signal.sigwait([{int(number)}]) == {int(number)} else 1
    """
    started.append(Monitored(tmp_path, body))
    wait_until(lambda: started[0].marks("ready"), "the launcher")
    started[0].process.send_signal(number)
    assert started[0].process.wait(20) == 0


def test_a_signal_that_comes_early_waits_for_the_launcher(tmp_path: Path, started: list[Monitored]) -> None:
    body = """
        (state / "early").write_text("x")
        while signal.SIGTERM not in signal.sigpending():
            time.sleep(0.01)
        with open(state / "lives", "a") as file:
            file.write("x\\n")
        signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
        signal.pause()
        return 1
    """
    started.append(Monitored(tmp_path, body))
    wait_until(lambda: started[0].marks("early"), "the launcher")
    started[0].process.terminate()
    assert started[0].process.wait(20) == 0
    assert len(started[0].marks("lives")) == 1


def test_what_the_launcher_leaves_running_is_ended(tmp_path: Path, started: list[Monitored]) -> None:
    body = """
        left = subprocess.run(["sh", "-c", "sleep 600 >&- 2>&- & echo $!"], capture_output=True, text=True).stdout
        (state / "left").write_text(left)
        return 1
    """
    # It has SIGTERM blocked, as the launcher that has started it, and is killed in the end.
    started.append(Monitored(tmp_path, body, qemu_seconds=1.0))
    assert started[0].process.wait(20) == 1
    assert not alive(int(started[0].marks("left")[0]))


def test_a_failed_pod_is_kept_until_it_is_told_to_go(tmp_path: Path, started: list[Monitored]) -> None:
    started.append(Monitored(tmp_path, "return 1", "--keep-after-failure"))
    wait_until(lambda: "the Pod is kept" in started[0].log.read_text(), "the monitor's word")
    assert started[0].process.poll() is None
    started[0].process.terminate()
    assert started[0].process.wait(20) == 1


def test_a_success_is_not_kept(tmp_path: Path, started: list[Monitored]) -> None:
    started.append(Monitored(tmp_path, "return 0", "--keep-after-failure"))
    assert started[0].process.wait(20) == 0


def test_a_pod_that_was_told_to_go_is_not_kept_when_it_then_fails(tmp_path: Path, started: list[Monitored]) -> None:
    body = """
        signal.signal(signal.SIGTERM, lambda *_: os._exit(1))
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
        (state / "ready").write_text("x")
        signal.pause()
        return 0
    """
    started.append(Monitored(tmp_path, body, "--keep-after-failure"))
    wait_until(lambda: started[0].marks("ready"), "the launcher")
    started[0].process.terminate()
    assert started[0].process.wait(20) == 1


def test_the_monitor_as_a_bare_program_starts_the_next_launcher_as_a_command(tmp_path: Path) -> None:
    directory = Path(__file__).parents[3] / "kvedge" / "launcher"
    lives, final = tmp_path / "lives", tmp_path / "final.json"
    # The first launcher is a child of the process that becomes the monitor; here that is a shell.
    program = "import sys; sys.path.insert(0, sys.argv[1]); import monitor; sys.exit(monitor.resume(sys.argv[2:]))"
    bare = f'exec {sys.executable} -I -S -c "$0" {directory} $! {final} "" /bin/sh -c "echo x >> {lives}"'
    script = f'sh -c "kill -9 \\$\\$" & {bare}'
    done = subprocess.run(["sh", "-c", script, program], timeout=30, check=False)
    assert done.returncode == 0
    assert lives.read_text() == "x\n"

"""The daemon's files and its process; a script plays libvirtd, which the machine tests start for real."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kvedge.launcher.launcher_errors import Unanswered, WrongState
from kvedge.launcher.launcher_options import LauncherOptions
from kvedge.launcher.migration.incoming_daemon import IncomingDaemon

# Listens where its configuration says, and writes its number down, as libvirtd does.
PLAYED = f"""#!{sys.executable} -IS
import os, re, signal, socket, sys
config, pid = sys.argv[2], sys.argv[4]
directory = re.search('unix_sock_dir = "(.*)"', open(config).read()).group(1)
open(pid, "w").write(str(os.getpid()))
os.chdir(directory)
listener = socket.socket(socket.AF_UNIX)
listener.bind("libvirt-sock")
listener.listen()
signal.pause()
"""


@pytest.fixture
def options(tmp_path: Path) -> LauncherOptions:
    made = LauncherOptions(namespace="n", name="v", uid="u", root=str(tmp_path), incoming="m-1")
    os.makedirs(f"{made.libvirt_root}/log")
    return made


@pytest.fixture
def program(tmp_path: Path) -> str:
    path = tmp_path / "libvirtd"
    path.write_text(PLAYED)
    path.chmod(0o755)
    return str(path)


@pytest.fixture
def daemon(options: LauncherOptions, program: str) -> Iterator[IncomingDaemon]:
    made = IncomingDaemon(options, program)
    yield made
    made.stop()


def test_its_directories_are_those_of_the_embedded_libvirt(daemon: IncomingDaemon, options: LauncherOptions) -> None:
    daemon.start()
    root = Path(options.libvirt_root)
    places = {
        "config/libvirt": "etc",
        "config/libvirt/qemu/lib": "lib/qemu",
        "run/libvirt/qemu/run": "run/qemu",
        "cache/libvirt/qemu/cache": "cache/qemu",
        "cache/libvirt/qemu/log": "log/qemu",
    }
    for own, embedded in places.items():
        assert (root / "daemon" / own).resolve() == (root / embedded).resolve()


def test_it_listens_for_nobody_on_the_network_and_has_a_host_uuid_of_its_own(
    daemon: IncomingDaemon, options: LauncherOptions, program: str, tmp_path: Path
) -> None:
    daemon.start()
    config = Path(options.libvirt_root, "daemon", "libvirtd.conf")
    first = config.read_text()
    assert "listen_tls = 0\nlisten_tcp = 0\n" in first
    daemon.stop()
    daemon.start()
    assert config.read_text() != first


def test_it_is_there_once_it_listens_and_ends_when_it_is_stopped(daemon: IncomingDaemon) -> None:
    daemon.start()
    assert daemon.is_alive()
    assert Path(daemon.socket).is_socket()
    daemon.stop()
    assert not daemon.is_alive()
    # Once more does nothing.
    daemon.stop()


def test_it_is_waited_for_while_its_socket_is_there_and_refuses_calls(
    daemon: IncomingDaemon, program: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path(program).write_text(PLAYED.replace("listener.listen()", "import time; time.sleep(0.3); listener.listen()"))
    daemon.start()
    monkeypatch.chdir(Path(daemon.socket).parent)
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(Path(daemon.socket).name)


def test_that_of_a_launcher_before_is_found_and_used(
    daemon: IncomingDaemon, options: LauncherOptions, program: str
) -> None:
    daemon.start()
    pid = Path(options.libvirt_root, "daemon", "pid").read_text()
    after = IncomingDaemon(options, program)
    assert after.is_alive()
    after.start()
    assert Path(options.libvirt_root, "daemon", "pid").read_text() == pid


def test_another_process_with_its_number_is_left_alone(options: LauncherOptions, program: str) -> None:
    place = Path(options.libvirt_root, "daemon")
    place.mkdir()
    (place / "pid").write_text(str(os.getpid()))
    daemon = IncomingDaemon(options, program)
    assert not daemon.is_alive()
    daemon.stop()


def test_a_node_without_it_says_what_to_install(options: LauncherOptions, tmp_path: Path) -> None:
    with pytest.raises(WrongState, match="install libvirt-daemon-system"):
        IncomingDaemon(options, str(tmp_path / "missing")).start()


def test_one_that_ends_at_once_is_told_with_its_log(options: LauncherOptions) -> None:
    with pytest.raises(Unanswered, match=r"has ended, see .*libvirtd\.log"):
        IncomingDaemon(options, "/bin/false").start()

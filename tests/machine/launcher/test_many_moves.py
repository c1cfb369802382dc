"""A guest under load moves there and back, again and again, and nothing of a move is left behind.

Twice in a usual run; `KVEDGE_TEST_MOVES=50` says how often. Launchers, libvirt and the handlers' steps are real; the
API server is in memory.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import grpc
import pytest

from kvedge.handler.launchers.launcher_connections import LauncherConnections
from kvedge.resources.migration_channels import MIGRATION_FOLDER
from kvedge.rpc import launcher_pb2 as m
from tests.support.guest import build_guest
from tests.support.launcher_pod import QEMU_USER, LauncherPod, kill
from tests.support.loaded_guest import Account, check_disk, read_account
from tests.support.loaded_stays import Node, Silence, Stay, listening, loaded_vmi, network_of, prepare
from tests.support.moving_claims import MovingClaims
from tests.support.moving_handlers import MovingHandlers
from tests.support.process_figures import Figures, figures_of, slope
from tests.support.waiting import wait_until

MOVES = int(os.environ.get("KVEDGE_TEST_MOVES", "2"))
pytestmark = [pytest.mark.machine, pytest.mark.timeout(300 + 60 * MOVES)]

# What a launcher may have more after many moves than after the first one, in KiB: it is a new process each time.
MORE_MEMORY = 4096


@dataclass
class Journal:
    """What was seen of the moves so far."""

    said: bytes = b""
    gaps: list[float] = field(default_factory=list)
    taken: list[float] = field(default_factory=list)
    launchers: list[Figures] = field(default_factory=list)
    guests: list[Figures] = field(default_factory=list)
    handlers: list[tuple[int, int]] = field(default_factory=list)
    processes: list[list[str]] = field(default_factory=list)

    def tell(self) -> str:
        """In a few lines."""
        gap, taken = statistics.median(self.gaps), statistics.median(self.taken)
        lines = [
            f"{len(self.gaps)} moves: {taken:.1f} s each (longest {max(self.taken):.1f});"
            f" the guest stood {gap * 1000:.0f} ms (longest {max(self.gaps) * 1000:.0f})"
        ]
        for name, figures in (("launcher", self.launchers), ("QEMU", self.guests)):
            memory = [each.memory for each in figures]
            growth = slope(memory) if len(memory) > 1 else 0.0
            files, threads = [each.files for each in figures], [each.threads for each in figures]
            lines.append(
                f"{name}: {min(memory)} to {max(memory)} KiB ({growth:+.1f} a move),"
                f" {min(files)} to {max(files)} files, {min(threads)} to {max(threads)} threads"
            )
        lines.append(f"files and threads of the handlers' process: {self.handlers[0]}, and now {self.handlers[-1]}")
        return "\n".join(lines)


@pytest.fixture
def node(tmp_path: Path, seed: Path) -> Iterator[Node]:
    tmp_path.chmod(0o755)
    user = f"qemu:x:{QEMU_USER}:{QEMU_USER}:qemu:/:/usr/sbin/nologin\n"
    (tmp_path / "passwd").write_text(Path("/etc/passwd").read_text() + user)
    image = tmp_path / "image" / "disk"
    image.mkdir(parents=True)
    shutil.copyfile(build_guest().disk, image / "guest.qcow2")
    with contextlib.ExitStack() as stack:
        made = Node(tmp_path, seed, MovingClaims(tmp_path, stack), [])
        for _ in range(2):
            connections = LauncherConnections(made.kubelet, lambda _: None)
            made.connections.append(connections)
            connections.start()
            stack.callback(connections.stop)
        yield made


def owned(pod: LauncherPod) -> None:
    """The launcher owns its guest like any other, and libvirt's daemon has gone."""

    def look() -> bool:
        with contextlib.suppress(grpc.RpcError, OSError):
            if pod.call("GetDomain", seconds=5).state == m.DOMAIN_STATE_RUNNING:
                return not any(name.startswith("libvirtd") for name in pod.processes().values())
        if pod.channel is not None:
            pod.channel.close()
            pod.channel = None
        return False

    wait_until(look, "the launcher that owns its guest", seconds=60, pause=0.1)


def move(node: Node, source: Stay, journal: Journal, uid: str) -> Stay:
    """The guest goes to another Pod, and the one that it has left is over."""
    target, begun = node.stay(uid), time.monotonic()
    pods = (source.pod, target.pod)
    moving = MovingHandlers(node.kubelet, uid, pods, lambda: prepare(source, target, uid), node.connections)
    silence = Silence(source.log, target.log)
    with silence, contextlib.closing(moving), network_of(source.pod) as list_left:
        moving.start()
        turn_until(moving, lambda: moving.state.completed or moving.state.failed, "the guest is the other node's")
        assert not moving.state.failed, moving.state.failure_reason
        journal.taken.append(time.monotonic() - begun)
        turn_until(moving, lambda: source.pod.process.poll() is not None, "the source's Pod ends")
        wait_until(lambda: silence.first, "the guest goes on over there", pause=0.02)
        # Handlers let go of the way by themselves: nothing else closes it.
        turn_until(moving, lambda: not listening(source.pod.directory), "nobody listens in the Pod that it has left")
        way = target.pod.directory / "public" / MIGRATION_FOLDER
        turn_until(moving, lambda: not listening(way), "nobody waits for a guest any more")
        assert (source.pod.process.returncode, list_left()) == (0, [])
    assert silence.first > silence.last, "it ran in both places"
    journal.gaps.append(silence.first - silence.last)
    shutil.rmtree(node.kubelet)
    return target


def turn_until(moving: MovingHandlers, found: Callable[[], Any], what: str) -> None:
    def look() -> Any:
        moving.turn()
        return found()

    wait_until(look, what, seconds=90, pause=0.1)


def check_left(source: Stay, journal: Journal) -> Account:
    """All that the guest has acknowledged until it left is there; then its Pod goes."""
    journal.said += source.said()
    account = read_account(journal.said)
    check_disk(source.claim.read(), account)
    directory = str(source.pod.directory)
    source.ends.close()
    assert directory not in Path("/proc/self/mounts").read_text()
    return account


def note_figures(stay: Stay, journal: Journal) -> None:
    (guest,) = stay.pod.qemu_pids()
    journal.launchers.append(figures_of(stay.pod.launcher_pid()))
    journal.guests.append(figures_of(guest))
    journal.processes.append(sorted(name.split()[0] for name in stay.pod.processes().values()))
    own = figures_of(os.getpid())
    journal.handlers.append((own.files, own.threads))


def test_a_guest_under_load_moves_there_and_back_and_nothing_is_lost_or_left(node: Node) -> None:
    journal, here = Journal(), node.stay()
    here.pod.sync(loaded_vmi(here), network=True)
    wait_until(lambda: read_account(here.said()).blocks > 5, "the guest writes", seconds=120, pause=0.3)
    for number in range(MOVES):
        blocks = read_account(journal.said + here.said()).blocks
        there = move(node, here, journal, f"m-{number}")
        left = check_left(here, journal)
        assert left.blocks >= blocks
        here = there
        owned(here.pod)
        wait_until(partial(goes_on, journal, here, left), "it counts and writes over there", pause=0.1)
        note_figures(here, journal)
        print(journal.tell(), flush=True)
    check_leaks(journal)
    kill(here.pod.monitor_pid())
    here.pod.wait_exit()
    last = check_left(here, journal)
    assert last.blocks > 5


def goes_on(journal: Journal, there: Stay, left: Account) -> bool:
    found = read_account(journal.said + there.said())
    return found.seconds > left.seconds and found.blocks > left.blocks + 1


def check_leaks(journal: Journal) -> None:
    first, last = journal.launchers[0], journal.launchers[-1]
    # One that is open for a moment.
    assert last.files <= first.files + 1
    assert last.threads <= first.threads + 1
    assert last.memory <= first.memory + MORE_MEMORY
    assert journal.processes[-1] == journal.processes[0]
    # gRPC's own come with the first move.
    files, threads = journal.handlers[-1]
    assert files <= journal.handlers[0][0] + 1
    assert threads <= journal.handlers[0][1] + 1

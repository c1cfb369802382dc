"""The launcher while its guest is on its way here: libvirt's daemon, the gRPC service, and then the launcher anew.

Called by `launcher_process` instead of opening libvirt, when the Pod was made for a migration and its guest is not this
Pod's yet. Once the guest is released, the process replaces itself: the launcher that starts then finds a guest that
runs, as after any restart.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
import time
from typing import Final

from kvedge.launcher.disks.preparation_process import PreparationProcess
from kvedge.launcher.incoming_server import IncomingServer
from kvedge.launcher.launcher_errors import LauncherError
from kvedge.launcher.launcher_options import LauncherOptions
from kvedge.launcher.libvirt.libvirt_session import LibvirtSession
from kvedge.launcher.migration.incoming_daemon import IncomingDaemon
from kvedge.launcher.migration.incoming_guest import IncomingGuest
from kvedge.launcher.migration.migration_record import MigrationRecord
from kvedge.launcher.monitor import SHUT_DOWN
from kvedge.launcher.run.domain_watch import DomainWatch
from kvedge.launcher.run.run_record import RunRecord
from kvedge.launcher.run.status_board import StatusBoard
from kvedge.launcher.stop_bell import StopBell

log = logging.getLogger(__name__)

_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
_WORD_SECONDS: Final = 10.0
_WORD_POLL: Final = 0.1


def await_guest(options: LauncherOptions, record: RunRecord, preparation: PreparationProcess) -> int:
    """Serve until the guest is released, which does not return, or until none is wanted any more: the exit code."""
    daemon, bell, board = IncomingDaemon(options), StopBell(), StatusBoard()
    watch = DomainWatch(lambda: False)

    def connect() -> LibvirtSession:
        daemon.start()
        session = LibvirtSession(options.libvirt_root, options.domain_name, daemon.socket)
        session.watch(watch.look_soon)
        return session

    store = MigrationRecord(record.directory)
    guest = IncomingGuest(options.incoming, store, record, preparation, connect, board.publish, bell.ring, options.root)
    bell.listen(_SIGNALS)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {*_SIGNALS, signal.SIGHUP, signal.SIGQUIT})
    try:
        guest.look()
    except LauncherError as error:
        # The daemon of the launcher before has ended, and another one does not start now: the watch tries again.
        log.warning("libvirt's daemon does not answer", extra={"facts": {"why": str(error)}})
    server = IncomingServer(guest, board, options.uid)
    server.start(options.socket_path)
    watch.start(guest.look)
    log.info("awaiting a guest", extra={"facts": {"migration": options.incoming, "uid": options.uid}})
    while not (bell.is_asked or guest.is_over):
        bell.wait()
    _wait_for_word(guest)
    if not guest.is_released:
        _give_up(guest, options.incoming)
    server.stop()
    daemon.stop()
    preparation.stop()
    if guest.is_released:
        _start_again(options, bell)
    return SHUT_DOWN


def _wait_for_word(guest: IncomingGuest) -> None:
    """A guest that has come may be the only one: whoever knows is given a while to say so, of a Pod's grace period."""
    deadline = time.monotonic() + _WORD_SECONDS
    while guest.has_arrived and not guest.is_over and time.monotonic() < deadline:
        time.sleep(_WORD_POLL)


def _give_up(guest: IncomingGuest, uid: str) -> None:
    try:
        # Its source may be lost: then what has come is all that there is of its disks.
        guest.discard(uid, "the launcher was told to go", keeps_disks=True)
    except LauncherError as error:
        # Released just now, or libvirt is gone: the monitor ends what is left of QEMU.
        log.warning("a guest is left", extra={"facts": {"why": str(error)}})


def _start_again(options: LauncherOptions, bell: StopBell) -> None:
    """Become the launcher of a guest that runs; it hears of a wish to stop that came meanwhile."""
    log.info("the guest is ours: starting again to own it")
    # As the monitor starts launchers: one that cannot hear signals yet would only die of them.
    signal.pthread_sigmask(signal.SIG_BLOCK, {*_SIGNALS, signal.SIGHUP, signal.SIGQUIT})
    for number in _SIGNALS:
        # A thread that still serves may get one. It then ends the process, and the monitor repeats the signal to the
        # next launcher: nobody here would hand it on any more.
        signal.signal(number, signal.SIG_DFL)
    if bell.is_asked:
        # To this thread, which has it blocked: it waits there until the next program wants to hear it.
        signal.pthread_kill(threading.get_ident(), signal.SIGTERM)
    program = [sys.executable] if getattr(sys, "frozen", False) else [sys.executable, "-P", "-m", "kvedge"]
    os.execv(sys.executable, [*program, "launcher", *options.arguments()])

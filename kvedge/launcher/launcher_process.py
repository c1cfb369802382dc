"""The launcher proper: one process per VM, in the VM's Pod, below the monitor.

Run by the monitor in a forked child, or by `kvedge launcher` without `--monitor`. It owns the embedded libvirt, the
gRPC server, the DHCP responders and the record of the run, and ends when the run is over and somebody has taken note of
it.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import threading
import time
from typing import Final

from kvedge.launcher.disks.preparation_process import PreparationProcess
from kvedge.launcher.launcher_options import LauncherOptions
from kvedge.launcher.libvirt.libvirt_setup import prepare_environment, prepare_root
from kvedge.launcher.libvirt.log_settings import catch_up
from kvedge.launcher.log_files import BoundedLogs
from kvedge.launcher.monitor import FAILED, MONITOR
from kvedge.launcher.process_memory import limit_arenas, load_grpc, load_shared
from kvedge.launcher.stop_bell import StopBell
from kvedge.runtime.linux.process_stat import read_stat
from kvedge.runtime.logs import set_up_logs
from kvedge.runtime.milestones import (
    CONTAINER_STARTED,
    IMPORTS_DONE,
    LAUNCHER_BEGUN,
    LIBVIRT_OPENED,
    SERVING,
    Milestones,
    unix_ms,
)

# Set before grpc is loaded: without its fork handlers, which a launcher has no use for, and with as few threads as it
# lets us.
GRPC: Final = {"GRPC_ENABLE_FORK_SUPPORT": "0", "GRPC_VERBOSITY": "ERROR"}
# How long the end of the run waits for the handler to take note of it, as in KubeVirt.
ACKNOWLEDGE_SECONDS: Final = 15.0
# A guest that has left leaves its launcher's word to be written down before anything of it runs over there: a handler
# that is exchanged just then is waited for, and its Pod costs little.
LEFT_SECONDS: Final = 300.0
# How often it is seen meanwhile whether the Pod is to go: an Event's wait does not end for a signal.
_LOOK_SECONDS: Final = 1.0
# When the Pod ends without a handler that could see it, the file of last words tells how the run ended.
UNWATCHED_SECONDS: Final = 2.0
# Python's threads here are shallow; the default reserves 8 MB of address space for each.
STACK_BYTES: Final = 512 << 10

log = logging.getLogger(__name__)


def run_launcher(options: LauncherOptions) -> int:
    """Serve until the run is over; 0 when the guest shut down or was ended by request, 1 when something failed."""
    milestones = Milestones()
    milestones.note(LAUNCHER_BEGUN)
    _note_container(milestones)
    # Sockets, images and records are for this user and root alone.
    os.umask(0o077)
    set_up_logs(options.log_level)
    prepare_environment(options, os.environ)
    # Forked before there are threads, and after what both processes need. A launcher that comes after another one has
    # nothing left to prepare.
    load_shared()
    preparation = None if os.path.exists(options.begun_path) else PreparationProcess(options)
    limit_arenas()
    threading.stack_size(STACK_BYTES)
    threading.excepthook = _end_with
    os.environ.update(GRPC)
    prepare_root(options)
    catch_up()
    load_grpc()
    return _serve(options, preparation, milestones)


def _serve(options: LauncherOptions, preparation: PreparationProcess | None, milestones: Milestones) -> int:
    # These bring libvirt and grpc in, which must find the environment as it is now.
    from kvedge.launcher.launcher_server import LauncherServer
    from kvedge.launcher.libvirt.libvirt_session import LibvirtSession
    from kvedge.launcher.run.domain_run import DomainRun
    from kvedge.launcher.run.run_record import RunRecord
    from kvedge.launcher.run.wind_down import wind_down
    from kvedge.launcher.shares.guest_shares import hold_launcher_mark
    from kvedge.rpc.launcher_pb2 import DOMAIN_REASON_MIGRATED

    milestones.note(IMPORTS_DONE)
    record = RunRecord(options, milestones)
    # Held until the process ends.
    hold_launcher_mark(options.root)
    if options.incoming and preparation is not None:
        from kvedge.launcher.incoming_process import await_guest

        return await_guest(options, record, preparation)
    if options.incoming:
        # Of a launcher that was killed between the guest's release and its own new start.
        from kvedge.launcher.migration.incoming_daemon import IncomingDaemon

        IncomingDaemon(options).stop()
    session = LibvirtSession(options.libvirt_root, options.domain_name)
    milestones.note(LIBVIRT_OPENED)
    bell = StopBell()
    run = DomainRun(session, record, preparation, bell.ring, BoundedLogs(options).look_after, options.root)
    bell.listen((signal.SIGTERM, signal.SIGINT))
    # The monitor has kept them back until now.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT})
    run.start()
    server = LauncherServer(run, options.uid)
    server.start(options.socket_path)
    milestones.note(SERVING)
    log.info("serving", extra={"facts": {"vmi": f"{options.namespace}/{options.name}", "uid": options.uid}})
    while not (bell.is_asked or run.state.ended.is_set()):
        bell.wait()
    if bell.is_asked:
        wind_down(run, options.grace_period_seconds)
    verdict = run.view.verdict()
    if verdict.has_ended:
        if verdict.reason == DOMAIN_REASON_MIGRATED:
            _await_word_taken(run.state.acknowledged, bell)
        seen = server.is_watched or not bell.is_asked
        run.state.acknowledged.wait(ACKNOWLEDGE_SECONDS if seen else UNWATCHED_SECONDS)
    run.life.clean_up()
    if options.hook_sidecars and verdict.has_ended:
        _tell_hooks(options)
    server.stop()
    if preparation is not None:
        preparation.stop()
    code = verdict.exit_code
    if bell.is_asked and os.path.exists(options.host_shutdown_path):
        # The guest did not end by itself: a VM that runs again after a failure is to run again with the host.
        log.info("the host goes down: this run counts as failed")
        code = FAILED
    log.info("done", extra={"facts": {"exit_code": code}})
    return code


def _tell_hooks(options: LauncherOptions) -> None:
    """Hook sidecars may end with their guest: the Pod is over once all its containers are."""
    from kvedge.launcher.hooks.hook_calls import SHUTDOWN_SECONDS, HookCalls

    def note(why: str) -> None:
        log.warning("a hook sidecar was not told of the end", extra={"facts": {"why": why}})

    HookCalls(options, SHUTDOWN_SECONDS).shutdown(note)


def _note_container(milestones: Milestones) -> None:
    """The container started when its first process did, the monitor; the kernel knows when."""
    monitor = os.environ.get(MONITOR, "")
    with contextlib.suppress(OSError, ValueError):
        began = read_stat(int(monitor)).start_time / os.sysconf("SC_CLK_TCK")
        milestones.note(CONTAINER_STARTED, unix_ms() - int((time.clock_gettime(time.CLOCK_BOOTTIME) - began) * 1000))


def _await_word_taken(acknowledged: threading.Event, bell: StopBell) -> None:
    """Stay, although the guest has left, until that is written down; a Pod that is to go does not wait for it."""
    deadline = time.monotonic() + LEFT_SECONDS
    while not bell.is_asked and time.monotonic() < deadline:
        if acknowledged.wait(_LOOK_SECONDS):
            return


def _end_with(failure: threading.ExceptHookArgs) -> None:
    """A thread that fails takes the launcher with it: the monitor starts another one, which finds the guest again."""
    name = failure.thread.name if failure.thread is not None else "?"
    cause = (failure.exc_type, failure.exc_value or failure.exc_type(), failure.exc_traceback)
    log.critical("a thread failed", exc_info=cause, extra={"facts": {"thread": name}})
    os._exit(70)

"""PID 1 of a launcher Pod: starts the launcher, reaps orphans, forwards signals, and knows when all is over.

Run by `kvedge launcher --monitor`. As PID 1 it must reap: each QEMU that libvirt starts to probe its abilities becomes
an orphan, and libvirt waits 30 seconds for one that stays a zombie.

It lives beside every guest of the node, so it is kept small. The launcher is forked before anything heavy is loaded,
and then the monitor replaces itself by a bare interpreter that has this file and nothing else: measured with Python
3.11, 2.7 MB instead of 5.4. Therefore this file imports only what is built into the interpreter, and is handed the
launcher's function.

A launcher that was killed has left QEMU running; a new one finds the domain again within milliseconds. So it is started
anew, a bounded number of times. It is the launcher that judges what it finds: a domain that ended is never started
again.
"""

from __future__ import annotations

# The public module costs another 0.8 MB for its enumerations; these are the same functions.
import _signal  # type: ignore[import-not-found]  # typeshed has the public one only
import gc
import os
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from kvedge.launcher.launcher_options import LauncherOptions

# A launcher that dies more often than this in the time below will not get better.
RESTARTS = 5
RESTARTS_SECONDS = 300.0
# The pause before the first restart; it doubles with each that follows.
PAUSE_SECONDS = 0.05
# How long QEMU may take after SIGTERM, to flush its disks.
QEMU_SECONDS = 10.0
# A launcher's own verdicts; anything else, a signal above all, means that it did not end by itself.
SHUT_DOWN = 0
FAILED = 1
# Handed on to the launcher.
FORWARDED = (_signal.SIGTERM, _signal.SIGINT, _signal.SIGHUP, _signal.SIGQUIT)
WATCHED = (_signal.SIGCHLD, _signal.SIGUSR1, *FORWARDED)
# By this variable launchers know the monitor, and these files are what they say to each other, see device_holder.
MONITOR = "KVEDGE_MONITOR"
ORDERS = "devices"
ANSWERS = "devices-held"


def run_monitor(options: LauncherOptions, launcher: Callable[[LauncherOptions], int], *, bare: bool = False) -> int:
    """Run the launcher to its end; returns the Pod's exit code: 0 when the guest shut down, 1 when it failed.

    The forked child runs `launcher`, with SIGTERM and its like blocked until it unblocks them. With `bare` this does
    not return: the process becomes another program that exits with the code.
    """
    _signal.pthread_sigmask(_signal.SIG_BLOCK, WATCHED)
    if os.getpid() != 1:
        _become_subreaper()

    def start() -> int:
        return _fork(options, launcher)

    pid = start()
    if bare:
        _become_bare(pid, options)
    return Monitor(pid, start, options.final_path, keep=options.keep_after_failure).run()


def _fork(options: LauncherOptions, launcher: Callable[[LauncherOptions], int]) -> int:
    # The objects of now are never collected, so that a collection in the child copies none of the pages it shares with
    # us.
    gc.freeze()
    pid = os.fork()
    if pid:
        return pid
    # The child: nothing above this frame may run on, whatever happens.
    code = 70
    try:
        # The others stay blocked until the launcher can hear them: an early signal would only kill it.
        _signal.pthread_sigmask(_signal.SIG_UNBLOCK, (_signal.SIGCHLD, _signal.SIGUSR1))
        os.environ[MONITOR] = str(os.getppid())
        code = launcher(options)
    except BaseException:  # noqa: BLE001 - reported, and the exit code makes the monitor act on it
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _become_bare(pid: int, options: LauncherOptions) -> None:
    """Go on as a bare program; children, blocked signals and those that wait stay with the process."""
    # From here a new launcher is a new program, as nothing of kvedge is loaded any more.
    frozen = getattr(sys, "frozen", False)
    again = [sys.executable, *([] if frozen else ["-P", "-m", "kvedge"]), "launcher", *options.arguments()]
    keep = "keep" if options.keep_after_failure else ""
    # Isolated, without site-packages: modules that a virtual environment loads at every start cost the most memory.
    program = "import sys; sys.path.insert(0, sys.argv[1]); import monitor; sys.exit(monitor.resume(sys.argv[2:]))"
    here = os.path.dirname(os.path.abspath(__file__))
    # The built program is that bare from the beginning, see kvedge/__main__.py.
    resumed = ["monitor-resume"] if frozen else ["-I", "-S", "-c", program, here]
    bare = [sys.executable, *resumed, str(pid), options.final_path, keep, *again]
    try:
        os.execv(sys.executable, bare)
    except OSError as error:
        _say(f"the monitor stays as large as it is: {error}")


def resume(arguments: list[str]) -> int:
    """The monitor's second life; `arguments` are the launcher's PID, the path of its last word, `keep` or an empty
    text, and the command that starts another launcher.
    """
    _signal.pthread_sigmask(_signal.SIG_BLOCK, WATCHED)
    pid, final_path, keep, *again = arguments

    def start() -> int:
        child = os.fork()
        if child:
            return child
        try:
            _signal.pthread_sigmask(_signal.SIG_UNBLOCK, (_signal.SIGCHLD, _signal.SIGUSR1))
            os.environ[MONITOR] = str(os.getppid())
            os.execv(again[0], again)
        finally:
            os._exit(70)

    return Monitor(int(pid), start, final_path, keep=bool(keep)).run()


class Monitor:
    """Watches over the launcher `pid`; `start()` forks another one and returns its PID."""

    def __init__(self, pid: int, start: Callable[[], int], final_path: str, *, keep: bool) -> None:
        self._pid = pid
        self._start = start
        self._final_path = final_path
        self._keep = keep
        self._stopping = 0
        self._given_up = ""
        self._deaths: list[float] = []
        # Block devices that this Pod has for itself, by path: they stay so while a QEMU of it may live.
        self._held: dict[str, int] = {}

    def run(self) -> int:
        """Until the launcher is gone for good, and with it QEMU; the Pod's exit code."""
        code = self._watch()
        self._end_leftovers()
        for descriptor in self._held.values():
            os.close(descriptor)
        self._held = {}
        if self._given_up:
            # Only now: the handler reads it, and then the VM may be started elsewhere.
            self._write_last_word()
        if code != SHUT_DOWN and self._keep and not self._stopping:
            _say("the launcher failed; the Pod is kept until it is deleted, as its annotation asks")
            while _signal.sigwait(WATCHED) not in FORWARDED:
                _reap()
        return code

    def _watch(self) -> int:
        while True:
            # Before waiting: the launcher may have ended before anybody listened.
            status = _reap().get(self._pid)
            if status is None:
                caught = _signal.sigwait(WATCHED)
                if caught in FORWARDED:
                    self._stopping = caught
                    self._forward()
                elif caught == _signal.SIGUSR1:
                    self._hold_devices()
                continue
            code = os.waitstatus_to_exitcode(status)
            if code in (SHUT_DOWN, FAILED):
                return code
            if not self._restart(code):
                return FAILED

    def _hold_devices(self) -> None:
        """Open block devices for this Pod alone, or close them again, as a launcher asks."""
        directory = os.path.dirname(self._final_path)
        try:
            with open(f"{directory}/{ORDERS}") as file:
                token, *orders = file.read().split("\n")
            answers = [str(self._hold(order[0], order[1:])) for order in orders if order]
            staged = f"{directory}/{ANSWERS}.new"
            with open(staged, "w") as file:
                file.write("\n".join([token, *answers, *self._held]) + "\n")
            os.rename(staged, f"{directory}/{ANSWERS}")
        except OSError as error:
            _say(f"cannot answer for devices: {error}")

    def _hold(self, order: str, path: str) -> int:
        if order == "-":
            if path in self._held:
                os.close(self._held.pop(path))
            return 0
        if path in self._held:
            return 0
        try:
            # The kernel gives a block device to one exclusive opener, in all of the host.
            self._held[path] = os.open(path, os.O_RDONLY | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError as error:
            return error.errno or -1
        return 0

    def _forward(self) -> None:
        try:
            os.kill(self._pid, self._stopping)
        except ProcessLookupError:
            # It is gone already: the SIGCHLD that says so is waiting.
            return

    def _restart(self, code: int) -> bool:
        now = time.monotonic()
        self._deaths = [moment for moment in self._deaths if now - moment < RESTARTS_SECONDS] + [now]
        if len(self._deaths) > RESTARTS:
            self._given_up = f"the launcher died {len(self._deaths)} times, last with {_name_of(code)}"
            _say(f"{self._given_up}: giving up")
            return False
        _say(f"the launcher died with {_name_of(code)}: starting it again")
        time.sleep(PAUSE_SECONDS * 2 ** (len(self._deaths) - 1))
        self._pid = self._start()
        if self._stopping:
            self._forward()
        return True

    def _write_last_word(self) -> None:
        """For the handler, when no launcher could."""
        start = '{"state": "DOMAIN_STATE_CRASHED", "reason": "DOMAIN_REASON_CRASHED", "message": "'
        word = f'{start}{self._given_up}"}}\n'
        staged = self._final_path + ".new"
        try:
            with open(staged, "w") as file:
                file.write(word)
            os.rename(staged, self._final_path)
        except OSError as error:
            _say(f"cannot write {self._final_path}: {error}")

    def _end_leftovers(self) -> None:
        """QEMU, and whatever else is still a child of ours: asked, then killed."""
        for name, number in (("SIGTERM", _signal.SIGTERM), ("SIGKILL", _signal.SIGKILL)):
            deadline = time.monotonic() + QEMU_SECONDS
            asked: set[int] = set()
            while left := _find_children():
                for pid in left - asked:
                    _say(f"sending {name} to process {pid}, left by the launcher")
                    os.kill(pid, number)
                asked |= left
                pause = deadline - time.monotonic()
                if pause <= 0:
                    break
                _signal.sigtimedwait((_signal.SIGCHLD,), pause)
                _reap()


def _reap() -> dict[int, int]:
    """Collect all children that have ended: exit statuses by process."""
    ended: dict[int, int] = {}
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return ended
        if not pid:
            return ended
        ended[pid] = status


def _find_children() -> set[int]:
    """Our children that are alive, found in /proc."""
    found = set()
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                # runtime.linux.process_stat reads more of this line. The monitor does without it: it keeps no module
                # beside itself, and imports none at a run's end, when an upgrade may have replaced the files.
                # The command in brackets may hold anything.
                state, parent = file.read().rpartition(b")")[2].split()[:2]
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(parent) == os.getpid() and state != b"Z":
            found.add(int(name))
    return found


def _become_subreaper() -> None:
    """Outside a PID namespace of its own, orphans come to us all the same; an exec keeps that."""
    # Not needed in a Pod, where this is PID 1; ctypes, which this brings, costs a megabyte.
    from kvedge.runtime.linux.privileges import become_subreaper

    become_subreaper()


def _name_of(code: int) -> str:
    return f"signal {-code}" if code < 0 else f"exit code {code}"


def _say(text: str) -> None:
    os.write(2, f'level=warning logger=launcher.monitor msg="{text}"\n'.encode())

"""libvirt's daemon for the time of a migration: an embedded libvirt has no socket for the one that it leaves to call.

Started and stopped by `incoming_process`. It is the host's `libvirtd`, as the launcher's user, and keeps its files
where the embedded libvirt has them, so that this one finds the guest afterwards. The daemon's own paths are links to
there; the guest's status names its monitor by them, so they stay.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import socket
import subprocess
import time
import uuid
from typing import Final

from kvedge.launcher.launcher_errors import Unanswered, WrongState
from kvedge.launcher.launcher_options import LauncherOptions
from kvedge.resources.migration_channels import CONTROL

log = logging.getLogger(__name__)

PROGRAM: Final = "/usr/sbin/libvirtd"
# A busy box took one second.
START_SECONDS: Final = 30.0
_STOP_SECONDS: Final = 10.0
_POLL_SECONDS: Final = 0.02
# The daemon's place for a thing, below its XDG directories, and the embedded libvirt's below its root.
_LINKS: Final = (
    ("config/libvirt", "etc"),
    ("run/libvirt/qemu/run", "run/qemu"),
    ("cache/libvirt/qemu/log", "log/qemu"),
    ("cache/libvirt/qemu/cache", "cache/qemu"),
)


class IncomingDaemon:
    """The daemon of one Pod; used by one thread at a time."""

    def __init__(self, options: LauncherOptions, program: str = PROGRAM) -> None:
        self._options = options
        self._program = program
        self._root = options.libvirt_root
        self._place = f"{options.libvirt_root}/daemon"
        self._pid_path = f"{self._place}/pid"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def socket(self) -> str:
        """Where it listens."""
        return f"{self._options.migration_directory}/{CONTROL}"

    def start(self) -> None:
        """Start it, unless one runs that a launcher before this one has started; returns when it listens.

        Raises:
            WrongState: when this node has no such program.
            Unanswered: when it ends, or does not listen in time.
        """
        if not self.is_alive():
            self._begin()
        deadline = time.monotonic() + START_SECONDS
        while not self._listens():
            if not self.is_alive():
                raise Unanswered(f"{self._program} has ended, see {self._root}/log/libvirtd.log")
            if time.monotonic() > deadline:
                self.stop()
                raise Unanswered(f"{self._program} does not listen after {START_SECONDS:.0f} s")
            time.sleep(_POLL_SECONDS)

    def _begin(self) -> None:
        if not os.path.exists(self._program):
            raise WrongState(f"this node has no {self._program}, to which guests move; install libvirt-daemon-system")
        self._prepare()
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.socket)
        command = [self._program, "--config", self._config_path, "--pid-file", self._pid_path]
        with open(f"{self._root}/log/libvirtd.log", "ab") as output:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=self._environment()
            )

    def _listens(self) -> bool:
        """Whether it takes calls: its socket is there a while before, and refuses them."""
        with socket.socket(socket.AF_UNIX) as client, contextlib.ExitStack() as stack:
            try:
                folder = os.open(self._options.migration_directory, os.O_PATH | os.O_CLOEXEC)
                stack.callback(os.close, folder)
                # The path may be longer than a socket's name.
                client.connect(f"/proc/self/fd/{folder}/{CONTROL}")
            except (FileNotFoundError, ConnectionRefusedError):
                return False
        return True

    def is_alive(self) -> bool:
        """Whether it runs, whoever started it."""
        if self._process is not None:
            return self._process.poll() is None
        return self._find() > 0

    def stop(self) -> None:
        """End it; the guest goes on. Another launcher's, too."""
        pid = self._process.pid if self._process is not None else self._find()
        for number in (signal.SIGTERM, signal.SIGKILL):
            if not pid or not self.is_alive():
                break
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
            deadline = time.monotonic() + _STOP_SECONDS
            while self.is_alive() and time.monotonic() < deadline:
                time.sleep(_POLL_SECONDS)
        self._process = None

    @property
    def _config_path(self) -> str:
        return f"{self._place}/libvirtd.conf"

    def _prepare(self) -> None:
        for link, place in _LINKS:
            _link(f"{self._place}/{link}", f"{self._root}/{place}")
        _link(f"{self._root}/etc/qemu/lib", f"{self._root}/lib/qemu")
        # Where the state of a TPM is linked to its claim.
        _link(f"{self._root}/etc/qemu/swtpm", f"{self._root}/lib/swtpm")
        os.makedirs(self._options.migration_directory, mode=0o700, exist_ok=True)
        settings = [
            # Both sides refuse when their hosts have one UUID, as boards of one batch do.
            f'host_uuid = "{uuid.uuid4()}"',
            "listen_tls = 0",
            "listen_tcp = 0",
            f'unix_sock_dir = "{self._options.migration_directory}"',
            'auth_unix_rw = "none"',
        ]
        with open(self._config_path, "w") as file:
            file.write("".join(f"{line}\n" for line in settings))

    def _environment(self) -> dict[str, str]:
        places = {
            "XDG_CONFIG_HOME": f"{self._place}/config",
            "XDG_RUNTIME_DIR": f"{self._place}/run",
            "XDG_CACHE_HOME": f"{self._place}/cache",
            "XDG_DATA_HOME": f"{self._place}/data",
        }
        return {**os.environ, **places}

    def _find(self) -> int:
        """The process that a launcher before this one started; 0 when there is none."""
        try:
            with open(self._pid_path) as file:
                pid = int(file.read(16))
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                found = self._config_path.encode() in file.read(8192).split(b"\0")
        except (OSError, ValueError):
            return 0
        return pid if found else 0


def _link(link: str, target: str) -> None:
    os.makedirs(target, mode=0o700, exist_ok=True)
    os.makedirs(os.path.dirname(link), mode=0o700, exist_ok=True)
    if not os.path.lexists(link):
        os.symlink(target, link)

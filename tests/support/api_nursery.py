"""Embedded API servers in processes of their own, born quickly: a parent has everything imported and forks them."""

from __future__ import annotations

import contextlib
import os
import signal
import ssl
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

from kvedge.standalone.apiserver.access.pki import Authority, Subject
from tests.support.api_client import ApiClient
from tests.support.raw_http import RawHttp
from tests.support.waiting import wait_until

_PROGRAM = """
import os, signal, sys
from pathlib import Path
import kvedge.standalone.apiserver.routes.openapi_manifest
from kvedge.standalone.apiserver.api_server import ApiServerConfig, EmbeddedApi
from kvedge.standalone.apiserver.access.pki import Subject

def serve(directory):
    api = EmbeddedApi(ApiServerConfig(directory, port=0, node_name="box"))
    api.start()
    pem = directory / "client.pem"
    if not pem.exists():
        pair = api.pki.clients.issue_client(Subject("admin", ("system:masters",)))
        pem.write_bytes(pair.certificate + pair.key)
    os.write(1, f"{os.getpid()} {api.address}\\n".encode())
    signal.pause()

signal.signal(signal.SIGCHLD, signal.SIG_IGN)
signal.signal(signal.SIGTERM, signal.SIG_DFL)
while line := sys.stdin.buffer.raw.readline():
    if os.fork() == 0:
        serve(Path(line.decode().strip()))
        os._exit(0)
"""


@dataclass(frozen=True)
class ApiProcess:
    """A running server."""

    pid: int
    url: str
    directory: Path

    @property
    def database(self) -> Path:
        return self.directory / "state" / "kvedge.db"

    def context(self, certificate: bool = True) -> ssl.SSLContext:
        """The TLS side of the administrator, or of nobody."""
        context = ssl.create_default_context(cafile=str(self.directory / "state" / "pki" / "server-ca.crt"))
        if certificate:
            context.load_cert_chain(self.directory / "client.pem")
        return context

    def client(self) -> ApiClient:
        """The administrator."""
        return ApiClient(self.url, self.context())

    def raw(self, certificate: bool = True) -> RawHttp:
        """The administrator, or nobody, byte by byte."""
        return RawHttp(self.url, self.context(certificate))

    def raw_of(self, user: str) -> RawHttp:
        """Another administrator, byte by byte."""
        pem = self.directory / f"client-{user}.pem"
        if not pem.exists():
            pair = Authority(self.directory / "state" / "pki", "client-ca").issue_client(
                Subject(user, ("system:masters",))
            )
            pem.write_bytes(pair.certificate + pair.key)
        context = self.context(certificate=False)
        context.load_cert_chain(pem)
        return RawHttp(self.url, context)

    def kill(self) -> None:
        """kill -9, and wait until it is gone and its lock with it."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        wait_until(lambda: not psutil.pid_exists(self.pid), "the server is gone", pause=0.002)

    def memory(self) -> int:
        """Resident bytes."""
        return int(psutil.Process(self.pid).memory_info().rss)

    def cpu_seconds(self) -> float:
        """User and system time so far."""
        times = psutil.Process(self.pid).cpu_times()
        return float(times.user + times.system)

    def descriptors(self) -> int:
        """Open files and sockets."""
        return int(psutil.Process(self.pid).num_fds())


class ApiNursery:
    """The parent. Servers that still run are killed at the end."""

    def __init__(self) -> None:
        self._parent = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ}
        )
        self._born: list[ApiProcess] = []

    def start(self, directory: Path) -> ApiProcess:
        """A server on this data directory, once it serves."""
        assert self._parent.stdin is not None
        assert self._parent.stdout is not None
        self._parent.stdin.write(f"{directory}\n".encode())
        self._parent.stdin.flush()
        words = self._parent.stdout.readline().split()
        assert len(words) == 2, "the server did not start"
        process = ApiProcess(int(words[0]), words[1].decode(), directory)
        self._born.append(process)
        return process

    def close(self) -> None:
        """End all of them."""
        for process in self._born:
            if psutil.pid_exists(process.pid):
                process.kill()
        assert self._parent.stdin is not None
        assert self._parent.stdout is not None
        self._parent.stdin.close()
        self._parent.wait(10)
        self._parent.stdout.close()


@contextlib.contextmanager
def nursery() -> Iterator[ApiNursery]:
    """A nursery for a while."""
    made = ApiNursery()
    try:
        yield made
    finally:
        made.close()

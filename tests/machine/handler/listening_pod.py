"""What runs in a Pod in the place of a launcher: it answers as one, and its listener is who the test wants.

A program of its own, run in a Pod's namespaces as the launcher's user: `PATH UID` of the socket and the VMI, and `dead`
to have a child call listen(2) on the socket once more, and end.
"""

from __future__ import annotations

import os
import socket
import stat
import subprocess
import sys
import threading
from concurrent import futures
from typing import Any

import grpc

from kvedge.rpc import launcher_pb2, launcher_pb2_grpc
from kvedge.rpc.launcher_pb2 import DOMAIN_STATE_ABSENT

_LISTEN = "import os, socket, sys; socket.socket(fileno=int(sys.argv[1])).listen(16); print(os.getpid())"


class _Launcher(launcher_pb2_grpc.LauncherServicer):  # type: ignore[misc]  # generated
    def __init__(self, uid: str) -> None:
        self._uid = uid

    def Ping(self, request: Any, context: Any) -> Any:
        return launcher_pb2.PingReply(protocol=1, vmi_uid=self._uid)

    def WatchDomain(self, request: Any, context: Any) -> Any:
        yield launcher_pb2.DomainStatus(sequence=1, state=DOMAIN_STATE_ABSENT)
        ended = threading.Event()
        context.add_callback(ended.set)
        ended.wait()


def listening_descriptor(path: str) -> int:
    """This process's descriptor of the socket that is bound to a path."""
    for number in map(int, os.listdir("/proc/self/fd")):
        try:
            if not stat.S_ISSOCK(os.fstat(number).st_mode):
                continue
        except OSError:
            continue
        with socket.socket(fileno=os.dup(number)) as found:
            if found.family == socket.AF_UNIX and found.getsockname() == path:
                return number
    raise LookupError(path)


def main(path: str, uid: str, dead: bool) -> None:
    """Serve until killed."""
    server = grpc.server(futures.ThreadPoolExecutor(4))
    launcher_pb2_grpc.add_LauncherServicer_to_server(_Launcher(uid), server)  # type: ignore[no-untyped-call]
    server.add_insecure_port(f"unix:{path}.made")
    server.start()
    if dead:
        number = listening_descriptor(f"{path}.made")
        subprocess.run([sys.executable, "-c", _LISTEN, str(number)], pass_fds=[number], check=True)
    # Under its name only when all is as the test wants it.
    os.rename(f"{path}.made", path)
    server.wait_for_termination()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:] == ["dead"])

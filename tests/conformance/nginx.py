"""The distribution's nginx, unpacked and not installed, with what its caller has it serve.

Called by the door that speaks HTTP/2 and by the file host of CDI's tests. Touches one directory and the tests' cache.
"""

from __future__ import annotations

import contextlib
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.support.unpacked_packages import unpack_packages
from tests.support.waiting import wait_until

_PACKAGE: Final = "nginx"
# What is served may lie where root alone may look; who is not root is warned that this means nothing.
_CONFIGURATION: Final = """\
daemon off;
worker_processes 1;
user root;
pid {directory}/pid;
error_log stderr warn;
events {{ worker_connections 4096; }}
http {{
    {temporary}
{http}}}
"""
_TEMPORARY: Final = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")


@contextlib.contextmanager
def running_nginx(directory: Path, http: str, host: str, port: int) -> Iterator[None]:
    """It serves by these lines of its block `http` until the end of the context, at `port` of `host` among others.

    Its own files and its log are in `directory`, which is there.
    """
    configuration, log_file = directory / "nginx.conf", directory / "nginx.log"
    temporary = "\n    ".join(f"{name}_temp_path {directory}/{name};" for name in _TEMPORARY)
    configuration.write_text(_CONFIGURATION.format(directory=directory, temporary=temporary, http=http))
    with log_file.open("wb") as log:
        program = str(unpack_packages(_PACKAGE, _PACKAGE) / "usr/sbin/nginx")
        command = [program, "-c", str(configuration), "-p", str(directory), "-e", "stderr"]
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        wait_until(lambda: process.poll() is not None or _listens(host, port), "nginx listens", 30)
        assert process.poll() is None, log_file.read_text()
        yield
    finally:
        process.terminate()
        process.wait(30)


def _listens(host: str, port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((host, port)) == 0

"""A small guest that is asked over both IP versions, and asks back; and a server that says whom it sees.

Used by the tests that carry both versions through a binding, on one box and on a real kubelet. The guest takes its way
out of IPv6 from the router's advertisements, as the kernel does it; its busybox has no client of DHCPv6, so its address
is told by the test.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from typing import Final

from tests.support.waiting import wait_until

# Root's commands by HTTP, from the guest's own page server, which listens to both versions.
USER_DATA: Final = r"""#!/bin/sh
mkdir -p /www/cgi-bin
cat >/www/cgi-bin/run <<'END'
#!/bin/sh
printf 'Content-Type: text/plain\r\n\r\n'
exec sh 2>&1
END
chmod 755 /www/cgi-bin/run
"""
# Answers each request with the client's address; on all addresses of both versions.
SERVER: Final = """
import http.server, socket, sys

class Seen(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        seen = self.client_address[0].removeprefix("::ffff:").encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(seen)))
        self.end_headers()
        self.wfile.write(seen)

    def log_message(self, *words):
        pass

class Server(http.server.ThreadingHTTPServer):
    address_family = socket.AF_INET6

Server(("::", int(sys.argv[1])), Seen).serve_forever()
"""
Runner = Callable[..., str]


def server_command(port: int) -> list[str]:
    """The argv of the server that says whom it sees."""
    return [sys.executable, "-c", SERVER, str(port)]


def url(address: str, port: int = 80, path: str = "/") -> str:
    """Of either version."""
    host = f"[{address}]" if ":" in address else address
    return f"http://{host}:{port}{path}"


def fetch(run: Runner, address: str, *more: str, port: int = 80, path: str = "/") -> str:
    """What a server answers, asked by curl where `run` runs; or nothing."""
    command = ["curl", "-s", "-g", "--noproxy", "*", "--max-time", "10", *more, url(address, port, path)]
    return run(*command)


def in_guest(run: Runner, address: str, command: str) -> str:
    """What a command prints in the guest that answers at this address."""
    # Commands have limits of their own; the last one that curl is given holds.
    return fetch(run, address, "--max-time", "40", "--data-binary", command, path="/cgi-bin/run")


def give_address(run: Runner, asked_at: str, address: str) -> None:
    """An IPv6 address for the guest's first NIC, as DHCPv6 would give it, once its router has told of itself."""
    wait_until(
        lambda: "default via fe80::" in in_guest(run, asked_at, "ip -6 route"), "a router's advertisement", 60, 0.3
    )
    in_guest(run, asked_at, f"echo 0 >/proc/sys/net/ipv6/conf/eth0/accept_dad; ip -6 addr add {address}/128 dev eth0")


def seen_from_guest(run: Runner, asked_at: str, server: str, port: int) -> str:
    """As whom the server sees the guest; its static busybox has a wget that fails at looking up a protocol's port."""
    asked = in_guest(run, asked_at, f"printf 'GET / HTTP/1.0\\r\\n\\r\\n' | nc -w 10 {server} {port}")
    length = re.search(r"^Content-Length: (\d+)", asked, re.MULTILINE)
    # As clients of HTTP read it: Debian 12's passt has been seen to send an answer's last bytes twice on a busy host.
    return asked.splitlines()[-1][: int(length[1])] if length else ""


def run_here(*command: str) -> str:
    """On this machine."""
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60).stdout

"""The host finds the box's names by a real systemd-resolved: told by resolvectl, after its restart, and no longer."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from kvedge.network.links import Links
from kvedge.standalone.names.host_names import HostNames, ResolvedError
from kvedge.standalone.names.name_server import NameServer
from kvedge.standalone.names.name_table import NameTable
from kvedge.standalone.names.other_servers import OtherServers
from tests.machine.network.own_host import on_a_host_of_its_own
from tests.support.unpacked_packages import unpack_packages
from tests.support.waiting import wait_until

_LIBRARY = Path("/lib/x86_64-linux-gnu/systemd")
_LACKS = [] if shutil.which("dbus-daemon") else ["dbus-daemon"]
_LACKS += [] if list(_LIBRARY.glob("libsystemd-shared-*.so")) else [f"libsystemd-shared below {_LIBRARY}"]
pytestmark = [
    pytest.mark.machine,
    pytest.mark.timeout(300),
    pytest.mark.skipif(bool(_LACKS), reason=f"needs {', '.join(_LACKS)}"),
]

BRIDGE, ADDRESS, PODS = "kvnames0", "10.96.41.1", "10.96.41.0/24"
VM = "10.96.41.20"
NAME = "web.default.svc.cluster.local"
BUS = """<busconfig><type>system</type><listen>unix:path=/run/dbus/system_bus_socket</listen><auth>EXTERNAL</auth>
<policy context="default">
<allow send_destination="*" eavesdrop="true"/><allow eavesdrop="true"/><allow own="*"/><allow user="*"/>
</policy></busconfig>"""
# A host without a systemd of its own: the bus first, then the resolver, which knows no server.
HOST = """
set -e
mount -t tmpfs -o mode=755 tmpfs /run
mkdir /run/dbus /run/systemd
sed 's/^root:x:0:0:.*/&\\nsystemd-resolve:x:997:997::\\/:\\/bin\\/false/' /etc/passwd >/run/passwd
sed 's/^root:x:0:.*/&\\nsystemd-resolve:x:997:/' /etc/group >/run/group
: >/run/resolv.conf
for file in passwd group resolv.conf; do mount --bind /run/$file $(readlink -f /etc/$file); done
printf %s "$1" >/run/bus.conf
dbus-daemon --config-file=/run/bus.conf --nofork --nopidfile &
while ! [ -S /run/dbus/system_bus_socket ]; do sleep 0.1; done
shift
while :; do "$@" || true; sleep 0.2; done
"""


class ResolvingHost:
    """What runs in a mount and PID namespace of its own, beside the network of the test."""

    def __init__(self) -> None:
        self._unpacked = unpack_packages("systemd-resolved", "systemd-resolved")
        command = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", HOST, "sh", BUS]
        self._first = subprocess.Popen(
            [*command, str(self._unpacked / "lib/systemd/systemd-resolved")], stderr=subprocess.DEVNULL
        )
        self.socket = self._root() / "run/systemd/resolve/io.systemd.Resolve"

    def _root(self) -> Path:
        children = Path(f"/proc/{self._first.pid}/task/{self._first.pid}/children")
        pid = wait_until(lambda: children.read_text().split(), "the host's first process", 30)[0]
        return Path(f"/proc/{pid}/root")

    def resolvectl(self, arguments: Sequence[str]) -> str:
        """Run it there; its output."""
        enter = ["nsenter", "--target", self.socket.parts[2], "--mount", "--pid"]
        program = str(self._unpacked / "usr/bin/resolvectl")
        done = subprocess.run(
            [*enter, program, "--no-pager", *arguments], capture_output=True, text=True, timeout=60, check=False
        )
        if done.returncode != 0:
            raise ResolvedError(done.stderr)
        return done.stdout

    def finds(self, name: str) -> str:
        """What the host's own resolver says of a name, or why it says nothing."""
        try:
            return self.resolvectl(["query", "--legend=no", name])
        except ResolvedError as error:
            return str(error)

    def restart_resolver(self) -> None:
        """Another one comes in its place."""
        before = self.socket.stat().st_ino
        enter = ["nsenter", "--target", self.socket.parts[2], "--mount", "--pid"]
        subprocess.run([*enter, "pkill", "-x", "systemd-resolve"], check=True)
        wait_until(lambda: self._has_another(before), "another resolver", 60)

    def _has_another(self, before: int) -> bool:
        return self.socket.exists() and self.socket.stat().st_ino != before

    def end(self) -> None:
        """With all that runs in it."""
        self._first.kill()
        self._first.wait()


@pytest.fixture(autouse=True, scope="module")
def downloaded() -> None:
    """The resolver is in the cache before a test is on a host of its own, from which nothing can be reached."""
    unpack_packages("systemd-resolved", "systemd-resolved")


@contextmanager
def resolving_host() -> Iterator[ResolvingHost]:
    host = ResolvingHost()
    try:
        wait_until(host.socket.exists, "the resolver runs", 60)
        yield host
    finally:
        host.end()


@contextmanager
def name_server() -> Iterator[NameServer]:
    """The box's, on its node bridge."""
    with Links() as links:
        links.add(BRIDGE, "bridge")
        links.add_address(BRIDGE, ADDRESS, 24)
        links.set(BRIDGE, state="up")
        # A Pod's: a resolver asks at no link without a carrier.
        links.add("kvnames1", "veth", peer="kvnames2")
        links.enslave("kvnames1", BRIDGE)
        for end in ("kvnames1", "kvnames2"):
            links.set(end, state="up")
    server = NameServer(ADDRESS, PODS, OtherServers(str))
    server.start()
    server.know(lambda: NameTable(services={}, vms={("default", "web"): (VM,)}))
    try:
        yield server
    finally:
        server.stop()


@on_a_host_of_its_own
def test_a_vm_s_name_is_found_while_the_resolver_is_told_and_no_other_is_asked_for_here() -> None:
    with name_server(), resolving_host() as host:
        told: list[tuple[str, ...]] = []

        def run(arguments: Sequence[str]) -> None:
            told.append(tuple(arguments))
            host.resolvectl(arguments)

        names = HostNames(BRIDGE, ADDRESS, run, host.socket)
        assert VM not in host.finds(NAME)
        names.look()
        wait_until(lambda: VM in host.finds(NAME), "the VM's name is found", 30)
        assert host.resolvectl(["domain", BRIDGE]).strip().endswith(": ~cluster.local")
        assert "No appropriate name servers" in host.finds("www.example.org")
        before = len(told)
        host.restart_resolver()
        names.look()
        assert len(told) > before
        wait_until(lambda: VM in host.finds(NAME), "the next resolver finds it, too", 30)
        names.stop()
        assert VM not in host.finds(NAME)

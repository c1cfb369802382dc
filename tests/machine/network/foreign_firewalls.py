"""The distribution's ufw and firewalld, run for real in the network namespace that plays the host.

They are unpacked and not installed: their packages would put rules onto the machine that the tests run on. Each finds
its files where it expects them, in mounts of its own.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.support.unpacked_packages import unpack_packages
from tests.support.waiting import wait_until

_PACKAGES: Final = (
    "ufw",
    "firewalld",
    "python3-firewall",
    "python3-nftables",
    "python3-cap-ng",
    "python3-dbus",
    "python3-gi",
    "libgirepository-1.0-1",
    "gir1.2-glib-2.0",
    "dbus-daemon",
    "libdbus-1-3",
)
_BUS: Final = "/run/dbus/system_bus_socket"
_BUS_CONFIG: Final = f"""
<busconfig>
  <listen>unix:path={_BUS}</listen>
  <policy context="default">
    <allow user="*"/>
    <allow own="*"/>
    <allow send_destination="*"/>
    <allow receive_sender="*"/>
  </policy>
</busconfig>
"""
# What either writes goes to a file system in memory. ufw's own files are templates of its package.
_MOUNTS: Final = """
set -e
tree=$1
mount -t tmpfs none /run
mkdir -p /run/dbus /run/etc /run/work
mount -t overlay overlay -o "lowerdir=$tree/lib:$tree/usr/lib:/usr/lib" /usr/lib
mount -t overlay overlay -o "lowerdir=$tree/usr/share:/usr/share" /usr/share
mount -t overlay overlay -o "lowerdir=$tree/etc:/etc,upperdir=/run/etc,workdir=/run/work" /etc
cp /usr/share/ufw/iptables/*.rules /usr/share/ufw/*.init /usr/share/ufw/ufw.conf /etc/ufw/
echo ready
exec cat
"""


def unpack_firewalls() -> Path:
    """Their file tree; it is downloaded at the first call, which a namespace without a network cannot be."""
    return unpack_packages("firewalls", *_PACKAGES)


class Mounts:
    """Where a firewall's programs find what they need; they work on the network of whoever calls."""

    def __init__(self) -> None:
        self._tree = unpack_firewalls()
        command = ["unshare", "--mount", "sh", "-c", _MOUNTS, "sh", str(self._tree)]
        self._holder = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._holder.stdout is not None
        assert self._holder.stdout.readline() == "ready\n"

    def close(self) -> None:
        """Take them away."""
        self._holder.communicate()

    def path(self, name: str) -> Path:
        """A file there, as seen from here."""
        return Path(f"/proc/{self._holder.pid}/root{name}")

    def command(self, program: str, *arguments: str) -> list[str]:
        """The argv of one of the packages' programs."""
        python = ["/usr/bin/python3"] if program != "bin/dbus-daemon" else []
        settings = [
            f"PYTHONPATH={self._tree}/usr/lib/python3/dist-packages",
            f"DBUS_SYSTEM_BUS_ADDRESS=unix:path={_BUS}",
        ]
        inside = ["nsenter", "-t", str(self._holder.pid), "-m", "--", "env", *settings]
        return [*inside, *python, str(self._tree / "usr" / program), *arguments]

    def run(self, program: str, *arguments: str) -> str:
        """What one of them says."""
        done = subprocess.run(
            self.command(program, *arguments), capture_output=True, text=True, check=False, timeout=60
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def answers(self, program: str, *arguments: str) -> bool:
        """Whether one of them is content."""
        command = self.command(program, *arguments)
        return subprocess.run(command, capture_output=True, check=False, timeout=60).returncode == 0


@contextmanager
def ufw() -> Iterator[Mounts]:
    """ufw, enabled; its rules go with the namespace."""
    mounts = Mounts()
    try:
        mounts.run("sbin/ufw", "--force", "enable")
        yield mounts
    finally:
        mounts.close()


@contextmanager
def firewalld(directory: Path) -> Iterator[Mounts]:
    """firewalld, running, on a bus of its own."""
    mounts = Mounts()
    config = directory / "bus"
    config.write_text(_BUS_CONFIG)
    started: list[subprocess.Popen[bytes]] = []

    def start(program: str, *arguments: str) -> None:
        with (directory / f"{Path(program).name}.log").open("wb") as log:
            started.append(subprocess.Popen(mounts.command(program, *arguments), stdout=log, stderr=log))

    try:
        start("bin/dbus-daemon", f"--config-file={config}", "--nofork")
        wait_until(mounts.path(_BUS).exists, "the bus", 20)
        start("sbin/firewalld", "--nofork", "--nopid")
        wait_until(lambda: mounts.answers("bin/firewall-cmd", "--state"), "firewalld", 60, 0.2)
        yield mounts
    finally:
        for process in reversed(started):
            process.terminate()
            process.wait(30)
        mounts.close()

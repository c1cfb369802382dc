"""Real DHCP clients, run in the namespace that stands in for the guest.

Each returns what it was told, in its own words. A client that is not installed is said, with its package.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.support.pod_world import PodWorld
from tests.support.waiting import wait_until

# Writes what it is told, one file per call, and configures address and routes as a distribution's script does.
SCRIPT = """#!/bin/sh
reason=${reason:-$1}
count=$(ls %(out)s | grep -c told)
env > %(out)s/unfinished
address=${new_ip_address:-$ip}
case $reason in bound|renew|BOUND|RENEW|REBOOT|REBIND)
  ip addr replace $address/${mask:-%(length)s} dev eth0
  set -- $staticroutes
  while [ $# -ge 2 ]; do
    if [ $2 = 0.0.0.0 ]; then ip route replace $1 dev eth0; else ip route replace $1 via $2 dev eth0 onlink; fi
    shift 2
  done ;;
esac
# Told once it is done.
mv %(out)s/unfinished %(out)s/told.$(printf %%03d $count).$reason
"""
DHCLIENT_CONFIG = """
option rfc3442-classless-static-routes code 121 = array of unsigned integer 8;
option private-first code 224 = text;
request subnet-mask, broadcast-address, routers, domain-name, domain-name-servers, domain-search, host-name,
  interface-mtu, ntp-servers, rfc3442-classless-static-routes, private-first;
timeout 25;
retry 2;
initial-interval 1;
"""


def needs(program: str, package: str) -> str:
    """Where the program is; the test is skipped, and says what to install, when it is not."""
    found = shutil.which(program) or shutil.which(program, path="/usr/sbin:/sbin:/lib/systemd")
    if found is None:
        pytest.skip(f"{program} is not here: install {package}")
    return found


class ClientFiles:
    """Where a client's script writes, and what it wrote."""

    def __init__(self, directory: Path) -> None:
        self.out = directory / "told"
        self.out.mkdir(parents=True)
        self.script = directory / "script"
        self.script.write_text(SCRIPT % {"out": self.out, "length": 24})
        self.script.chmod(0o755)

    def told(self) -> list[tuple[str, dict[str, str]]]:
        """(reason, variables) of each call of the script so far."""
        found = []
        for name in sorted(name for name in os.listdir(self.out) if name.startswith("told")):
            lines = (self.out / name).read_text().splitlines()
            found.append((name.rsplit(".", 1)[1], dict(line.split("=", 1) for line in lines if "=" in line)))
        return found

    def reasons(self) -> list[str]:
        """The reasons alone."""
        return [reason for reason, _ in self.told()]

    def last(self, *reasons: str) -> dict[str, str]:
        """What was told with the last call for one of these reasons; waits for one."""
        wait_until(lambda: set(self.reasons()) & set(reasons), f"a client that says one of {reasons}")
        return [told for reason, told in self.told() if reason in reasons][-1]


@contextmanager
def udhcpc(world: PodWorld, files: ClientFiles) -> Iterator[subprocess.Popen[bytes]]:
    """busybox's client, running until the end of the block: SIGUSR1 renews, SIGUSR2 releases."""
    options = [
        part for name in ("staticroutes", "mtu", "search", "ntpsrv", "tftp", "bootfile") for part in ("-O", name)
    ]
    command = [
        "busybox",
        "udhcpc",
        "-f",
        "-i",
        "eth0",
        "-t",
        "3",
        "-T",
        "1",
        "-A",
        "1",
        "-s",
        str(files.script),
        *options,
    ]
    client = world.in_guest(lambda: subprocess.Popen(command, stderr=subprocess.DEVNULL))
    try:
        yield client
    finally:
        client.terminate()
        client.wait(10)


def udhcpc_once(world: PodWorld, files: ClientFiles) -> bool:
    """Whether busybox's client gets any lease in three tries."""
    command = ["busybox", "udhcpc", "-f", "-n", "-q", "-i", "eth0", "-t", "3", "-T", "1", "-s", str(files.script)]
    return world.in_guest(lambda: subprocess.run(command, stderr=subprocess.DEVNULL, check=False)).returncode == 0


@contextmanager
def background_client(pid_file: Path, end: Callable[[], object]) -> Iterator[None]:
    """A client that goes to the background within, and is ended at the end, also where what it was told is wrong."""
    pid_file.unlink(missing_ok=True)
    try:
        yield
        # It may let its caller go a moment before it writes its number.
        wait_until(lambda: pid_file.exists() and pid_file.read_text().strip(), "the client's number")
    finally:
        if pid_file.exists():
            pid = int(pid_file.read_text())
            end()
            wait_until(lambda: not Path(f"/proc/{pid}/exe").exists(), "the client's end")


def call_client(world: PodWorld, command: list[str]) -> None:
    """Run a client until it ends or goes to the background.

    It has begun the process for the background before it asks for a lease. One that gets none in a minute is killed
    with that process, which would ask on for as long as the machine runs.
    """
    process = world.in_guest(
        lambda: subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True
        )
    )
    try:
        _, said = process.communicate(timeout=60)
    except BaseException:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        raise
    assert process.returncode == 0, said


class Dhclient:
    """ISC's client, with its lease file kept between calls: a second call is a reboot of the guest."""

    def __init__(self, world: PodWorld, directory: Path) -> None:
        self._program = needs("dhclient", "isc-dhcp-client")
        self._world = world
        self._directory = directory
        self.files = ClientFiles(directory)
        (directory / "conf").write_text(DHCLIENT_CONFIG)

    def run(self, *arguments: str) -> dict[str, str]:
        """Runs until it has a lease and goes to the background, ends it there; returns what it was told."""
        with background_client(self._directory / "pid", lambda: self._call("-x")):
            self._call("-1", "-v", *arguments)
            return self.files.last("BOUND", "REBOOT", "RENEW", "REBIND")

    def release(self) -> None:
        """Gives the lease back."""
        self._call("-r")

    def _call(self, *arguments: str) -> None:
        at = self._directory
        paths = [
            "-cf",
            str(at / "conf"),
            "-lf",
            str(at / "leases"),
            "-pf",
            str(at / "pid"),
            "-sf",
            str(self.files.script),
        ]
        call_client(self._world, [self._program, "-4", *arguments, *paths, "eth0"])


NETWORKD = """
set -e
mount -t tmpfs none /run/systemd
mkdir -p /run/systemd/network /run/systemd/netif/links /run/systemd/netif/leases
cp %(directory)s/eth0.network /run/systemd/network/
chown -R systemd-network /run/systemd/netif /run/systemd/network
# Without udev, as in a container: a read-only /sys tells networkd so.
mount -t sysfs -o ro none /sys
%(program)s 2> %(directory)s/log &
echo $! > %(directory)s/pid
for try in $(seq 500); do
  if ls /run/systemd/netif/leases/* > /dev/null 2>&1 && ip route show default | grep -q .; then break; fi
  sleep 0.1
done
ip -4 -o addr show eth0 > %(directory)s/addresses
ip route > %(directory)s/routes
cat /run/systemd/netif/leases/* > %(directory)s/lease || true
cat /sys/class/net/eth0/mtu > %(directory)s/mtu
kill $(cat %(directory)s/pid)
"""
NETWORK_FILE = """
[Match]
Name=eth0
[Network]
DHCP=ipv4
LinkLocalAddressing=no
[DHCPv4]
UseDomains=yes
UseMTU=yes
"""


def networkd(world: PodWorld, directory: Path) -> dict[str, str]:
    """systemd-networkd, kept to itself: `addresses`, `routes`, `lease` and `mtu` as it left them."""
    program = needs("systemd-networkd", "systemd")
    directory.mkdir(exist_ok=True)
    (directory / "eth0.network").write_text(NETWORK_FILE)
    script = NETWORKD % {"directory": directory, "program": program}
    command = ["unshare", "--mount", "--uts", "sh", "-c", script]
    done = world.in_guest(lambda: subprocess.run(command, capture_output=True, text=True, timeout=60, check=False))
    assert done.returncode == 0, done.stderr
    return {name: (directory / name).read_text() for name in ("addresses", "routes", "lease", "mtu")}

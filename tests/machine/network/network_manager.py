"""NetworkManager with its own DHCP client, run in the namespace that stands in for the guest.

It is unpacked and not installed: its package would have it manage the links of the machine that the tests run on. Its
bus is one of its own.
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Final

from tests.support.pod_world import PodWorld
from tests.support.unpacked_packages import unpack_packages

_PACKAGES: Final = (
    "network-manager",
    "libnm0",
    "libndp0",
    "libbluetooth3",
    "libmm-glib0",
    "libteamdctl0",
    "libnewt0.52",
    "dbus-daemon",
    "libdbus-1-3",
)
# Everything of this machine's that it would read or write is hidden below its own.
_SCRIPT: Final = """
set -e
mount -t tmpfs none /run
mkdir -p /run/NetworkManager/system-connections /run/conf /run/state /run/empty /run/dbus
cp %(directory)s/connection /run/NetworkManager/system-connections/eth0.nmconnection
chmod 600 /run/NetworkManager/system-connections/eth0.nmconnection
# Without udev, as in a container: a read-only /sys tells it so.
mount -t sysfs -o ro none /sys
export LD_LIBRARY_PATH=%(tree)s/usr/lib/x86_64-linux-gnu
%(tree)s/usr/bin/dbus-daemon --config-file=%(directory)s/bus --nofork 2> %(directory)s/bus.log &
bus=$!
trap 'kill $bus $manager' EXIT
for try in $(seq 400); do [ ! -S /run/dbus/system_bus_socket ] || break; sleep 0.05; done
%(tree)s/usr/sbin/NetworkManager --debug --no-daemon --config=%(directory)s/config --config-dir=/run/empty \
  --system-config-dir=/run/empty --intern-config=/run/conf/intern --state-file=/run/state/state \
  --log-level=DEBUG > %(directory)s/log 2>&1 &
manager=$!
for try in $(seq 500); do
  if %(done)s && grep -q nameserver /run/NetworkManager/resolv.conf 2> /dev/null; then break; fi
  sleep 0.1
done
ip -o addr show eth0 scope global > %(directory)s/addresses
ip route > %(directory)s/routes
ip -6 route > %(directory)s/routes6
cat /run/NetworkManager/resolv.conf > %(directory)s/names
cat /sys/class/net/eth0/mtu > %(directory)s/mtu
"""
# Whoever reaches it may say everything: nobody else is in there.
_BUS: Final = """
<busconfig>
  <listen>unix:path=/run/dbus/system_bus_socket</listen>
  <policy context="default">
    <allow user="*"/>
    <allow own="*"/>
    <allow send_destination="*"/>
    <allow receive_sender="*"/>
  </policy>
</busconfig>
"""
_CONFIG: Final = """
[main]
plugins=keyfile
dhcp=internal
rc-manager=unmanaged
"""
_CONNECTION: Final = """
[connection]
id=eth0
uuid=6f1c3ef6-9f8d-4b2e-9c8f-1d1f6f1f0001
type=ethernet
interface-name=eth0
wait-device-timeout=20000
[ipv4]
method={ipv4}
may-fail=false
[ipv6]
method={ipv6}
may-fail=false
addr-gen-mode=eui64
"""


def network_manager(world: PodWorld, directory: Path, version: int = 4) -> dict[str, str]:
    """`addresses`, `routes`, `routes6`, `names` and `mtu` as it left them."""
    tree = unpack_packages("network-manager", *_PACKAGES)
    directory.mkdir()
    methods = {f"ipv{each}": "auto" if each == version else "disabled" for each in (4, 6)}
    (directory / "bus").write_text(_BUS)
    (directory / "config").write_text(_CONFIG)
    (directory / "connection").write_text(_CONNECTION.format(**methods))
    script = _SCRIPT % {"directory": directory, "tree": tree, "done": f"ip -{version} route show default | grep -q via"}
    command = ["unshare", "--mount", "--uts", "sh", "-c", script]
    done = world.in_guest(lambda: subprocess.run(command, capture_output=True, text=True, timeout=90, check=False))
    log = directory / "log"
    assert done.returncode == 0, done.stderr + (log.read_text()[-4000:] if log.exists() else "")
    return {name: (directory / name).read_text() for name in ("addresses", "routes", "routes6", "names", "mtu")}

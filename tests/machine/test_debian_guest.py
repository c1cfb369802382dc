"""A real Debian as a guest: systemd-networkd, -resolved and cloud-init take what kvedge gives, by each binding.

Its boot takes 114 s of an emulated processor: it runs only where KVEDGE_TEST_DEBIAN is set.
"""

from __future__ import annotations

import copy
import os
import subprocess
from collections.abc import Iterator
from ipaddress import ip_address, ip_network
from typing import Final

import pytest
import yaml

from kvedge.resources.codec import JsonObject
from kvedge.resources.types.vmi import VirtualMachineInstance
from tests.support.box import Box, small_vm
from tests.support.debian_guest.guest_disk import build_debian_guest
from tests.support.family_guest import in_guest, run_here, server_command
from tests.support.ports import free_port
from tests.support.waiting import wait_until

pytestmark = [
    pytest.mark.machine,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(
        not os.environ.get("KVEDGE_TEST_DEBIAN"),
        reason="set KVEDGE_TEST_DEBIAN=1 to boot a real Debian (minutes of an emulated processor, 1.1 GB)",
    ),
]

IMAGE = "local/debian:12"
PODS, IPV6_PODS = "10.94.17.0/24", "fd94:17::/64"
BOOT_SECONDS = 1200.0
MAC = "02:aa:00:00:17:07"
# The NIC's name in the guest by its binding: one is given by network data, and one is the kernel's.
NICS: Final = {"masquerade": "uplink0", "bridge": "eth0"}
# Where the box's VMs have names.
ZONE: Final = "svc.cluster.local"
# What the guest is told to have; by a bridge it has its Pod's addresses.
OWN: Final = ("10.0.2.2/24", "fd10:0:2::2/128")
RUN = "#!/bin/sh\nprintf 'Content-Type: text/plain\\r\\n\\r\\n'\nexec sh 2>&1\n"
USER_DATA: Final = {
    "password": "fedora",
    "chpasswd": {"expire": False},
    "write_files": [{"path": "/srv/www/cgi-bin/run", "permissions": "0755", "content": RUN}],
    "runcmd": ["busybox httpd -p '[::]:80' -h /srv/www"],
}
NETWORK_DATA: Final = {
    "version": 2,
    "ethernets": {
        "any": {
            "match": {"macaddress": MAC},
            "set-name": NICS["masquerade"],
            "dhcp4": True,
            "dhcp6": True,
            # systemd-networkd takes no search domains of DHCP's, unless it is told to.
            "dhcp4-overrides": {"use-domains": True},
        },
    },
}


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Box]:
    """A box that has the Debian's image."""
    found = Box(tmp_path_factory.mktemp("box") / "data", f"{PODS},{IPV6_PODS}")
    found.data_dir.mkdir()
    found.import_image(build_debian_guest(), IMAGE)
    found.start()
    yield found
    found.remove()


def debian_vm(binding: str) -> JsonObject:
    vm = copy.deepcopy(small_vm(f"debian-{binding}", IMAGE))
    spec = vm["spec"]["template"]["spec"]
    spec["domain"]["memory"]["guest"] = "512Mi"
    seed = {"userData": f"#cloud-config\n{yaml.safe_dump(USER_DATA)}"}
    interface: JsonObject = {"name": "default", binding: {}}
    if binding == "masquerade":
        seed["networkData"] = yaml.safe_dump(NETWORK_DATA)
        interface["macAddress"] = MAC
    spec["domain"]["devices"]["interfaces"] = [interface]
    spec["domain"]["devices"]["disks"].append({"name": "seed", "disk": {"bus": "virtio"}})
    spec["volumes"].append({"name": "seed", "cloudInitNoCloud": seed})
    return vm


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    """Of a server on this machine that says whom it sees."""
    found = free_port()
    server = subprocess.Popen(server_command(found))
    yield found
    server.terminate()
    server.wait(10)


@pytest.mark.parametrize("binding", sorted(NICS))
def test_a_real_debian_is_given_its_addresses_names_and_network_data(box: Box, binding: str, port: int) -> None:
    name, nic = f"debian-{binding}", NICS[binding]
    box.apply(debian_vm(binding))
    vmi = box.wait_phase(name, "Running")
    ipv4, ipv6 = vmi.status.interfaces[0].ip_addresses
    assert (ip_address(ipv4) in ip_network(PODS), ip_address(ipv6) in ip_network(IPV6_PODS)) == (True, True)

    def ask(command: str) -> str:
        return in_guest(run_here, ipv4, command)

    wait_until(lambda: ask("cloud-init status").strip() == "status: done", "cloud-init is done", BOOT_SECONDS, 2.0)
    own = OWN if binding == "masquerade" else (f"{ipv4}/24", f"{ipv6}/128")
    addresses = ask(f"ip -o addr show dev {nic} scope global")
    assert [address in addresses for address in own] == [True, True], addresses
    assert " proto dhcp " in ask("ip route show default")
    assert " proto ra " in ask("ip -6 route show default")
    assert ask("hostname").strip() == name
    # The box's names, by the server that systemd-resolved was told of; names that end with local it asks of a server
    # only where a domain of the link's says so.
    if binding == "bridge":
        ask(f"resolvectl domain {nic} {ZONE}")
    assert ipv4 in ask(f"resolvectl query --legend=no {name}.default.{ZONE} 2>&1; resolvectl status {nic}")
    # Both ways, both versions.
    assert ask("echo heard") == in_guest(run_here, ipv6, "echo heard") == "heard\n"
    gateway = f"{PODS.rpartition('.')[0]}.1"
    assert ask(f"curl -s --max-time 20 http://{gateway}:{port}/") == ipv4
    check_status(box, name, nic)
    box.remove_vm(name)


def check_status(box: Box, name: str, nic: str) -> None:
    """What the agent says is in the status."""

    def told() -> VirtualMachineInstance | None:
        found = box.vmi(name)
        is_told = found is not None and "guest-agent" in found.status.interfaces[0].info_source
        return found if is_told and found.status.guest_os_info is not None else None

    found = wait_until(told, "the guest agent's word", 300, 1.0)
    assert found.status.guest_os_info is not None
    assert found.status.guest_os_info.id == "debian"
    (row,) = found.status.interfaces
    assert (row.name, row.interface_name, row.info_source) == ("default", nic, "domain, guest-agent")
    assert len(row.ip_addresses) >= 2

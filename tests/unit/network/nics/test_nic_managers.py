"""Who configures a NIC, told by what each program has written."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kvedge.network.nics.nic_managers import is_wireless, nic_manager


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A host on which nothing runs."""
    (tmp_path / "proc").mkdir()
    return tmp_path


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def run(root: Path, command: str, netns: str | None = None) -> None:
    """A process of that command line, in our network namespace unless another one is named."""
    folder = root / "proc/77"
    write(folder / "cmdline", command.replace(" ", "\0"))
    (folder / "ns").mkdir()
    (folder / "ns/net").symlink_to(netns or os.readlink("/proc/thread-self/ns/net"))


@pytest.mark.parametrize(
    ("path", "text", "name"),
    [
        ("run/NetworkManager/devices/2", "[device]\nmanaged=true\n", "NetworkManager"),
        ("run/systemd/netif/links/2", "ADMIN_STATE=configured\nNETWORK_FILE=/run/a.network\n", "systemd-networkd"),
        ("run/network/ifstate", "lo=lo\neth0=eth0\n", "ifupdown"),
    ],
    ids=["NetworkManager", "networkd", "ifupdown"],
)
def test_a_manager_is_known_by_its_file(root: Path, path: str, text: str, name: str) -> None:
    write(root / path, text)
    found = nic_manager("eth0", 2, root)
    assert found is not None
    assert found.name == name
    assert "br0" in found.remedy


def test_what_managers_leave_alone_nobody_manages(root: Path) -> None:
    write(root / "run/NetworkManager/devices/2", "[device]\nmanaged=false\n")
    write(root / "run/systemd/netif/links/2", "ADMIN_STATE=unmanaged\n")
    write(root / "run/network/ifstate", "eth00=eth00\n")
    assert nic_manager("eth0", 2, root) is None


@pytest.mark.parametrize(
    "command", ["/sbin/dhclient -v -pf /run/x.pid eth0", "/sbin/udhcpc -i eth0", "dhcpcd: eth0 [ip4]", "dhcpcd -q"]
)
def test_a_dhcp_client_of_the_nic_is_found(root: Path, command: str) -> None:
    run(root, command)
    assert nic_manager("eth0", 2, root) is not None


def test_a_client_of_another_nic_or_of_a_container_is_not_meant(root: Path) -> None:
    run(root, "/sbin/udhcpc -i eth1")
    assert nic_manager("eth0", 2, root) is None
    (root / "proc/77/cmdline").write_text("udhcpc\0-i\0eth0")
    (root / "proc/77/ns/net").unlink()
    (root / "proc/77/ns/net").symlink_to("net:[1]")
    assert nic_manager("eth0", 2, root) is None


def test_a_wireless_card_is_known(tmp_path: Path) -> None:
    (tmp_path / "class/net/wlan0/phy80211").mkdir(parents=True)
    assert is_wireless("wlan0", tmp_path)
    assert not is_wireless("eth0", tmp_path)

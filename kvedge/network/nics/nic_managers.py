"""Which program of this host configures a NIC: what each has written below /run, and DHCP clients among the processes.

Reads the host's files, asks nobody. A program that configures a NIC gives it its addresses back after a move, and takes
them off the bridge; it can make the bridge itself, and then does so at every boot.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from kvedge.network.nics.nic_rules import NicManager

_CLIENTS: Final = ("dhclient", "dhcpcd", "udhcpc", "connmand", "wickedd-dhcp4")
# A command line has no more than a page that matters here.
_LONGEST: Final = 4096
_THEN: Final = "then `kvedge network create NAME --bridge br0`"


def is_wireless(nic: str, sys: Path = Path("/sys")) -> bool:
    """Whether it is a Wi-Fi card."""
    folder = sys / "class/net" / nic
    return (folder / "wireless").exists() or (folder / "phy80211").exists()


def nic_manager(nic: str, index: int, root: Path = Path("/")) -> NicManager | None:
    """The program that configures it, as far as it can be told."""
    run = root / "run"
    if _has_line(run / "NetworkManager/devices" / str(index), "managed=true"):
        return NicManager(
            "NetworkManager",
            "have it make the bridge: `nmcli connection add type bridge ifname br0 con-name br0`,"
            f" `nmcli connection add type ethernet slave-type bridge ifname {nic} master br0`,"
            f" `nmcli connection up br0`; {_THEN}",
        )
    networkd = _read(run / "systemd/netif/links" / str(index))
    if "NETWORK_FILE=/" in networkd:
        return NicManager(
            "systemd-networkd",
            "have it make the bridge: in netplan `bridges: {br0: {interfaces: ["
            f"{nic}"
            "]}}`, or a .netdev of Kind=bridge"
            f" and Bridge=br0 in the NIC's .network; {_THEN}",
        )
    if any(line.partition("=")[0] == nic for line in _read(run / "network/ifstate").splitlines()):
        return NicManager(
            "ifupdown",
            f"have it make the bridge: `iface br0 inet …` with `bridge_ports {nic}` in /etc/network/interfaces"
            f" (package bridge-utils); {_THEN}",
        )
    client = next(_clients_of(nic, root / "proc"), None)
    if client is not None:
        return NicManager(
            client, f"give the NIC a lasting address and end {client}, or let it ask on a bridge of the host's; {_THEN}"
        )
    return None


def _clients_of(nic: str, proc: Path) -> Iterator[str]:
    for folder in proc.iterdir():
        if not folder.name.isdecimal() or not _is_of_this_network(folder):
            continue
        words = _read(folder / "cmdline").split("\0")
        program = os.path.basename(words[0])
        if program.endswith(":"):
            # dhcpcd calls itself `dhcpcd: eth0 [ip4]`.
            program = program[:-1]
        named = {part for word in words[1:] for part in word.split()}
        # Without the name of a NIC a client is there for all.
        others = any(not word.startswith("-") for word in words[1:] if word)
        if program in _CLIENTS and (nic in named or not others):
            yield program


def _is_of_this_network(folder: Path) -> bool:
    """Whether the process is in our network namespace: one of a container's serves that."""
    try:
        return os.readlink(folder / "ns/net") == os.readlink("/proc/thread-self/ns/net")
    except OSError:
        return False


def _has_line(path: Path, line: str) -> bool:
    return line in _read(path).splitlines()


def _read(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(_LONGEST).decode(errors="replace")
    except OSError:
        return ""

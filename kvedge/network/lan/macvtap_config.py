"""What a NetworkAttachmentDefinition of type macvtap means where kvedge joins Pods to it: the NIC, and its sharing.

Called by the node agent and by the command line. Pure. The words are those of CNI's `macvlan` plugin, which macvtap-cni
passes over: in a cluster the NIC stands in its device plugin's configuration. What kvedge has besides stands under
`kvedge`. A key that is not understood is refused by its name.
"""

from __future__ import annotations

import json
from typing import Any, Final

import msgspec
from msgspec import Struct

from kvedge.network.binding.binding_state import SMALLEST_IPV6_MTU
from kvedge.network.binding.macvtap_rules import MACVTAP
from kvedge.network.lan.lan_config import LARGEST_MTU, LINK_NAME, LONGEST, LONGEST_SHOWN, LanConfigError, show_value

# Guests of one NIC reach each other; only what is beyond it; or only by a switch that sends their frames back.
BRIDGE, PRIVATE, VEPA = "bridge", "private", "vepa"
_MODES: Final = (BRIDGE, PRIVATE, VEPA)


class MacvtapConfig(Struct, frozen=True, kw_only=True):
    """One network: each guest has a link of its own on `nic`; `mtu` is 0 for the NIC's.

    `servers`: its guests may answer DHCP and advertise routers.
    """

    nic: str
    mode: str = BRIDGE
    mtu: int = 0
    servers: bool = False


class _Own(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    allow_servers: bool = False


class _Document(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    """The keys that are understood; those without a meaning here change nothing."""

    type: str
    master: str = ""
    mode: str = BRIDGE
    mtu: int = 0
    ipam: dict[str, Any] | None = None
    promisc_mode: bool = False
    kvedge: _Own = msgspec.field(default_factory=_Own)
    cni_version: str = ""
    name: str = ""
    disable_check: bool = False


# Made at the import: msgspec learns a type in one thread, before others use it.
_DOCUMENTS: Final = msgspec.json.Decoder(_Document)


def parse_macvtap_config(text: str) -> MacvtapConfig | None:
    """What the text says; None when it is about another type of network. Raises LanConfigError."""
    if not _is_macvtap(text):
        return None
    try:
        found = _DOCUMENTS.decode(text)
    except msgspec.ValidationError as error:
        raise LanConfigError("", str(error)[: 4 * LONGEST_SHOWN], "see `kvedge network create --dry-run`") from error
    _check(found)
    return MacvtapConfig(nic=found.master, mode=found.mode, mtu=found.mtu, servers=found.kvedge.allow_servers)


def macvtap_config_text(config: MacvtapConfig) -> str:
    """The text of a configuration, as `parse_macvtap_config` reads it."""
    document: dict[str, Any] = {"cniVersion": "1.0.0", "type": MACVTAP, "master": config.nic, "mode": config.mode}
    if config.mtu:
        document["mtu"] = config.mtu
    if config.servers:
        document["kvedge"] = {"allowServers": True}
    return json.dumps(document)


def _is_macvtap(text: str) -> bool:
    if len(text) > LONGEST:
        return False
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return isinstance(found, dict) and found.get("type") == MACVTAP


def _check(found: _Document) -> None:
    if not LINK_NAME.fullmatch(found.master):
        raise LanConfigError("master", f"{show_value(found.master)} is no name of a link", "name a NIC of this host")
    if found.mode not in _MODES:
        raise LanConfigError("mode", f"{show_value(found.mode)} is not supported", f"use one of {', '.join(_MODES)}")
    if found.mtu != 0 and not SMALLEST_IPV6_MTU <= found.mtu <= LARGEST_MTU:
        raise LanConfigError("mtu", f"{found.mtu} is out of range", f"use {SMALLEST_IPV6_MTU} to {LARGEST_MTU}")
    if found.ipam:
        remedy = "leave it out: the guest asks the LAN's DHCP, or is told by cloud-init"
        raise LanConfigError("ipam", "not supported here", remedy)
    if found.promisc_mode:
        raise LanConfigError("promiscMode", "a guest has its own MAC alone", "remove it")

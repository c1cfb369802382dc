"""What a NetworkAttachmentDefinition's `spec.config` means where kvedge joins Pods to it: the bridge to join, and how.

Called by the node agent and the handler, which attach Pods, and by the command line, which writes such texts. Pure.
The words are those of CNI's `bridge` plugin, so that a manifest means the same in a cluster with Multus; what kvedge
has besides stands under `kvedge`, which that plugin passes over. A key that is not understood is refused by its name: a
guest that silently gets another network than its owner believes is worse than one that does not start.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct

from kvedge.network.binding.binding_state import SMALLEST_IPV6_MTU
from kvedge.network.lan.lan_addresses import (
    AddressesError,
    LanAddresses,
    addresses_document,
    addresses_of_document,
)
from kvedge.network.lan.vlan_trunk import (
    LARGEST_VLAN,
    Trunk,
    TrunkError,
    trunk_document,
    trunk_of_document,
    trunk_text,
    vlans_of,
)
from kvedge.runtime.nearest_names import or_nearest

FIELD: Final = "spec.config"
# The longest text that is read: a configuration has a few hundred characters.
LONGEST: Final = 16 * 1024
LARGEST_MTU: Final = 65521
OURS: Final = "kvedge"
LINK_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,14}")
LONGEST_SHOWN: Final = 60
# Fields that change nothing here: names, versions, and a Pod's side without an address, as it always is here.
_PASSED_OVER: Final = frozenset({"cniVersion", "name", "type", "disableCheck", "disableContainerInterface"})
_KNOWN: Final = ("bridge", "vlan", "vlanTrunk", "mtu", "ipam", "macspoofchk", "portIsolation", OURS)
# Of the plugin's, and not done here; false asks for nothing.
_NOT_DONE: Final[Mapping[str, str]] = {
    "isGateway": "the host has an address on it when its own network configuration says so",
    "isDefaultGateway": "the host has an address on it when its own network configuration says so",
    "forceAddress": "remove it",
    "ipMasq": "use the Pod network for what is to leave under the host's address",
    "hairpinMode": "remove it",
    "promiscMode": "remove it",
    "preserveDefaultVlan": "set it to false: a port is of its VLAN alone",
    "enabledad": "remove it",
}
_ABOUT_ADDRESSES: Final = ("addresses", "filterAddresses")
_OURS: Final = ("makeBridge", "allowServers", "nic", "nativeVlan", *_ABOUT_ADDRESSES)


class LanConfigError(ValueError):
    """A configuration that cannot be used here: the text names the key and the remedy."""

    def __init__(self, key: str, why: str, remedy: str) -> None:
        at = f"{FIELD}.{key}" if key else FIELD
        super().__init__(f"{at}: {why}; {remedy}")
        # Whether it is another plugin's, which a cluster may have.
        self.is_foreign = key in ("type", "plugins[1]")


class LanConfig(Struct, frozen=True, kw_only=True):
    """One network: its bridge on the host, `made` by kvedge or the operator's; VLAN and MTU are 0 where it has none.

    `vlan` is that of frames without a tag. Those of `trunk` are carried with their tags.

    `servers`: its guests may answer DHCP and advertise routers. `nic`: the NIC of which `kvedge network create` made
    the bridge; to whoever joins it, it is the operator's. `addresses` are those that kvedge gives to its guests, and
    with `filters` a guest speaks with its own alone.
    """

    bridge: str
    made: bool = False
    nic: str = ""
    vlan: int = 0
    trunk: Trunk = ()
    mtu: int = 0
    isolates_ports: bool = False
    servers: bool = False
    addresses: LanAddresses | None = None
    filters: bool = False

    @property
    def has_vlans(self) -> bool:
        """Whether it asks for VLANs of its bridge."""
        return bool(self.vlan or self.trunk)

    @property
    def vlans_text(self) -> str:
        """Its VLANs, as users read them; empty for none."""
        if not self.trunk:
            return str(self.vlan) if self.vlan else ""
        return trunk_text(self.trunk) + (f", native {self.vlan}" if self.vlan else "")


def parse_lan_config(text: str) -> LanConfig:
    """What the text says. Raises LanConfigError."""
    config = _plugin(_document(text))
    kind = config.get("type")
    if kind != "bridge":
        raise LanConfigError("type", f"{show_value(kind)} is not supported here", "use bridge")
    for key in config:
        _check_key(key, config[key])
    made, servers, nic = _own(config.get(OURS))
    addresses, filters = _addresses(config.get(OURS) or {})
    trunk, native = _trunk(config)
    found = LanConfig(
        bridge=_link_name("bridge", config.get("bridge"), "name a bridge of this host"),
        made=made,
        nic=nic,
        vlan=_number(config, "vlan", 0, LARGEST_VLAN) or native,
        trunk=trunk,
        mtu=_number(config, "mtu", SMALLEST_IPV6_MTU, LARGEST_MTU),
        isolates_ports=_flag(config, "portIsolation"),
        servers=servers,
        addresses=addresses,
        filters=filters,
    )
    if trunk and addresses is not None:
        why = "guests of a trunk have their addresses in its VLANs"
        raise LanConfigError(f"{OURS}.addresses", why, "remove it, or be on one vlan")
    if found.made and found.has_vlans:
        key, why = "vlanTrunk" if trunk else "vlan", "a bridge that kvedge makes is one network, without VLANs"
        raise LanConfigError(key, why, "remove it: each network has its own")
    return found


def lan_config_text(config: LanConfig) -> str:
    """The text of a configuration, as `parse_lan_config` reads it."""
    document: dict[str, Any] = {"cniVersion": "1.0.0", "type": "bridge", "bridge": config.bridge, "ipam": {}}
    if config.trunk:
        document |= {"vlanTrunk": trunk_document(config.trunk), "preserveDefaultVlan": False}
    elif config.vlan:
        document |= {"vlan": config.vlan, "preserveDefaultVlan": False}
    if config.mtu:
        document["mtu"] = config.mtu
    if config.isolates_ports:
        document["portIsolation"] = True
    own: dict[str, Any] = {"makeBridge": True} if config.made else {}
    if config.nic:
        own["nic"] = config.nic
    if config.trunk and config.vlan:
        own["nativeVlan"] = config.vlan
    if config.addresses is not None:
        own["addresses"] = addresses_document(config.addresses)
    if config.filters:
        own["filterAddresses"] = True
    if config.servers != config.made:
        own["allowServers"] = config.servers
    return json.dumps({**document, **({OURS: own} if own else {})})


def _addresses(own: Mapping[str, Any]) -> tuple[LanAddresses | None, bool]:
    """What guests are given, and whether they are kept to it."""
    filters = _flag(own, "filterAddresses", f"{OURS}.")
    if "addresses" not in own:
        if filters:
            why = "nobody knows which address a guest has from elsewhere"
            raise LanConfigError(f"{OURS}.filterAddresses", why, f"name {OURS}.addresses, which kvedge gives")
        return None, False
    try:
        return addresses_of_document(own["addresses"]), filters
    except AddressesError as error:
        remedy = 'write it as {"subnet": "192.168.1.0/24", "first": "192.168.1.50", "last": "192.168.1.99"}'
        raise LanConfigError(f"{OURS}.addresses", str(error), remedy) from error


def _trunk(config: Mapping[str, Any]) -> tuple[Trunk, int]:
    """The VLANs that are carried with their tags, and that of frames without one: 0 for none."""
    native = _number(config.get(OURS) or {}, "nativeVlan", 1, LARGEST_VLAN, f"{OURS}.")
    try:
        trunk = trunk_of_document(config.get("vlanTrunk") or [])
    except TrunkError as error:
        raise LanConfigError("vlanTrunk", str(error), 'write it as [{"id": 10}, {"minID": 20, "maxID": 30}]') from error
    if trunk and config.get("vlan"):
        raise LanConfigError(
            "vlanTrunk", "a port has either vlan or vlanTrunk", f"for frames without a tag there is {OURS}.nativeVlan"
        )
    if native and not trunk:
        raise LanConfigError(f"{OURS}.nativeVlan", "there is no vlanTrunk", "a port of one VLAN has vlan")
    if native in vlans_of(trunk):
        raise LanConfigError(f"{OURS}.nativeVlan", f"{native} is in vlanTrunk", "a VLAN comes with its tag or without")
    return trunk, native


def find_unheeded(text: str) -> str:
    """The field of ours about addresses, which nobody heeds when another plugin has joined the Pod; empty for none."""
    try:
        document = _document(text)
    except LanConfigError:
        return ""
    plugins = document.get("plugins")
    own = [each.get(OURS) for each in (plugins if isinstance(plugins, list) else [document]) if isinstance(each, dict)]
    found = (key for each in own if isinstance(each, dict) for key in _ABOUT_ADDRESSES if each.get(key))
    return next((f"{FIELD}.{OURS}.{key}" for key in found), "")


def _document(text: str) -> dict[str, Any]:
    if len(text) > LONGEST:
        raise LanConfigError("", f"{len(text)} characters long", f"no more than {LONGEST} are read")
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise LanConfigError(
            "", f"this is no JSON: {str(error)[:LONGEST_SHOWN]}", "see `kvedge network create --dry-run`"
        ) from error
    if not isinstance(found, dict):
        raise LanConfigError("", "this is no JSON object", "see `kvedge network create --dry-run`")
    return found


def _plugin(document: dict[str, Any]) -> dict[str, Any]:
    """The one plugin of a list of plugins, or the document itself."""
    plugins = document.get("plugins")
    if plugins is None:
        return document
    if not isinstance(plugins, list) or not plugins or not isinstance(plugins[0], dict):
        raise LanConfigError("plugins", "this is no list of plugins", "write the bridge's configuration itself")
    if len(plugins) > 1:
        kind = plugins[1].get("type") if isinstance(plugins[1], dict) else plugins[1]
        raise LanConfigError("plugins[1]", f"{show_value(kind)} is not supported here", "remove it")
    first: dict[str, Any] = plugins[0]
    return first


def _check_key(key: str, value: Any) -> None:
    if key in _NOT_DONE:
        if value not in (False, None, [], {}):
            raise LanConfigError(key, "not supported here", _NOT_DONE[key])
    elif key == "macspoofchk":
        if value is not True:
            raise LanConfigError(key, "a guest speaks with its own MAC alone", "remove it")
    elif key == "ipam":
        if value not in ({}, None):
            raise LanConfigError(
                key,
                "not supported here",
                "leave it empty: the guest asks the LAN's DHCP, or is told by cloud-init",
            )
    elif key not in _PASSED_OVER and key not in _KNOWN:
        near = or_nearest(key[:LONGEST_SHOWN], [*_KNOWN, *_NOT_DONE])
        raise LanConfigError(key[:LONGEST_SHOWN], f"not supported here.{near}", "remove it")


def _link_name(key: str, value: Any, remedy: str) -> str:
    if not isinstance(value, str) or not LINK_NAME.fullmatch(value):
        raise LanConfigError(key, f"{show_value(value)} is no name of a link", remedy)
    return value


def _own(value: Any) -> tuple[bool, bool, str]:
    """(whether kvedge makes the bridge, whether guests may be servers there, the NIC of which it was made)"""
    if value is None:
        return False, False, ""
    has = f"it has the keys {', '.join(_OURS)}"
    if not isinstance(value, dict):
        raise LanConfigError(OURS, f"{show_value(value)} is no object", has)
    for key in value:
        if key not in _OURS:
            raise LanConfigError(f"{OURS}.{key[:LONGEST_SHOWN]}", "unknown", has)
    made = _flag(value, "makeBridge", f"{OURS}.")
    nic = _link_name(f"{OURS}.nic", value["nic"], "name the NIC of the bridge") if "nic" in value else ""
    if made and nic:
        raise LanConfigError(f"{OURS}.makeBridge", "a bridge of a NIC is there before its guests", "remove it")
    # On a network of guests alone, a guest is the only one that can be the DHCP server.
    return made, _flag(value, "allowServers", f"{OURS}.", unset=made), nic


def _flag(document: Mapping[str, Any], key: str, below: str = "", *, unset: bool = False) -> bool:
    value = document.get(key, unset)
    if not isinstance(value, bool):
        raise LanConfigError(f"{below}{key}", f"{show_value(value)} is neither true nor false", "say true or false")
    return value


def _number(document: Mapping[str, Any], key: str, smallest: int, largest: int, below: str = "") -> int:
    value = document.get(key, 0)
    key = below + key
    if isinstance(value, bool) or not isinstance(value, int):
        raise LanConfigError(key, f"{show_value(value)} is no whole number", f"use {smallest} to {largest}")
    if value != 0 and not smallest <= value <= largest:
        raise LanConfigError(key, f"{show_value(value)} is out of range", f"use {smallest} to {largest}")
    return value


def show_value(value: Any) -> str:
    """Somebody's value as an error shows it."""
    text = value if isinstance(value, str) else json.dumps(value)
    return repr(text[:LONGEST_SHOWN])

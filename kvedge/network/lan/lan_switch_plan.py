"""Which steps take a NIC of a Pod that runs from one bridge, or VLAN, of this host to another.

Pure; `lan_ports` looks, asks here, and does. The pair stays, and with it the Pod's side of it and what is bound to it
there: the guest sees nothing of a switch but other neighbours. The port goes down first. Whoever puts ports back brings
one that is down to where its alias says, so that a switch which is cut short is finished.
"""

from __future__ import annotations

import dataclasses
from typing import Final

from msgspec.structs import replace

from kvedge.network.errors import NetworkError
from kvedge.network.lan.lan_bridges import LanSeen
from kvedge.network.lan.lan_plan import LanPort, lan_port_name, lan_ports_of, plan_lan_port, unused_steps
from kvedge.network.netns import netns_path
from kvedge.network.pods.attachments import DEFAULT_MTU, NodeNetworkConfig
from kvedge.network.steps import SetLink, Step

_DOING: Final = "cannot move a NIC of a guest that runs to bridge"
_REMEDY: Final = "restart the VM, which starts on its new network"


def plan_lan_switch(config: NodeNetworkConfig, seen: LanSeen, wanted: LanPort) -> list[Step]:
    """Brings a NIC that is there to the network of `wanted`.

    Raises NetworkError for what a guest cannot have without a restart, and as `plan_lan_port`.
    """
    name = lan_port_name(config, wanted.netns, wanted.interface)
    port = seen.link(name)
    ports = lan_ports_of(config, seen.links)
    if port is None or name not in ports:
        raise _error(wanted, "its port is gone")
    present = ports[name]
    if present.address or wanted.address or present.network.filters or wanted.network.filters:
        raise _error(wanted, "one of the two networks gives addresses, which guests learn at their start")
    bridge = seen.link(wanted.network.bridge)
    largest = bridge.mtu if bridge is not None else wanted.network.mtu or DEFAULT_MTU
    if port.mtu > largest:
        raise _error(wanted, f"the guest sends frames of {port.mtu} bytes, and the bridge's MTU is {largest}")
    off = dataclasses.replace(port, up=False, master=0)  # noqa: TID251 - of dataclasses: launchers do without msgspec
    links = tuple(off if link.name == name else link for link in seen.links)
    joining = plan_lan_port(
        config, replace(seen, links=links), replace(wanted, mac=present.mac), netns_path(wanted.netns), whole=True
    )
    leaving = [SetLink(name, up=False), SetLink(name, master="")]
    return [*leaving, *joining, *unused_steps(config, seen, {**ports, name: wanted})]


def _error(wanted: LanPort, why: str) -> NetworkError:
    return NetworkError(_DOING, subject=wanted.network.bridge, why=why, remedy=_REMEDY)

"""What a running VM's interfaces on other networks have come to in its template, and what that means for its run.

Called by the VM's plan and for its condition RestartRequired. Pure. An interface on a Multus network with a bridge
binding, or with a plugin that makes a link, comes and goes while the guest runs, and is taken to another network where
that is possible (`can_switch`). Any interface's link state changes; all else of an interface waits for a restart. An
interface that is to be absent goes first, and comes back once nothing of it is left.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, Final

import msgspec

from kvedge.resources.codec import JsonObject, encode
from kvedge.resources.evacuation import LIVE_MIGRATABLE
from kvedge.resources.identity import guest_mac
from kvedge.resources.meta import condition
from kvedge.resources.types.devices import ABSENT, Interface
from kvedge.resources.types.guest_nics import is_bridged
from kvedge.resources.types.vm import VirtualMachine, VirtualMachineInstanceTemplate
from kvedge.resources.types.vmi import MULTUS_STATUS, VirtualMachineInstance, VirtualMachineInstanceSpec
from kvedge.resources.types.volumes import Network

_UP: Final = ("", "up")


def plan_interfaces(
    vm: VirtualMachine, vmi: VirtualMachineInstance, plugins: Collection[str] = (), *, is_alone: bool = False
) -> JsonObject:
    """A merge patch of the VMI that brings its interfaces nearer to the VM's; empty when nothing is to do.

    `plugins` are the network binding plugins whose NICs come while a guest runs; `is_alone`: there is one node.
    """
    if vmi.status.phase != "Running" or vmi.metadata.deletion_timestamp is not None:
        return {}
    template = _template(vm)
    asked = {item.name: item for item in template.domain.devices.interfaces}
    present = vmi.spec.domain.devices.interfaces
    left = {row.name for row in vmi.status.interfaces}
    kept = [item for item in present if item.state != ABSENT or item.name in left]
    interfaces = [_with_state(item, asked.get(item.name), template) for item in kept]
    there = {item.name for item in present}
    coming = [item for item in _find_live(template) if item.name not in there and _comes(item, plugins)]
    interfaces += [_with_mac(item, vm.metadata.uid) for item in coming]
    wanted = {network.name: network for network in template.networks}
    switched = {item.name for item in _find_live(template) if can_switch(vmi, item.name, is_alone=is_alone)}
    networks = [
        _on_network(network, wanted.get(network.name)) if network.name in switched else network
        for network in _networks_of(kept, vmi.spec.networks)
    ] + _networks_of(coming, template.networks)
    body: JsonObject = {}
    if interfaces != present:
        body["domain"] = {"devices": {"interfaces": [encode(item) for item in interfaces]}}
    if networks != vmi.spec.networks:
        body["networks"] = [encode(network) for network in networks]
    return {"spec": body} if body else {}


def without_absent(vm: VirtualMachine, vmi: VirtualMachineInstance | None) -> JsonObject:
    """A merge patch of the VM that takes interfaces away which are to be absent, and which its run does not have (any
    more); empty when there are none."""
    template = _template(vm)
    interfaces = template.domain.devices.interfaces
    held: set[str] = set()
    if vmi is not None and not vmi.is_final:
        held = {item.name for item in vmi.spec.domain.devices.interfaces} | {row.name for row in vmi.status.interfaces}
    kept = [item for item in interfaces if item.state != ABSENT or item.name in held]
    if kept == interfaces:
        return {}
    spec = {
        "domain": {"devices": {"interfaces": [encode(item) for item in kept]}},
        "networks": [encode(network) for network in _networks_of(kept, template.networks)],
    }
    return {"spec": {"template": {"spec": spec}}}


def lasting_interfaces(spec: VirtualMachineInstanceSpec) -> VirtualMachineInstanceSpec:
    """The spec without what may change of its interfaces: those on other networks that come and go, all link states."""
    live = {item.name for item in _find_live(spec)}
    interfaces = spec.domain.devices.interfaces
    if not live and all(not item.state for item in interfaces):
        return spec
    kept = [msgspec.structs.replace(item, state="") for item in interfaces if item.name not in live]
    networks = [network for network in spec.networks if network.name not in live]
    devices = msgspec.structs.replace(spec.domain.devices, interfaces=kept)
    domain = msgspec.structs.replace(spec.domain, devices=devices)
    return msgspec.structs.replace(spec, domain=domain, networks=networks)


def can_switch(vmi: VirtualMachineInstance, name: str, *, is_alone: bool) -> bool:
    """Whether an interface of the run may be taken to another network: by a migration, or where it is on the only node.

    Where the Pod does not say which networks it is on, nobody knows when it is there.
    """
    row = next((row for row in vmi.status.interfaces if row.name == name), None)
    if row is not None and MULTUS_STATUS not in row.sources:
        return False
    migratable = condition(vmi.status.conditions, LIVE_MIGRATABLE)
    return is_alone or (migratable is not None and migratable.status == "True")


def interfaces_need_restart(
    vm: VirtualMachine, vmi: VirtualMachineInstance, plugins: Collection[str] = (), *, is_alone: bool = False
) -> bool:
    """Whether the template says something else of an interface that the guest has, or nothing any more; or has a new
    one of a plugin whose NICs do not come while a guest runs."""
    template = _template(vm)
    asked = {item.name: item for item in _find_live(template)}
    there = {item.name for item in vmi.spec.domain.devices.interfaces}
    if any(item.state != ABSENT and not _comes(item, plugins) for item in asked.values() if item.name not in there):
        return True
    networks = {network.name: network for network in template.networks}
    ours = {network.name: network for network in vmi.spec.networks}
    for item in _find_live(vmi.spec):
        wanted = asked.get(item.name)
        if item.state == ABSENT:
            continue
        if wanted is None or not _says(_without_state(item), _without_state(wanted)):
            return True
        has, asks = ours[item.name], networks.get(item.name)
        if asks is None or asks != (_on_network(has, asks) if can_switch(vmi, item.name, is_alone=is_alone) else has):
            return True
    return False


def _template(vm: VirtualMachine) -> VirtualMachineInstanceSpec:
    return (vm.spec.template or VirtualMachineInstanceTemplate()).spec


def _find_live(spec: VirtualMachineInstanceSpec) -> list[Interface]:
    """The interfaces that come and go while a guest runs."""
    joined = {network.name for network in spec.networks if network.multus is not None and not network.multus.default}
    return [item for item in spec.domain.devices.interfaces if item.name in joined and is_bridged(item)]


def _comes(item: Interface, plugins: Collection[str]) -> bool:
    return item.state != ABSENT and (item.binding is None or item.binding.name in plugins)


def _with_state(item: Interface, asked: Interface | None, template: VirtualMachineInstanceSpec) -> Interface:
    """An interface of the run as the template wants its link; an interface on its way out stays so."""
    if asked is None or item.state == ABSENT or item.state == asked.state:
        return item
    if asked.state == ABSENT and all(live.name != item.name for live in _find_live(template)):
        return item
    if asked.state in _UP and item.state in _UP:
        return item
    return msgspec.structs.replace(item, state=asked.state)


def _with_mac(item: Interface, uid: str) -> Interface:
    # As at a start: a NIC has one MAC in all runs of its VM.
    return msgspec.structs.replace(item, mac_address=item.mac_address or guest_mac(uid, item.name))


def _on_network(network: Network, asked: Network | None) -> Network:
    """A network of the run under the name that the template has for it."""
    if network.multus is None or asked is None or asked.multus is None or asked.multus.default:
        return network
    named = msgspec.structs.replace(network.multus, network_name=asked.multus.network_name)
    return msgspec.structs.replace(network, multus=named)


def _networks_of(interfaces: Iterable[Interface], networks: Iterable[Network]) -> list[Network]:
    names = {item.name for item in interfaces}
    return [network for network in networks if network.name in names]


def _without_state(item: Interface) -> Any:
    return encode(msgspec.structs.replace(item, state=""))


def _says(document: Any, asked: Any) -> bool:
    """Whether a document has everything that was asked for; the MAC and defaults may have been added to it."""
    return all(document.get(key) == value for key, value in asked.items())

"""Joins a launcher's Pod to the guest's networks of the LAN, on a cluster's node where nobody else does.

Called by the sync loop. Multus joins a Pod before its containers start: a NIC that is not there by then is ours to
make. A Pod that runs is joined by Multus' controller of dynamic networks, if the cluster has one, and so by the handler
only once nobody has done it for a while, or where the handler has joined it to others before. On one box the node agent
does all of it.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Collection
from typing import Final

from msgspec import Struct

from kvedge.handler.guest.guest_network import hold_network
from kvedge.handler.held_process import HeldProcess
from kvedge.kube.errors import Forbidden, KubeError, NotFound
from kvedge.network.errors import NetworkError
from kvedge.network.lan.lan_config import find_unheeded
from kvedge.network.lan.lan_nics import Port, wanted_nic
from kvedge.network.lan.node_lans import has_nic, has_other_nic, join_nic, joined_nics, leave_all, leave_nic
from kvedge.resources.meta import condition
from kvedge.resources.names import MIGRATION_REQUIRED
from kvedge.resources.types.attachments import NetworkAttachmentDefinition
from kvedge.resources.types.devices import Interface
from kvedge.resources.types.pod_networks import (
    Selection,
    check_namespace,
    is_there,
    lan_interfaces,
    missing_network,
    pod_nic,
    selection_of,
)
from kvedge.resources.types.vmi import VirtualMachineInstance

log = logging.getLogger(__name__)

_DOING: Final = "nobody has joined the Pod to network"
_RIGHTS: Final = "apply k3s/rbac again"

# Gets a network by namespace and name; raises KubeError.
Reader = Callable[[str, str], NetworkAttachmentDefinition]
# Undoes what was made in the Pod for an interface, by its place in the VMI; raises NetworkError.
Release = Callable[[tuple[int, Interface]], None]


class LanJoining(Struct, frozen=True):
    """Of all launchers of this node; `read` is None where others join them."""

    read: Reader | None = None

    def joins(self, vmi: VirtualMachineInstance) -> bool:
        """Whether the handler joins a Pod that runs to what its guest is to be on.

        Raises:
            NetworkError: when the node's links cannot be listed.
        """
        if self.read is None or all(is_there(vmi.status, item.name) for _, item, _ in lan_interfaces(vmi)):
            return False
        if joined_nics(vmi.metadata.uid):
            return True
        waited = condition(vmi.status.conditions, MIGRATION_REQUIRED)
        return waited is not None and waited.status == "True" and self._can_join(self.read, vmi)

    def _can_join(self, read: Reader, vmi: VirtualMachineInstance) -> bool:
        """Whether any network that is to come is one of ours: with Multus, others wait for another Pod, which the
        condition says."""
        for _, interface, network in lan_interfaces(vmi):
            if not is_there(vmi.status, interface.name):
                with contextlib.suppress(NetworkError):
                    _port(read, selection_of(vmi, interface, network), vmi)
                    return True
        return False

    def join(
        self,
        vmi: VirtualMachineInstance,
        launcher: HeldProcess,
        release: Release,
        names: Collection[str] | None = None,
    ) -> None:
        """Give the Pod the NICs of these interfaces, or of all on such networks, that nobody has given it.

        One that an earlier try has made with another address is released, and made anew.

        Raises:
            NetworkError: when one cannot be made, or others have made one on a network that is to give addresses, with
                the network's name and the remedy.
        """
        if self.read is None:
            return
        wanted = [each for each in lan_interfaces(vmi) if names is None or each[1].name in names]
        if not wanted:
            return
        with hold_network(launcher) as netns:
            for index, interface, network in wanted:
                selection = selection_of(vmi, interface, network)
                if has_nic(netns, vmi.metadata.uid, pod_nic(interface.name), index):
                    _refuse_unheeded(self.read, selection, index)
                    continue
                port = _port(self.read, selection, vmi)
                try:
                    if has_other_nic(port):
                        release((index, interface))
                        leave_nic(netns, vmi.metadata.uid, port.interface)
                    join_nic(netns, port)
                except NetworkError as error:
                    raise _error(selection, str(error), error) from error

    def leave(self, vmi: VirtualMachineInstance, launcher: HeldProcess, interface: Interface) -> None:
        """Take the Pod from the network of a NIC that its guest has released. Raises NetworkError."""
        if self.read is None:
            return
        with hold_network(launcher) as netns:
            leave_nic(netns, vmi.metadata.uid, pod_nic(interface.name))

    def forget(self, vmi_uid: str) -> None:
        """Take away what a VMI that is gone has left on this node; what the kernel refuses, the keeper tries again."""
        if self.read is not None:
            with contextlib.suppress(NetworkError):
                leave_all(vmi_uid)


def _refuse_unheeded(read: Reader, selection: Selection, index: int) -> None:
    """A guest that is on the network without the address or the filter that its owner asked for does not start."""
    try:
        field = find_unheeded(read(selection.namespace, selection.name).spec.config)
    except KubeError:
        # The NIC is there, and most networks have no such words: others' Pods wait for no server.
        return
    if field:
        raise NetworkError(
            "cannot give addresses on network",
            subject=selection.reference,
            why=f"spec.domain.devices.interfaces[{index}]: Multus has joined the Pod, and its plugins do nothing of the"
            f" network's {field}",
            remedy=f"take {field} out of the network, or have the guest's node without Multus",
        )


def _port(read: Reader, selection: Selection, vmi: VirtualMachineInstance) -> Port:
    try:
        check_namespace(selection, vmi.metadata.namespace)
        found = read(selection.namespace, selection.name)
        return wanted_nic(vmi.metadata.uid, selection.interface, selection.mac, found)
    except NotFound as error:
        raise NetworkError(missing_network(selection)) from error
    except Forbidden as error:
        raise NetworkError(_DOING, subject=selection.reference, why=str(error), remedy=_RIGHTS) from error
    except (KubeError, ValueError) as error:
        raise _error(selection, str(error)) from error


def _error(selection: Selection, why: str, cause: NetworkError | None = None) -> NetworkError:
    return NetworkError(
        _DOING,
        subject=selection.reference,
        why=f"the node has no Multus, and kvedge cannot: {why}",
        errno=cause.errno if cause is not None else 0,
    )

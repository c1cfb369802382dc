"""Addresses of Pods that belong to their VMs: kept as IPAddress objects until the VM is deleted.

Called by the Pod loop. The objects are the only record, so that they survive everything the store survives, and
`kubectl get ipaddresses` shows them.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from typing import ClassVar, Final

import msgspec
from msgspec import Struct

from kvedge.kube.errors import AlreadyExists, KubeError, NotFound
from kvedge.kube.informer import Informer
from kvedge.kube.kube_client import KubeClient, Preconditions
from kvedge.network.address_plan import ipv6_address_beside, plan_address
from kvedge.network.errors import AddressesExhaustedError
from kvedge.resources.codec import KubeStruct
from kvedge.resources.kinds import Kind
from kvedge.resources.meta import ObjectMeta, OwnerReference
from kvedge.resources.names import OWNER_UID
from kvedge.resources.types.cluster import IpAddress, IpAddressSpec, ParentReference
from kvedge.resources.types.core import Pod
from kvedge.resources.types.vm import VirtualMachine
from kvedge.resources.types.vmi import VirtualMachineInstance

log = logging.getLogger(__name__)

MANAGED_BY: Final = "ipaddress.kubernetes.io/managed-by"
MANAGER: Final = "kvedge.io"
_GROUP: Final = "kubevirt.io"
_VM: Final = "VirtualMachine"
_VMI: Final = "VirtualMachineInstance"
_PLURALS: Final = {_VM: "virtualmachines", _VMI: "virtualmachineinstances", "Pod": "pods"}


class AddressOwner(Struct, frozen=True):
    """What an address belongs to: a VM, a VMI without one, or a Pod that is no launcher."""

    kind: str
    namespace: str
    name: str
    uid: str

    @property
    def reference(self) -> ParentReference:
        """As an IPAddress names it."""
        group = "" if self.kind == "Pod" else _GROUP
        return ParentReference(group=group, resource=_PLURALS[self.kind], namespace=self.namespace, name=self.name)


class VirtualMachineHead(KubeStruct, kw_only=True):
    """A VirtualMachine of which only the metadata is read: the node agent wants to know no more than when it goes."""

    KIND: ClassVar[Kind] = VirtualMachine.KIND
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)


class VirtualMachineInstanceHead(KubeStruct, kw_only=True):
    """A VirtualMachineInstance of which only the metadata is read."""

    KIND: ClassVar[Kind] = VirtualMachineInstance.KIND
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)


class PodAddresses:
    """All addresses of a Pod CIDR; safe for several threads."""

    def __init__(
        self, client: KubeClient, cidr: str, in_use: Callable[[], AbstractSet[str]], ipv6_cidr: str = ""
    ) -> None:
        """`in_use()` gives the addresses of the Pods that are here: a VM that was deleted may have left its guest."""
        self._client = client
        self._cidr = cidr
        self._ipv6_cidr = ipv6_cidr
        self._in_use = in_use
        self._objects: Informer[IpAddress] = Informer(client, IpAddress, label_selector=f"{MANAGED_BY}={MANAGER}")
        self._vms = Informer(client, VirtualMachineHead)
        self._vmis = Informer(client, VirtualMachineInstanceHead)
        # UIDs of owners that were seen to go; None ends a wait. At most one entry per deleted object.
        self._gone: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        # Two Pods at once must not be given one address.
        self._lock = threading.Lock()

    def start(self) -> None:
        """Begin to follow the objects and their owners."""
        self._objects.start()
        self._vms.on_change(self._note_owner_change)
        self._vmis.on_change(self._note_owner_change)
        self._vms.start()
        self._vmis.start()

    def stop(self) -> None:
        """End that."""
        for informer in (self._objects, self._vms, self._vmis):
            informer.stop()

    def end_wait(self) -> None:
        """End a wait for a deletion."""
        self._gone.put(None)

    def wait_synced(self, seconds: float) -> bool:
        """Whether all are known."""
        return self._objects.wait_synced(seconds)

    def owner_of(self, pod: Pod) -> AddressOwner:
        """The VM of a launcher Pod, its VMI when that has no VM, or the Pod itself.

        Raises:
            KubeError: when the API cannot be asked.
        """
        namespace = pod.metadata.namespace
        itself = AddressOwner("Pod", namespace, pod.metadata.name, pod.metadata.uid)
        reference = pod.metadata.controller_reference()
        if reference is None or reference.kind != _VMI or not _is_ours(reference):
            return itself
        try:
            vmi = self._client.get(VirtualMachineInstance, namespace, reference.name)
        except NotFound:
            return itself
        if vmi.metadata.uid != reference.uid:
            # The VMI was made anew under the same name: this Pod is of the one before.
            return itself
        above = vmi.metadata.controller_reference()
        if above is not None and self._is_maker(above, vmi):
            return AddressOwner(_VM, namespace, above.name, above.uid)
        return AddressOwner(_VMI, namespace, vmi.metadata.name, vmi.metadata.uid)

    def _is_maker(self, above: OwnerReference, vmi: VirtualMachineInstance) -> bool:
        """Whether a VMI is a run of that VM, which may be on its way out.

        A user who makes a VMI by hand may write anything into it, also the UID of another user's VM.
        """
        if above.kind != _VM or not _is_ours(above):
            return False
        try:
            vm = self._client.get(VirtualMachineHead, vmi.metadata.namespace, above.name)
        except NotFound:
            return False
        return vm.metadata.uid == above.uid

    def address_for(self, owner: AddressOwner) -> str:
        """The owner's address, given to it now when it has none.

        Raises:
            AddressesExhaustedError: when none is free.
            KubeError: when it cannot be recorded.
        """
        with self._lock:
            known = self._find_name(owner.uid)
            if known is not None:
                return known
            taken = {item.metadata.name for item in self._objects.list()} | self._in_use()
            while True:
                try:
                    address = plan_address(self._cidr, taken)
                except AddressesExhaustedError:
                    if not self._sweep():
                        raise
                    taken = {item.metadata.name for item in self._client.list(IpAddress)} | self._in_use()
                    continue
                try:
                    self._objects.observe(self._client.create(_object(address, owner)))
                except AlreadyExists:
                    # Not told of yet, or somebody else's.
                    taken.add(address)
                    continue
                return address

    def beside(self, address: str) -> str:
        """The IPv6 address that belongs to this one; empty where there is no IPv6."""
        return ipv6_address_beside(self._cidr, self._ipv6_cidr, address) if self._ipv6_cidr else ""

    def release_next(self, seconds: float) -> bool:
        """Wait for an owner to be deleted and give its address back; False when none was within that time.

        An address that a Pod still has is left to :meth:`sweep`.

        Raises:
            KubeError: when the API cannot be asked; :meth:`sweep` finds the address later.
        """
        try:
            uid = self._gone.get(timeout=seconds)
        except queue.Empty:
            return False
        if uid is not None:
            with self._lock:
                self._release([item for item in self._objects.list() if item.metadata.labels.get(OWNER_UID) == uid])
        return True

    def sweep(self) -> None:
        """Give back the addresses whose owners are deleted, seen or not, and which no Pod has any more.

        Raises:
            KubeError: when the API cannot be asked.
        """
        with self._lock:
            self._sweep()

    def _sweep(self) -> bool:
        return self._release([item for item in self._objects.list() if not self._is_owned(item)])

    def _release(self, unowned: list[IpAddress]) -> bool:
        """Give back those that no Pod has; whether there were any."""
        in_use = self._in_use()
        freed = [item for item in unowned if item.metadata.name not in in_use]
        for item in freed:
            try:
                self._client.delete(IpAddress, "", item.metadata.name, Preconditions(uid=item.metadata.uid))
            except NotFound:
                continue
            log.info("address given back", extra={"facts": {"address": item.metadata.name}})
        return bool(freed)

    def _note_owner_change(
        self,
        old: VirtualMachineHead | VirtualMachineInstanceHead | None,
        new: VirtualMachineHead | VirtualMachineInstanceHead | None,
    ) -> None:
        if old is not None and new is None:
            self._gone.put(old.metadata.uid)

    def _find_name(self, uid: str) -> str | None:
        found = (item for item in self._objects.list() if item.metadata.labels.get(OWNER_UID) == uid)
        return next((item.metadata.name for item in found), None)

    def _is_owned(self, item: IpAddress) -> bool:
        parent = item.spec.parent_ref
        if parent is None:
            return False
        prefix = f"/apis/{parent.group}/v1" if parent.group else "/api/v1"
        path = f"{prefix}/namespaces/{parent.namespace}/{parent.resource}/{parent.name}"
        try:
            found = self._client.request("GET", path)
        except NotFound:
            return False
        except KubeError as error:
            log.warning("cannot look for an address' owner", extra={"facts": {"path": path, "error": str(error)}})
            return True
        uid: object = found.get("metadata", {}).get("uid")
        return uid == item.metadata.labels.get(OWNER_UID)


def _is_ours(reference: OwnerReference) -> bool:
    return reference.api_version.rpartition("/")[0] == _GROUP


def _object(address: str, owner: AddressOwner) -> IpAddress:
    labels = {OWNER_UID: owner.uid, MANAGED_BY: MANAGER}
    return IpAddress(metadata=ObjectMeta(name=address, labels=labels), spec=IpAddressSpec(parent_ref=owner.reference))

"""What the subresources need to know of the cluster: VMIs, relays, Pods' addresses, callers' rights.

Used by subresource_server.py. The API client blocks, so that each question is asked in a worker thread of the loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from kvedge.api.access_reviews import REVIEWS, is_allowed, review_of
from kvedge.api.served_paths import SUBRESOURCE_GROUP
from kvedge.api.subresources.caller_rules import Asked, access_review
from kvedge.api.subresources.status_message import VM, VMI, Refusal, bad_request, conflict, internal, not_found_refusal
from kvedge.kube.errors import KubeError, NotFound
from kvedge.kube.kube_client import KubeClient
from kvedge.resources.codec import JsonObject
from kvedge.resources.names import CREATED_BY, GUESTFS_LABEL, HANDLER_ADDRESS
from kvedge.resources.role_users import UserInfo
from kvedge.resources.types.core import Node, Pod
from kvedge.resources.types.vm import VirtualMachine
from kvedge.resources.types.vmi import VirtualMachineInstance

T = TypeVar("T")


class ClusterReader:
    """Questions to one API server, from an event loop."""

    def __init__(self, client: KubeClient) -> None:
        self._client = client

    async def vmi(self, namespace: str, name: str) -> VirtualMachineInstance:
        """The VMI. Raises Refusal."""
        try:
            return await self._ask(lambda: self._client.get(VirtualMachineInstance, namespace, name))
        except NotFound as error:
            raise not_found_refusal(VMI, name) from error

    async def vmi_of_vm(self, namespace: str, name: str) -> VirtualMachineInstance:
        """The VMI that a VM has made. Raises Refusal, also when another one has its name."""
        try:
            vm = await self._ask(lambda: self._client.get(VirtualMachine, namespace, name))
        except NotFound as error:
            raise not_found_refusal(VM, name) from error
        if vm.status.created:
            vmi = await self.vmi(namespace, name)
            owner = vmi.metadata.controller_reference()
            if owner is not None and owner.uid == vm.metadata.uid:
                return vmi
        raise conflict(VM, name, "VMI is not started")

    async def owner(self, vmi: VirtualMachineInstance) -> VirtualMachine | None:
        """The VM whose run it is, None for one that somebody made by hand. Raises Refusal."""
        reference = vmi.metadata.controller_reference()
        if reference is None or reference.kind != "VirtualMachine":
            return None
        namespace = vmi.metadata.namespace
        try:
            vm = await self._ask(lambda: self._client.get(VirtualMachine, namespace, reference.name))
        except NotFound:
            return None
        return vm if vm.metadata.uid == reference.uid else None

    async def vm_document(self, namespace: str, name: str) -> JsonObject:
        """The VM as it is stored. Raises Refusal."""
        path = VirtualMachine.KIND.path(namespace, name)
        try:
            found: JsonObject = await self._ask(lambda: self._client.request("GET", path))
        except NotFound as error:
            raise not_found_refusal(VM, name) from error
        return found

    async def relay_address(self, node: str) -> str:
        """Where a node's relay listens. Raises Refusal."""
        try:
            found = await self._ask(lambda: self._client.get(Node, "", node))
        except NotFound as error:
            raise Refusal(503, f"node {node} is not there") from error
        address = found.metadata.annotations.get(HANDLER_ADDRESS, "")
        if not address:
            raise Refusal(503, f"the handler of node {node} has not said where its relay is; is it running?")
        return address

    async def pod_address(self, vmi: VirtualMachineInstance) -> str:
        """The address of the VMI's launcher Pod, which the guest has.

        Of two Pods between which a guest moves it is that of the VMI's node. Not the one in the VMI's status: a guest's
        agent may have a say in that.

        Raises:
            Refusal: when there is none.
        """
        namespace, uid = vmi.metadata.namespace, vmi.metadata.uid
        pods = await self._ask(lambda: self._client.list(Pod, namespace, f"{CREATED_BY}={uid}"))
        for pod in pods:
            owner = pod.metadata.controller_reference()
            is_its = owner is not None and owner.uid == uid and pod.spec.node_name == vmi.status.node_name
            if is_its and pod.status.phase == "Running" and pod.status.pod_ip:
                return pod.status.pod_ip
        raise bad_request("no network interfaces are present")

    async def may(self, user: UserInfo, asked: Asked) -> bool:
        """Whether the user may do that."""
        review = access_review(user, asked)
        return is_allowed(await self._ask(lambda: self._client.request("POST", REVIEWS, review)))

    async def may_list(self, user: UserInfo, resource: str) -> bool:
        """Whether the user may list this resource of the aggregated API, of the whole cluster. Raises Refusal."""
        review = review_of(user, {"verb": "list", "group": SUBRESOURCE_GROUP, "version": "*", "resource": resource})
        return is_allowed(await self._ask(lambda: self._client.request("POST", REVIEWS, review)))

    async def relays(self) -> dict[str, str]:
        """Where the relays of nodes listen, by node. Raises Refusal."""
        nodes = await self._ask(lambda: self._client.list(Node, ""))
        found = {node.metadata.name: node.metadata.annotations.get(HANDLER_ADDRESS, "") for node in nodes}
        return {node: address for node, address in found.items() if address}

    async def version(self) -> str:
        """The API server's version. Raises Refusal."""
        found = await self._ask(lambda: self._client.request("GET", "/version"))
        return str(found.get("gitVersion", ""))

    async def has_guestfs(self) -> bool:
        """Whether a node gives its own libguestfs to Pods that ask for it by their image. Raises Refusal."""
        return bool(await self._ask(lambda: self._client.list(Node, "", f"{GUESTFS_LABEL}=true")))

    async def _ask(self, ask: Callable[[], T]) -> T:
        try:
            return await asyncio.to_thread(ask)
        except NotFound:
            raise
        except KubeError as error:
            raise internal(f"the API server: {error.message or error}") from error

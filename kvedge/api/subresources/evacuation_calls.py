"""evacuate/cancel of VMs and VMIs: takes away the mark by which a guest is to leave its node.

Called by the subresource server in a worker thread, as the API client blocks. Codes and words are KubeVirt's. A
migration that runs is not stopped.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from kvedge.api.subresources.call_options import EvacuateCancelOptions, parse_options
from kvedge.api.subresources.status_message import VM, VMI, bad_request, conflict, internal, not_found_refusal
from kvedge.kube.errors import KubeError, NotFound
from kvedge.kube.kube_client import KubeClient
from kvedge.resources.codec import JsonObject
from kvedge.resources.evacuation import DRAIN_EFFECT, has_drain_taint, is_marked
from kvedge.resources.guest_verbs import VM_PLURAL, GuestVerb
from kvedge.resources.types.core import Node
from kvedge.resources.types.vm import VirtualMachine
from kvedge.resources.types.vmi import VirtualMachineInstance

_MARK: Final = "/status/evacuationNodeName"
_JSON_PATCH: Final = "application/json-patch+json"


class EvacuationCalls:
    """The call for the VMs and VMIs of one API server."""

    def __init__(self, client: KubeClient, taint_key: Callable[[], str]) -> None:
        """`taint_key` is that of the taint by which nodes are emptied."""
        self._client = client
        self._taint_key = taint_key

    def call(self, verb: GuestVerb, namespace: str, name: str, body: bytes) -> None:
        """What a verb of the table asks, with its options in the body. Raises Refusal."""
        EVACUATION[verb.name](self, verb, namespace, name, body)

    def cancel(self, verb: GuestVerb, namespace: str, name: str, body: bytes) -> None:
        """Have the guest stay. Raises Refusal."""
        vmi = self._vmi_of_vm(namespace, name) if verb.resource == VM_PLURAL else self._vmi(namespace, name)
        self._check_node(vmi)
        if not is_marked(vmi):
            return
        options = parse_options(EvacuateCancelOptions, body)
        # Not by the version: a mark for another node, which came meanwhile, is not the one that is cancelled.
        operations: list[JsonObject] = [
            {"op": "test", "path": _MARK, "value": options.evacuation_node_name},
            {"op": "remove", "path": _MARK},
        ]
        query = {"dryRun": "All"} if options.is_dry_run else {}
        path = VirtualMachineInstance.KIND.path(namespace, vmi.metadata.name)
        try:
            self._client.request("PATCH", path, operations, query, _JSON_PATCH)
        except KubeError as error:
            raise internal(error.message or str(error)) from error

    def _check_node(self, vmi: VirtualMachineInstance) -> None:
        """A node that is emptied by its taint would have the guest leave all the same. Raises Refusal."""
        name = vmi.status.evacuation_node_name or vmi.status.node_name
        if not name:
            return
        try:
            node = self._client.get(Node, "", name)
        except KubeError as error:
            raise internal(error.message or str(error)) from error
        key = self._taint_key()
        if has_drain_taint(node, key):
            raise bad_request(f'Node "{name}" has NodeDrainTaintKey "{key}:{DRAIN_EFFECT}"')

    def _vmi_of_vm(self, namespace: str, name: str) -> VirtualMachineInstance:
        try:
            vm = self._client.get(VirtualMachine, namespace, name)
        except NotFound as error:
            raise not_found_refusal(VM, name) from error
        if vm.status.created:
            vmi = self._vmi(namespace, name)
            owner = vmi.metadata.controller_reference()
            if owner is not None and owner.uid == vm.metadata.uid:
                return vmi
        raise conflict(VM, name, "VMI is not started")

    def _vmi(self, namespace: str, name: str) -> VirtualMachineInstance:
        try:
            return self._client.get(VirtualMachineInstance, namespace, name)
        except NotFound as error:
            raise not_found_refusal(VMI, name) from error


# The implementation of each verb of the way `evacuation`.
EVACUATION: Final[Mapping[str, Callable[[EvacuationCalls, GuestVerb, str, str, bytes], None]]] = {
    "evacuate/cancel": EvacuationCalls.cancel,
}

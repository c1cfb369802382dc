"""memorydump and removememorydump of a VM: reads what the rules judge, and writes the request into the VM's status.

Called by the subresource server in a worker thread, as the API client blocks. 202 means that it is written down: the
controller brings the claim to the guest, the guest's node has its memory written, and `status.memoryDumpRequest` tells
how far that is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from kvedge.api.subresources.call_options import CallOptions, MemoryDumpOptions, parse_options
from kvedge.api.subresources.guest_rules import check_vmi_running
from kvedge.api.subresources.memory_dump_rules import CLAIM, check_dump, choose_claim, dump_request, removal_request
from kvedge.api.subresources.status_message import VM, VMI, bad_request, conflict, internal, not_found_refusal
from kvedge.api.subresources.volume_rules import NO_GATE
from kvedge.kube.errors import Conflict, Invalid, KubeError, NotFound
from kvedge.kube.kube_client import KubeClient
from kvedge.kube.patches import at_version, merge_difference
from kvedge.resources.codec import encode
from kvedge.resources.configuration.feature_gates import DECLARATIVE_HOTPLUG, HOTPLUG_VOLUMES, FeatureGates
from kvedge.resources.guest_verbs import GuestVerb
from kvedge.resources.types.data_volumes import CONFIG_NAME, CdiConfig
from kvedge.resources.types.storage import PersistentVolumeClaim
from kvedge.resources.types.vm import MemoryDumpRequest, VirtualMachine
from kvedge.resources.types.vmi import VirtualMachineInstance

_TRIES: Final = 5


class MemoryDumpCalls:
    """The two calls for the VMs of one API server."""

    def __init__(self, client: KubeClient, gates: Callable[[], FeatureGates]) -> None:
        self._client = client
        self._gates = gates

    def call(self, verb: GuestVerb, namespace: str, name: str, body: bytes) -> None:
        """What a verb of the table asks, with its options in the body. Raises Refusal."""
        MEMORY[verb.name](self, namespace, name, body)

    def dump(self, namespace: str, name: str, body: bytes) -> None:
        """Have the guest's memory written into a claim. Raises Refusal."""
        gates = self._gates()
        if not (gates.is_on(DECLARATIVE_HOTPLUG) or gates.is_on(HOTPLUG_VOLUMES)):
            raise bad_request(NO_GATE)
        options = parse_options(MemoryDumpOptions, body)

        def decide(vm: VirtualMachine) -> MemoryDumpRequest:
            claim = choose_claim(vm, options.claim_name)
            vmi = self._read_run(vm)
            check_vmi_running(vmi)
            check_dump(vmi, self._read_claim(namespace, claim), self._read_config())
            return dump_request(vm, vmi, claim)

        self._write(namespace, name, decide, options)

    def remove(self, namespace: str, name: str, body: bytes) -> None:
        """Have the claim let go; what is in it stays. Raises Refusal."""
        self._write(namespace, name, removal_request, parse_options(CallOptions, body))

    def _write(
        self,
        namespace: str,
        name: str,
        decide: Callable[[VirtualMachine], MemoryDumpRequest],
        options: CallOptions,
    ) -> None:
        """Read, decide, write; decided again when somebody else has changed the VM meanwhile."""
        for _ in range(_TRIES):
            try:
                vm = self._client.get(VirtualMachine, namespace, name)
            except NotFound as error:
                raise not_found_refusal(VM, name) from error
            old, request = vm.status.memory_dump_request, decide(vm)
            if options.is_dry_run:
                return
            change = merge_difference({} if old is None else encode(old), encode(request))
            # Also one that is the same as before, to be done again.
            body = {"status": {"memoryDumpRequest": change or encode(request)}}
            try:
                self._client.patch(
                    VirtualMachine, namespace, name, at_version(body, vm.metadata.resource_version), "status"
                )
            except Conflict:
                continue
            except NotFound as error:
                raise not_found_refusal(VM, name) from error
            except Invalid as error:
                raise conflict(VM, name, error.message) from error
            except KubeError as error:
                raise internal(f"unable to patch vm status: {error.message or error}") from error
            return
        raise conflict(VM, name, "the object has been modified; please apply your changes to the latest version")

    def _read_run(self, vm: VirtualMachine) -> VirtualMachineInstance:
        name = vm.metadata.name
        try:
            vmi = self._client.get(VirtualMachineInstance, vm.metadata.namespace, name)
        except NotFound as error:
            raise not_found_refusal(VMI, name) from error
        owner = vmi.metadata.controller_reference()
        if owner is None or owner.uid != vm.metadata.uid:
            raise conflict(VMI, name, "it is no run of the VM")
        return vmi

    def _read_claim(self, namespace: str, name: str) -> PersistentVolumeClaim:
        try:
            return self._client.get(PersistentVolumeClaim, namespace, name)
        except NotFound as error:
            raise not_found_refusal(CLAIM, name) from error

    def _read_config(self) -> CdiConfig | None:
        """What file systems take of claims; None where nobody has said so, or CDI's kinds are not there."""
        try:
            return self._client.get(CdiConfig, "", CONFIG_NAME)
        except NotFound:
            return None


# The implementation of each verb of the way `memory`.
MEMORY: Final[Mapping[str, Callable[[MemoryDumpCalls, str, str, bytes], None]]] = {
    "memorydump": lambda calls, at, name, body: calls.dump(at, name, body),
    "removememorydump": lambda calls, at, name, body: calls.remove(at, name, body),
}

"""The call `objectgraph` of VMs and VMIs: what belongs to them.

Called by the subresource server in a worker thread, as the API client blocks. Codes and words are KubeVirt's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kvedge.api.subresources.call_options import CallOptions, parse_options
from kvedge.api.subresources.graphs.object_graph import Wanted, graph_of_vm, graph_of_vmi
from kvedge.api.subresources.status_message import VM, VMI, bad_request, not_found_refusal
from kvedge.kube.errors import NotFound
from kvedge.kube.kube_client import KubeClient
from kvedge.resources.codec import JsonObject
from kvedge.resources.configuration.feature_gates import OBJECT_GRAPH, FeatureGates
from kvedge.resources.guest_verbs import VM_PLURAL, GuestVerb
from kvedge.resources.label_selectors import selector_of, selector_problems
from kvedge.resources.meta import LabelSelector
from kvedge.resources.names import CREATED_BY
from kvedge.resources.types.core import Pod
from kvedge.resources.types.vm import VirtualMachine
from kvedge.resources.types.vmi import VirtualMachineInstance

# KubeVirt's words, and the remedy.
_NO_GATE: Final = (
    f"ObjectGraph feature gate not enabled: Unable to return object graph. Name {OBJECT_GRAPH} in"
    " spec.configuration.developerConfiguration.featureGates of the KubeVirt object"
)


class GraphOptions(CallOptions, kw_only=True):
    """KubeVirt's ObjectGraphOptions; optional nodes are told unless the caller says no."""

    include_optional_nodes: bool | None = None
    label_selector: LabelSelector | None = None


class GraphCalls:
    """The call for the VMs and VMIs of one API server."""

    def __init__(self, client: KubeClient, gates: Callable[[], FeatureGates]) -> None:
        self._client = client
        self._gates = gates

    def call(self, verb: GuestVerb, namespace: str, name: str, body: bytes) -> JsonObject:
        """The tree of the VM or VMI. Raises Refusal."""
        if not self._gates().is_on(OBJECT_GRAPH):
            raise bad_request(_NO_GATE)
        wanted = _read_wanted(body)
        if verb.resource != VM_PLURAL:
            vmi = self._find_run(namespace, name)
            if vmi is None:
                raise not_found_refusal(VMI, name)
            return graph_of_vmi(vmi, self._find_pod(vmi), wanted).document()
        try:
            vm = self._client.get(VirtualMachine, namespace, name)
        except NotFound as error:
            raise not_found_refusal(VM, name) from error
        run = self._find_run(namespace, name) if vm.status.created else None
        return graph_of_vm(vm, self._find_pod(run) if run is not None else None, wanted).document()

    def _find_run(self, namespace: str, name: str) -> VirtualMachineInstance | None:
        try:
            return self._client.get(VirtualMachineInstance, namespace, name)
        except NotFound:
            return None

    def _find_pod(self, vmi: VirtualMachineInstance) -> str | None:
        """Of two Pods between which a guest moves that of the VMI's node."""
        pods = self._client.list(Pod, vmi.metadata.namespace, f"{CREATED_BY}={vmi.metadata.uid}")
        names = [pod.metadata.name for pod in pods if pod.spec.node_name == vmi.status.node_name]
        return min(names, default=None)


def _read_wanted(body: bytes) -> Wanted:
    options = parse_options(GraphOptions, body)
    document = options.label_selector or LabelSelector()
    for path, problem in selector_problems(document):
        raise bad_request(f"labelSelector{'.' if path else ''}{path}: {problem}")
    return Wanted(options.include_optional_nodes is not False, selector_of(document))

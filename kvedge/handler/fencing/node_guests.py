"""Which guests of this node are to be ended when it is lost, as the API last said.

Used by the fence keeper. Has informers of its own, so that nothing that holds up the handler's sync loop holds up this.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol

from msgspec import Struct, field

from kvedge.kube.informer import Informer
from kvedge.kube.kube_client import KubeClient
from kvedge.resources.configuration.configuration_in_force import counting
from kvedge.resources.names import MIGRATION_TARGET_NODE, NODE_NAME
from kvedge.resources.node_loss.fence_terms import FenceTerms, read_terms
from kvedge.resources.node_loss.node_lease import asks_for_restart
from kvedge.resources.types.kubevirt import KubeVirt
from kvedge.resources.types.vmi import VirtualMachineInstance


class Wish(Struct, frozen=True):
    """What the API asks of this node: terms, None where it is not to fence itself; guests that are to be ended, with
    their Pods; and all VMIs that are on it.
    """

    terms: FenceTerms | None = None
    guests: Mapping[str, str] = field(default_factory=dict)
    here: frozenset[str] = field(default_factory=frozenset)


class Wishes(Protocol):
    """Where a wish comes from."""

    def read(self) -> Wish | None:
        """The wish now; None before the API has said anything."""


class NodeGuests:
    """The informers of the fence keeper."""

    def __init__(self, client: KubeClient, node: str) -> None:
        self._node = node
        self._kubevirts = Informer(client, KubeVirt)
        self._vmis = Informer(client, VirtualMachineInstance, label_selector=f"{NODE_NAME}={node}")
        self._coming = Informer(client, VirtualMachineInstance, label_selector=f"{MIGRATION_TARGET_NODE}={node}")
        self._follows_vmis = False

    def start(self) -> None:
        """Begin to follow the KubeVirt object; VMIs are followed once it asks for fencing."""
        self._kubevirts.start()

    def stop(self) -> None:
        """End the informers."""
        for informer in (self._kubevirts, self._vmis, self._coming):
            informer.stop()

    def failure(self) -> str | None:
        """The first informer that failed."""
        return self._kubevirts.failure() or self._vmis.failure() or self._coming.failure()

    def read(self) -> Wish | None:
        """The wish now; None before the API has said anything."""
        if not self._kubevirts.wait_synced(0):
            return None
        kubevirt = counting(self._kubevirts.list())
        terms = None if kubevirt is None else read_terms(kubevirt.metadata.annotations)
        if not self._follows_vmis:
            if terms is None:
                return Wish()
            self._follows_vmis = True
            self._vmis.start()
            self._coming.start()
        if not (self._vmis.wait_synced(0) and self._coming.wait_synced(0)):
            return None
        there = list(self._list_vmis())
        asked = {
            vmi.metadata.uid: _find_pod(vmi, self._node) for vmi in there if asks_for_restart(vmi.metadata.annotations)
        }
        return Wish(terms, asked if terms is not None else {}, frozenset(vmi.metadata.uid for vmi in there))

    def _list_vmis(self) -> Iterator[VirtualMachineInstance]:
        for vmi in self._vmis.list():
            if vmi.status.node_name == self._node and not vmi.is_final:
                yield vmi
        for vmi in self._coming.list():
            state = vmi.status.migration_state
            if state is not None and state.is_open and state.target_node == self._node and not vmi.is_final:
                yield vmi


def _find_pod(vmi: VirtualMachineInstance, node: str) -> str:
    return next((pod for pod, where in vmi.status.active_pods.items() if where == node), "")

"""The guests of one node that are on their way: those that leave it, and those that are to come.

Kept by the sync loop, which works on both under the same key: no guest's node is where it comes to. Chooses which
side's steps apply; these are in `kvedge/handler/migration`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from msgspec import Struct

from kvedge.handler.launchers.launcher_connections import Key
from kvedge.handler.launchers.sync_plan import LauncherView
from kvedge.handler.migration.crossing_desk import CrossingDesk
from kvedge.handler.migration.crossing_line import CrossingLine
from kvedge.handler.migration.incoming_channels import IncomingChannels
from kvedge.handler.migration.outgoing_service import OutgoingService
from kvedge.handler.migration.source_steps import SourceOutcome, SourceSteps
from kvedge.handler.migration.target_plan import comes
from kvedge.handler.migration.target_steps import TargetSteps
from kvedge.kube.informer import Informer
from kvedge.kube.object_cache import version_number
from kvedge.kube.reconcile_loop import Again
from kvedge.resources.types.vmi import VirtualMachineInstance


class Mobility(NamedTuple):
    """What a node has where guests come and go: the VMIs that are to come, who is let in, the ways of those that leave,
    and where they come to, or why there is no such place.
    """

    coming: Informer[VirtualMachineInstance]
    incoming: IncomingChannels
    outgoing: OutgoingService
    address: Callable[[], str]
    trouble: Callable[[], str] = str
    # Guests of other boxes: who speaks of them, how others are spoken to, and where they come to.
    desk: CrossingDesk | None = None
    line: CrossingLine | None = None
    crossing_address: Callable[[], str] = str


class MovingGuests(Struct, frozen=True):
    """All of one node."""

    coming: Informer[VirtualMachineInstance]
    sources: SourceSteps
    targets: TargetSteps
    node: str

    def find_coming(self, key: Key, own: VirtualMachineInstance | None) -> VirtualMachineInstance | None:
        """The VMI of this name whose guest is to come here; None when the name is that of one of this node's, or of
        none.
        """
        found = self.coming.get(*key)
        if found is not None and _is_newer(found, own) and comes(found, self.node) is not None:
            return found
        if own is not None and own.status.node_name == self.node:
            self.targets.keep(key)
        else:
            self.targets.forget(key)
        return None

    def receive(self, key: Key, vmi: VirtualMachineInstance) -> Again | None:
        """One pass over a guest that is to come. Raises KubeError when the VMI cannot be written."""
        return self.targets.reconcile(key, vmi)

    def look(self, key: Key, vmi: VirtualMachineInstance, view: LauncherView) -> SourceOutcome:
        """One pass over a guest of this node, which may leave it. Raises KubeError when the VMI cannot be written."""
        self.targets.tell_arrived(key, vmi)
        return self.sources.look(key, vmi, view)

    def forget(self, key: Key) -> None:
        """No guest of this name is this node's."""
        if self.targets.crossing is not None:
            self.targets.crossing.forget(key)
        self.sources.forget(key)


def _is_newer(coming: VirtualMachineInstance, own: VirtualMachineInstance | None) -> bool:
    """Whether it was read later than what is here under its name: the caches of both kinds know of no other."""
    if own is None:
        return True
    return version_number(coming.metadata.resource_version) > version_number(own.metadata.resource_version)

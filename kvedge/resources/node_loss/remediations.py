"""SelfNodeRemediation: Medik8s' object of a node that it has reset (self-node-remediation.medik8s.io/v1alpha1).

Read by the controller, and written by Medik8s alone. Only what kvedge reads of it.
"""

from __future__ import annotations

from typing import ClassVar, Final

from msgspec import field

from kvedge.resources.codec import KubeStruct
from kvedge.resources.kinds import Kind
from kvedge.resources.meta import ObjectMeta

# Medik8s has reset the node, or takes it for reset. Before them it has only begun.
PHASES_AFTER_RESET: Final = frozenset({"Reboot-Completed", "Fencing-Completed"})
# The node's name where the object has another one.
_NODE_NAME: Final = "remediation.medik8s.io/node-name"


class RemediationStatus(KubeStruct, kw_only=True):
    """How far it is."""

    phase: str | None = None


class SelfNodeRemediation(KubeStruct, kw_only=True):
    """One node that is reset."""

    KIND: ClassVar[Kind] = Kind(
        "self-node-remediation.medik8s.io", "v1alpha1", "SelfNodeRemediation", "selfnoderemediations"
    )
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    status: RemediationStatus = field(default_factory=RemediationStatus)

    @property
    def node(self) -> str:
        """The node's name."""
        return self.metadata.annotations.get(_NODE_NAME) or self.metadata.name

    @property
    def is_after_reset(self) -> bool:
        """Whether nothing of before runs on the node any more, by Medik8s' word."""
        return self.status.phase in PHASES_AFTER_RESET

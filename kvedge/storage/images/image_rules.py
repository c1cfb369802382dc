"""Which image a container gets: the pull policies of Kubernetes, for a store that is also fed by hand.

Called by the node agent for each container and image volume. Decides only: no network, no file system.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, TypeAlias

from msgspec import Struct

from kvedge.storage.images.image_names import ImageName


class PullPolicy(StrEnum):
    """imagePullPolicy."""

    ALWAYS = "Always"
    IF_NOT_PRESENT = "IfNotPresent"
    NEVER = "Never"


class Origin(StrEnum):
    """How an image came into the store."""

    IMPORTED = "imported"
    PULLED = "pulled"


class UseLocal(Struct, frozen=True):
    """Use what is in the store; `note` says why, for the Pulled event."""

    note: str


class Pull(Struct, frozen=True):
    """Ask the registry; when it does not answer, `fallback` allows the local copy, with an explicit note."""

    fallback: bool


class Refuse(Struct, frozen=True):
    """There is no way to this image: the container waits with this reason (ErrImageNeverPull) and message."""

    reason: str
    message: str


PullDecision: TypeAlias = UseLocal | Pull | Refuse

ERR_IMAGE_NEVER_PULL: Final = "ErrImageNeverPull"
# Names of images that kvedge writes itself: no registry has them.
LOCAL_REGISTRY: Final = "kvedge.local"


def effective_policy(name: ImageName, policy: str) -> PullPolicy:
    """The policy of a container that may name none: Always for :latest, else IfNotPresent, as Kubernetes defaults it.

    Raises:
        ValueError: when `policy` is none of Kubernetes' three.
    """
    if policy:
        return PullPolicy(policy)
    return PullPolicy.ALWAYS if name.tagged_latest else PullPolicy.IF_NOT_PRESENT


def decide_pull(name: ImageName, policy: PullPolicy, local: Origin | None) -> PullDecision:
    """What to do for a container that asks for `name`; `local` is how the store's copy came, None without a copy."""
    if local is None and policy is PullPolicy.NEVER:
        return Refuse(ERR_IMAGE_NEVER_PULL, f'Container image "{name}" is not present with pull policy of Never')
    if local is None and name.registry == LOCAL_REGISTRY:
        return Refuse(
            ERR_IMAGE_NEVER_PULL, f'Container image "{name}" is not in the local image store, and no registry has it'
        )
    if local is None:
        return Pull(fallback=False)
    if local is Origin.IMPORTED:
        # The user who imported a file under this name wants that file, and a box without a network must start its VMs.
        return UseLocal(f'Container image "{name}" was imported on this machine; it is used as it is')
    if policy is PullPolicy.ALWAYS and not name.digest:
        return Pull(fallback=True)
    return UseLocal(f'Container image "{name}" already present on machine')

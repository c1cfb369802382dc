"""What the upload proxy lets through: tokens in headers, claims in the right state, a number of uploads, a pace.

Called by upload_proxy.py. Pure. Status codes and the words about claims are CDI's, as clients know them.
"""

from __future__ import annotations

import re
from typing import Final

from kvedge.api.transfer_slots import TransferRefused, TransferSlots
from kvedge.resources.data_volume_names import POD_PHASE, POD_READY, UPLOAD_TARGET
from kvedge.resources.types.data_volumes import DataVolume
from kvedge.resources.types.storage import PersistentVolumeClaim

_BEARER: Final = re.compile(r"[Bb]earer ([\w-]+\.[\w-]+\.[\w-]+)", re.ASCII)
# Each upload has two connections and some 300 kB; a disk is slower than a few of them.
MOST_UPLOADS: Final = 32
# So many of one namespace: others shall not wait for it.
MOST_OF_ONE: Final = 8
# A client is waited for so long for so many bytes, 1 KiB/s: slow lines have ten times that, and clients that drip have
# less.
PACE_SECONDS: Final = 60.0
PACE_BYTES: Final = 60 << 10


def bearer_token(header: str) -> str:
    """The token in an Authorization header.

    Raises:
        TransferRefused: 400 when there is none.
    """
    if not header:
        raise TransferRefused(400, "the header Authorization is missing: send `Bearer TOKEN` of an UploadTokenRequest")
    found = _BEARER.fullmatch(header.strip())
    if found is None:
        raise TransferRefused(
            400, "the header Authorization is malformed: send `Bearer TOKEN` of an UploadTokenRequest"
        )
    return found[1]


def takes_data(claim: PersistentVolumeClaim | None, name: str) -> bool:
    """Whether a claim's worker is ready; False while it may become so.

    Raises:
        TransferRefused: 503 when it never will.
    """
    if claim is None:
        raise TransferRefused(503, f"rejecting Upload Request for PVC {name} that doesn't exist")
    annotations = claim.metadata.annotations
    if annotations.get(POD_PHASE) == "Succeeded":
        raise TransferRefused(503, f"rejecting Upload Request for PVC {name} that already finished uploading")
    return annotations.get(POD_READY, "").lower() in ("true", "1", "t")


def not_ready_yet(claim: PersistentVolumeClaim) -> TransferRefused:
    """The refusal after a while in which the worker did not become ready."""
    name, phase = claim.metadata.name, claim.metadata.annotations.get(POD_PHASE, "")
    if claim.status.phase != "Bound":
        why = f"the PVC is {claim.status.phase or 'Pending'}: see `kubectl describe pvc {name}`"
    elif not phase and not _is_to_be_filled(claim):
        why = f"it has no worker: `image-upload pvc {name}` marks it with the annotation {UPLOAD_TARGET}"
        return TransferRefused(503, f"rejecting Upload Request for PVC {name}: {why}")
    elif not phase:
        why = "its worker is not there yet"
    else:
        why = f"its worker is {phase} and not ready yet"
    return TransferRefused(503, f"rejecting Upload Request for PVC {name}: {why}; try again")


def _is_to_be_filled(claim: PersistentVolumeClaim) -> bool:
    is_volume = any(owner.kind == DataVolume.KIND.kind for owner in claim.metadata.owner_references)
    return is_volume or UPLOAD_TARGET in claim.metadata.annotations


def upload_slots(most: int = MOST_UPLOADS, of_one: int = MOST_OF_ONE) -> TransferSlots:
    """The uploads that may be under way."""
    return TransferSlots(most, of_one, ("uploads", "into"))


class UploadPace:
    """How long a client was waited for. Time in which the worker takes nothing is not the client's."""

    def __init__(self) -> None:
        self._waited = 0.0
        self._bytes = 0

    @property
    def patience(self) -> float:
        """For how many seconds the next bytes may be waited for."""
        return PACE_SECONDS - self._waited

    def note_arrival(self, waited: float, size: int) -> None:
        """So many bytes came after a wait of so many seconds.

        Raises:
            TransferRefused: 408 when they came too slowly; the wait for the first of them is one of its own.
        """
        self._waited += waited
        self._bytes += size
        if self._bytes >= PACE_BYTES:
            self._waited, self._bytes = 0.0, 0
        elif self._waited >= PACE_SECONDS:
            raise too_slow()


def too_slow() -> TransferRefused:
    """The refusal of a client that stalls or drips."""
    rate = PACE_BYTES // int(PACE_SECONDS)
    return TransferRefused(
        408, f"the upload was ended: less than {rate} bytes a second came for {PACE_SECONDS:g} seconds"
    )

"""Makes what a DataVolume's plan asks for, and remembers what the server refused.

Used by the loop of DataVolumes. A refusal, such as a quota's, is told in the DataVolume's status, and nothing is tried
again for some seconds.
"""

from __future__ import annotations

from typing import Final

from kvedge.controller.datavolumes.claim_plan import ClaimProblem
from kvedge.controller.datavolumes.data_volume_view import CreateClaim, CreateWorker
from kvedge.controller.datavolumes.remote_clone_plan import CreateSender, KeepCertificate, SenderAction
from kvedge.controller.datavolumes.workers.foreign_workers import foreign_worker
from kvedge.controller.datavolumes.workers.upload_certificates import (
    ensure_sender_certificates,
    ensure_upload_certificates,
)
from kvedge.kube.errors import AlreadyExists, Conflict, Forbidden, KubeError, NotFound, Unavailable
from kvedge.kube.informer import Informer
from kvedge.kube.kube_client import KubeClient
from kvedge.kube.reconcile_loop import Again
from kvedge.resources.types.core import Pod
from kvedge.resources.types.data_volumes import DataVolume
from kvedge.resources.types.storage import PersistentVolumeClaim
from kvedge.runtime.clock import Clock

# When the cache turned out to be behind: the watch needs a moment.
_CAUGHT_UP_SECONDS: Final = 0.1
# After a server's refusal, such as a quota's: room may come at any time.
_REFUSED_SECONDS: Final = 10.0
_QUOTA: Final = "exceeded quota"
_LONGEST_REFUSAL: Final = 1024


class Creations:
    """What the server last refused of each DataVolume, and until when it is left alone; by its UID."""

    def __init__(
        self, client: KubeClient, claims: Informer[PersistentVolumeClaim], workers: Informer[Pod], clock: Clock
    ) -> None:
        self._client = client
        self._claims = claims
        self._workers = workers
        self._clock = clock
        self._refused: dict[str, tuple[ClaimProblem, float]] = {}

    def refusal(self, uid: str) -> ClaimProblem | None:
        """What was refused last, since something was made."""
        refused = self._refused.get(uid)
        return None if refused is None else refused[0]

    def forget(self, uid: str) -> None:
        """The DataVolume is gone."""
        self._refused.pop(uid, None)

    def create(self, dv: DataVolume, action: CreateClaim | CreateWorker | SenderAction) -> Again | None:
        uid = dv.metadata.uid
        refused = self._refused.get(uid)
        if refused is not None and (left := refused[1] - self._clock.monotonic()) > 0:
            return Again(left)
        try:
            match action:
                case CreateClaim(claim):
                    self._claims.observe(self._client.create(claim))
                case CreateWorker(claim, pod, upload):
                    if upload:
                        ensure_upload_certificates(self._client, claim, self._clock.now())
                    self._workers.observe(self._client.create(pod))
                case CreateSender(claim, pod):
                    # The Pod first, as its Secret goes with it.
                    made = self._client.create(pod)
                    self._workers.observe(made)
                    ensure_sender_certificates(self._client, claim, made, self._clock.now())
                case KeepCertificate(claim, pod):
                    ensure_sender_certificates(self._client, claim, pod, self._clock.now())
        except AlreadyExists:
            # The cache is behind, or something else has the name.
            problem = foreign_worker(self._client, action.pod) if isinstance(action, CreateWorker) else None
            return Again(_CAUGHT_UP_SECONDS * 10) if problem is None else self._keep_refusal(dv, problem)
        except (Conflict, Unavailable):
            raise
        except NotFound:
            # The authority of uploads, or the namespace, is not there (any more).
            return Again(1.0)
        except KubeError as error:
            return self._note_refusal(dv, error)
        self._refused.pop(uid, None)
        return None

    def _note_refusal(self, dv: DataVolume, error: KubeError) -> Again:
        text = str(error)[:_LONGEST_REFUSAL]
        over_quota = isinstance(error, Forbidden) and _QUOTA in text
        return self._keep_refusal(dv, ClaimProblem("ErrExceededQuota" if over_quota else "ErrCreateFailed", text))

    def _keep_refusal(self, dv: DataVolume, problem: ClaimProblem) -> Again:
        before = self._refused.get(dv.metadata.uid)
        self._refused[dv.metadata.uid] = (problem, self._clock.monotonic() + _REFUSED_SECONDS)
        # At once, for the status to say so; then after the wait.
        return Again(_CAUGHT_UP_SECONDS if before is None or before[0] != problem else _REFUSED_SECONDS)

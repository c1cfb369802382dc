"""Has the server give a launcher's Pod another size, and keeps what it says against that.

Held by `vmi_steps`. Writes `pods/resize` and the VMI's `status.podRoom`. A refusal is on the VMI, whose handler shows
it in the condition of the change, and in an event; the order is given again with pauses that grow.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable
from typing import Final

from kvedge.controller.vm.create_patience import CreatePatience
from kvedge.controller.vm.create_refusal import is_over_quota, is_unjudged
from kvedge.controller.vmi.resizing.room_reasons import OTHER_POD
from kvedge.controller.vmi.vmi_view import PatchVmi, ResizePod
from kvedge.kube.errors import Conflict, KubeError, NotFound
from kvedge.kube.events import EventRecorder
from kvedge.kube.informer import Informer
from kvedge.kube.kube_client import KubeClient
from kvedge.kube.patches import StrategicPatch, merge_difference
from kvedge.resources.codec import JsonObject, encode
from kvedge.resources.moves.pod_room import NOT_SERVED, OVER_QUOTA, REFUSED, with_reason
from kvedge.resources.types.core import Pod
from kvedge.resources.types.vmi import PodRoom, VirtualMachineInstance

# Not every server says which of its subresources it lacks in another way.
_NO_SUCH_CALL = frozenset({404, 405})
_INVALID: Final = 422
_LIMITS_KEPT_SECONDS: Final = 3600.0


class PodResizer:
    """The refusals of all VMIs, by UID; one VMI is worked on by one thread at a time."""

    def __init__(
        self, client: KubeClient, pods: Informer[Pod], events: EventRecorder, monotonic: Callable[[], float]
    ) -> None:
        """`pods` hear of what was written."""
        self._client = client
        self._pods = pods
        self._events = events
        self._patience = CreatePatience(monotonic)
        self._monotonic = monotonic
        # One for all Pods of the server, which is asked again later: somebody may have upgraded it.
        self._keeps_limits_until = -math.inf

    def forget(self, uid: str) -> None:
        """A VMI has gone."""
        self._patience.forget(uid)

    def keeps_limits(self) -> bool:
        """Whether the server lowers no memory limit, as Kubernetes 1.33, as far as that is known."""
        return self._monotonic() < self._keeps_limits_until

    def resize(
        self, vmi: VirtualMachineInstance, order: ResizePod, write: Callable[[PatchVmi], object]
    ) -> float | None:
        """Give the order unless its time has not come; in how many seconds to give it again, None when it was taken.

        `write` changes the VMI.

        Raises:
            KubeError: when the server has not judged it.
        """
        uid, version = vmi.metadata.uid, zlib.crc32(str(order.body).encode()) + 1
        wait = self._patience.count_seconds_left(uid, version)
        if wait > 0:
            return wait
        try:
            self._give(order)
        except Conflict:
            raise
        except KubeError as error:
            if is_unjudged(error) or (isinstance(error, NotFound) and not self._is_there(order.pod)):
                raise
            self._note(vmi, error, write)
            return self._patience.note_refusal(uid, version)
        self._patience.forget(uid)
        return None

    def _give(self, order: ResizePod) -> None:
        try:
            self._patch(order.pod, order.body)
        except KubeError as error:
            if error.status != _INVALID or order.keeping_memory is None:
                raise
            # Refused as a whole, what grows with what shrinks.
            self._patch(order.pod, order.keeping_memory)
            self._keeps_limits_until = self._monotonic() + _LIMITS_KEPT_SECONDS

    def _patch(self, pod: Pod, body: JsonObject) -> None:
        meta = pod.metadata
        self._pods.observe(self._client.patch(Pod, meta.namespace, meta.name, StrategicPatch(body), "resize"))

    def _is_there(self, pod: Pod) -> bool:
        try:
            self._client.get(Pod, pod.metadata.namespace, pod.metadata.name)
        except NotFound:
            return False
        return True

    def _note(self, vmi: VirtualMachineInstance, error: KubeError, write: Callable[[PatchVmi], object]) -> None:
        room = vmi.status.pod_room or PodRoom(node=vmi.status.node_name)
        reason, message = explain_refusal(error)
        self._events.record(vmi, "Warning", "FailedResize", message)
        told: JsonObject = encode(with_reason(room, vmi, reason, message))
        change = merge_difference(encode(room), told)
        if change:
            write(PatchVmi({"status": {"podRoom": change}}))


def explain_refusal(error: KubeError) -> tuple[str, str]:
    """Why the server does not resize a Pod, as a reason and as a sentence."""
    if is_over_quota(error):
        return OVER_QUOTA, f"the guest's Pod may not grow, which is tried again: {error}"
    if error.status in _NO_SUCH_CALL:
        text = "the API server resizes no Pods, as those of Kubernetes before 1.33"
        return NOT_SERVED, f"{text}; {OTHER_POD}"
    return REFUSED, f"the API server refuses to resize the guest's Pod: {error}; {OTHER_POD}"

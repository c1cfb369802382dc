"""Has guests frozen and thawed by their agents, beside the loop of snapshots: one that is slow holds up no other.

Held by `snapshot_loop`; `snapshot_writes` begins what plans say. Calls the verbs of guests that users have. In memory
alone: a controller that is killed has the guest frozen or thawed again, and launchers thaw theirs by themselves.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from datetime import datetime
from typing import Final

from msgspec import Struct

from kvedge.controller.snapshots.snapshot_actions import Freeze, Thaw
from kvedge.controller.snapshots.snapshot_view import FreezeCall
from kvedge.kube.errors import KubeError
from kvedge.kube.kube_client import KubeClient
from kvedge.kube.reconcile_loop import ReconcileLoop
from kvedge.kube.work_queue import Key
from kvedge.resources.codec import JsonObject
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.runtime.clock import Clock

log = logging.getLogger(__name__)

# So many guests are asked at the same time; others wait, and are not frozen while they do. As many are thawed besides:
# agents that do not freeze theirs take no worker from those.
WORKERS: Final = 8
_GUESTS: Final = "/apis/subresources.kubevirt.io/v1"
# A guest first writes out what it has in memory; its launcher waits 30 s for that.
_FREEZE_SECONDS: Final = 45.0
_THAW_SECONDS: Final = 15.0


class _Call(Struct):
    """A guest that is asked; `thaw_for` is set when a thaw ends the call: the UID of a snapshot that waits for it."""

    order: Freeze | Thaw
    # The words of the try before it, while it goes on.
    fault: str = ""
    begun: datetime | None = None
    ended: datetime | None = None
    thaw_for: str | None = None


class GuestFreezes:
    """One call a VM at the most; a freeze that nobody waits for any more ends with a thaw, in its own worker."""

    def __init__(self, client: KubeClient, clock: Clock, on_end: Callable[[str, str], None]) -> None:
        """`on_end` is called with namespace and name of a VM whose call is over."""
        self._client = client
        self._clock = clock
        self._on_end = on_end
        self._calls: dict[Key, _Call] = {}
        # By the VM, the UID of the snapshot for which it was thawed last.
        self._thawed: dict[Key, str] = {}
        self._lock = threading.Lock()
        self._freezing = ReconcileLoop("snapshot-freezes", self._freeze, WORKERS)
        self._thawing = ReconcileLoop("snapshot-thaws", self._thaw, WORKERS)
        self.loops = (self._freezing, self._thawing)

    def begin(self, order: Freeze) -> None:
        """Have the guest frozen, unless a call for it goes on."""
        key = _key(order.vmi)
        with self._lock:
            last = self._calls.get(key)
            if last is not None and last.ended is None:
                return
            is_again = last is not None and last.order.snapshot == order.snapshot
            self._calls[key] = _Call(order, last.fault if last is not None and is_again else "")
            self._thawed.pop(key, None)
        # Its threads begin with the first guest: most nodes never have one.
        self._freezing.start()
        self._freezing.add(key)

    def thaw(self, order: Thaw) -> None:
        """Have the guest thawed now, or by the worker that still asks it to freeze, once it has answered."""
        key = _key(order.vmi)
        with self._lock:
            last = self._calls.get(key)
            if last is not None and last.begun is not None and last.ended is None:
                last.thaw_for = order.snapshot
                return
            self._calls[key] = _Call(order, begun=self._clock.now(), thaw_for=order.snapshot)
        self._thawing.start()
        self._thawing.add(key)

    def find(self, vmi: VirtualMachineInstance | None, snapshot: str) -> FreezeCall | None:
        """The call for this guest: one that goes on, or the last one for the snapshot of this UID."""
        if vmi is None:
            return None
        with self._lock:
            call = self._calls.get(_key(vmi))
            if call is None:
                is_thawed = bool(snapshot) and self._thawed.get(_key(vmi)) == snapshot
                return FreezeCall(False, is_thawed=True) if is_thawed else None
            is_own = call.order.snapshot == snapshot and call.order.vmi.metadata.uid == vmi.metadata.uid
            if call.ended is not None and not is_own:
                return None
            return FreezeCall(is_own and call.thaw_for is None, call.begun, call.ended, call.fault)

    def drop(self, snapshot: str) -> None:
        """The snapshot of this UID is gone, and so is who would have its guest thawed."""
        with self._lock:
            for key, call in list(self._calls.items()):
                if call.order.snapshot != snapshot:
                    continue
                if call.begun is None or call.ended is not None:
                    del self._calls[key]
                else:
                    call.thaw_for = ""
            self._thawed = {key: uid for key, uid in self._thawed.items() if uid != snapshot}

    def stop(self) -> None:
        """Ask no further guest."""
        for loop in self.loops:
            loop.stop()

    def _freeze(self, key: Key) -> None:
        with self._lock:
            call = self._calls.get(key)
            if call is None or call.begun is not None or not isinstance(call.order, Freeze):
                return
            call.begun = self._clock.now()
            order = call.order
        fault = "its guest could not be asked to freeze its file systems"
        try:
            ask_freeze(self._client, order)
            fault = ""
        except KubeError as error:
            fault = str(error)
        finally:
            with self._lock:
                call.fault = fault
                is_wanted = call.thaw_for is None
                if is_wanted:
                    call.ended = self._clock.now()
            if is_wanted:
                self._on_end(*key)
            else:
                # A call that failed late may have frozen it all the same.
                self._finish_thaw(key, call)

    def _thaw(self, key: Key) -> None:
        with self._lock:
            call = self._calls.get(key)
        if call is not None and isinstance(call.order, Thaw):
            self._finish_thaw(key, call)

    def _finish_thaw(self, key: Key, call: _Call) -> None:
        try:
            thaw_guest(self._client, call.order.vmi)
        finally:
            with self._lock:
                self._calls.pop(key, None)
                if call.thaw_for:
                    self._thawed[key] = call.thaw_for
            self._on_end(*key)


def ask_freeze(client: KubeClient, order: Freeze) -> None:
    """Have a guest frozen, as a user would.

    Raises:
        KubeError: when it is refused.
    """
    _ask(client, order.vmi, "freeze", {"unfreezeTimeout": f"{order.seconds}s"}, _FREEZE_SECONDS)


def thaw_guest(client: KubeClient, vmi: VirtualMachineInstance) -> None:
    """Have it thawed; what fails is left to the launcher, which has promised to."""
    try:
        _ask(client, vmi, "unfreeze", None, _THAW_SECONDS)
    except KubeError as error:
        facts = {"vmi": f"{vmi.metadata.namespace}/{vmi.metadata.name}", "why": str(error)}
        log.warning("a guest is not thawed; its launcher will do it", extra={"facts": facts})


def _ask(client: KubeClient, vmi: VirtualMachineInstance, verb: str, body: JsonObject | None, seconds: float) -> None:
    meta = vmi.metadata
    path = f"{_GUESTS}/namespaces/{meta.namespace}/virtualmachineinstances/{meta.name}/{verb}"
    client.hurry(seconds).request("PUT", path, body)


def _key(vmi: VirtualMachineInstance) -> Key:
    return Key(vmi.metadata.namespace, vmi.metadata.name)

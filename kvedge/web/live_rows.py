"""The rows of the list, kept up to date by two watches with the user's own rights, for all pages of that user.

Made by `console_server`, read by `live_feed`. The watches run in threads of their own, all else in the event loop.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from typing import Any, ClassVar, Final, cast

from msgspec import field

from kvedge.client.session import Session
from kvedge.client.vm_rows import is_trouble
from kvedge.kube.informer import Informer
from kvedge.resources.codec import JsonObject, KubeStruct
from kvedge.resources.kinds import Kind
from kvedge.resources.meta import BriefMeta
from kvedge.resources.types.vm import VirtualMachine
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.web.texts.shown_text import showable

# A watch has a bookmark each minute; without one for so long the rows may be old.
_SILENT_SECONDS: Final = 150.0

RowKey = tuple[str, str, str]


class _VmStatus(KubeStruct, kw_only=True):
    printable_status: str = ""


class _SeenVm(KubeStruct, kw_only=True):
    """Of a VM what a row tells: a thousand of them are kept for each user."""

    KIND: ClassVar[Kind] = VirtualMachine.KIND
    metadata: BriefMeta = field(default_factory=BriefMeta)
    status: _VmStatus = field(default_factory=_VmStatus)


class _Nic(KubeStruct, kw_only=True):
    ip_address: str = ""


class _VmiStatus(KubeStruct, kw_only=True):
    phase: str = ""
    node_name: str = ""
    interfaces: list[_Nic] = field(default_factory=list)


class _SeenVmi(KubeStruct, kw_only=True):
    """Of a VMI what a row tells."""

    KIND: ClassVar[Kind] = VirtualMachineInstance.KIND
    metadata: BriefMeta = field(default_factory=BriefMeta)
    status: _VmiStatus = field(default_factory=_VmiStatus)


class LiveRows:
    """All VMs that the user may see; :meth:`wait_changed` wakes every page's feed."""

    def __init__(self, session: Session, namespace: str | None) -> None:
        # Any: their metadata has what an informer reads, and is no whole ObjectMeta.
        self._vms: Informer[Any] = Informer(session.client, cast(Any, _SeenVm), namespace)
        self._vmis: Informer[Any] = Informer(session.client, cast(Any, _SeenVmi), namespace)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._changed = asyncio.Event()
        self._generation = 0
        # Made anew after a change only, and shared by all feeds.
        self._rows: dict[RowKey, JsonObject] | None = None

    def start(self) -> None:
        """Begin to watch; called in the event loop."""
        self._loop = asyncio.get_running_loop()
        for informer in (self._vms, self._vmis):
            informer.on_change(self._note)
            informer.start()

    def stop(self) -> None:
        """End the watches."""
        for informer in (self._vms, self._vmis):
            informer.stop()

    def trouble(self) -> str:
        """Why the rows may be old, or empty."""
        for informer in (self._vms, self._vmis):
            if informer.trouble:
                return showable(informer.trouble)
            if informer.silent_seconds() > _SILENT_SECONDS:
                return "the API server has been silent for minutes"
        return ""

    def is_complete(self) -> bool:
        """Whether everything was listed once."""
        return self._vms.wait_synced(0) and self._vmis.wait_synced(0)

    def rows(self) -> Mapping[RowKey, JsonObject]:
        """Each row as it is now."""
        if self._rows is None:
            self._rows = self._make_rows()
        return self._rows

    @property
    def generation(self) -> int:
        """Grows with each change."""
        return self._generation

    async def wait_changed(self, seen: int, seconds: float) -> None:
        """Until something has changed since the generation that was seen, or so long."""
        if seen != self._generation:
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._changed.wait()

    def _make_rows(self) -> dict[RowKey, JsonObject]:
        """As `vm_rows` has them: a row for each VM with its run, and for each VMI of no VM."""
        runs = {(vmi.metadata.namespace, vmi.metadata.name): vmi for vmi in self._vmis.list()}
        rows: dict[RowKey, JsonObject] = {}
        for vm in self._vms.list():
            run = runs.pop((vm.metadata.namespace, vm.metadata.name), None)
            _add_row(rows, VirtualMachine.KIND.kind, vm.metadata, vm.status.printable_status, vm, run)
        for vmi in runs.values():
            if vmi.metadata.controller_reference() is None:
                _add_row(rows, VirtualMachineInstance.KIND.kind, vmi.metadata, vmi.status.phase, None, vmi)
        return rows

    def _note(self, old: object, new: object) -> None:
        """In a watch's thread."""
        assert self._loop is not None
        # A change that comes while the loop ends is nobody's any more.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        self._rows = None
        self._generation += 1
        self._changed.set()
        # Those that wait are woken; those that come later wait for the next change.
        self._changed = asyncio.Event()


def _add_row(
    rows: dict[RowKey, JsonObject], kind: str, meta: BriefMeta, status: str, vm: _SeenVm | None, vmi: _SeenVmi | None
) -> None:
    """Nothing that changes by itself, such as an age: all rows would be new at each look."""
    nics = vmi.status.interfaces if vmi else []
    texts = {
        "kind": kind,
        "namespace": meta.namespace,
        "name": meta.name,
        "status": status,
        "node": vmi.status.node_name if vmi else "",
        "ip": next((nic.ip_address for nic in nics if nic.ip_address), ""),
        "created": meta.creation_timestamp or "",
    }
    version = "/".join(seen.metadata.resource_version if seen else "" for seen in (vm, vmi))
    shown = {name: showable(text) for name, text in texts.items()}
    rows[kind, meta.namespace, meta.name] = {**shown, "trouble": is_trouble(status), "version": version}

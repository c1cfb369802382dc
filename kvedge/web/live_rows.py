"""The rows of the list, kept up to date by two watches with the user's own rights, for all pages of that user.

Made by `console_server`, read by `live_feed`. The watches run in threads of their own, all else in the event loop.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from kvedge.client.session import Session
from kvedge.client.vm_rows import VmRow, rows_of
from kvedge.kube.informer import Informer
from kvedge.resources.codec import JsonObject
from kvedge.resources.types.vm import VirtualMachine
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.web.texts.shown_text import showable

# A watch has a bookmark each minute; without one for so long the rows may be old.
_SILENT_SECONDS: Final = 150.0

RowKey = tuple[str, str, str]


class LiveRows:
    """All VMs that the user may see; :meth:`wait_changed` wakes every page's feed."""

    def __init__(self, session: Session, namespace: str | None) -> None:
        self._vms = Informer(session.client, VirtualMachine, namespace)
        self._vmis = Informer(session.client, VirtualMachineInstance, namespace)
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
        vms, vmis = self._vms.list(), self._vmis.list()
        both: list[VirtualMachine | VirtualMachineInstance] = [*vms, *vmis]
        versions = {
            (item.KIND.kind, item.metadata.namespace, item.metadata.name): item.metadata.resource_version
            for item in both
        }
        return {
            (row.kind, row.namespace, row.name): _row_document(row, versions)
            for row in rows_of(vms, vmis, datetime.now(UTC))
        }

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


def _row_document(row: VmRow, versions: Mapping[tuple[str, str, str], str]) -> JsonObject:
    texts: dict[str, Any] = {
        name: showable(value)
        for name, value in row.document().items()
        if isinstance(value, str) and name not in ("ipFrom", "mac", "image", "guest")
    }
    kinds = ("VirtualMachine", "VirtualMachineInstance")
    version = "/".join(versions.get((kind, row.namespace, row.name), "") for kind in kinds)
    return {**texts, "ready": row.ready, "trouble": row.is_trouble, "cpus": row.cpus, "version": version}

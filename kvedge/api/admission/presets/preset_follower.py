"""The presets that there are, kept up to date by an informer: a webhook asks nobody while it is asked.

Made by api_run.py. An installation without presets pays for one watch. A preset is taken apart once for each change of
it, in the informer's thread, and not for each VMI.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from typing import Final

from kvedge.api.admission.presets.preset_parts import Preset, make_preset
from kvedge.kube.informer import Informer
from kvedge.kube.kube_client import KubeClient
from kvedge.resources.label_selectors import selector_of, selector_problems
from kvedge.resources.types.presets import WrittenPreset

log = logging.getLogger(__name__)

# The server says something to a watch each minute. One that has said nothing for longer may have other presets.
_STALE_SECONDS: Final = 180.0
_LONGEST_REASON: Final = 300
_REMEDY: Final = (
    "Give the api role the right to list virtualmachineinstancepresets, and the cluster their kind (k3s/rbac and"
    " k3s/crds), and make the VMI again when it needs its presets."
)


class PresetFollower:
    """Presets by namespace."""

    def __init__(self, client: KubeClient) -> None:
        self._lock = threading.Lock()
        # By namespace, by name: those that can select something.
        self._known: dict[str, dict[str, Preset]] = {}
        self._presets = Informer(client, WrittenPreset)
        self._presets.on_change(self._on_change)

    def start(self, seconds: float) -> None:
        """Begin to follow, and wait for the first list, at most so many seconds."""
        self._presets.start()
        if not self._presets.wait_synced(seconds):
            log.warning("no presets listed yet: VMIs are made without them")

    def stop(self) -> None:
        """End the informer."""
        self._presets.stop()

    def failure(self) -> str | None:
        """Why it no longer follows, or None."""
        return self._presets.failure()

    def of_namespace(self, namespace: str) -> Sequence[Preset]:
        """The presets of a namespace that can select something; from any thread."""
        with self._lock:
            return list(self._known.get(namespace, {}).values())

    def doubt(self) -> str:
        """Why VMIs may miss presets now, for their authors; empty when all presets are known; from any thread."""
        reason = (self._presets.trouble or "the server has not answered yet")[:_LONGEST_REASON]
        if not self._presets.wait_synced(0):
            return f"VirtualMachineInstancePresets could not be listed, and this VMI gets none: {reason}. {_REMEDY}"
        if self._presets.trouble and self._presets.silent_seconds() > _STALE_SECONDS:
            return f"VirtualMachineInstancePresets are no longer followed, and may have changed: {reason}. {_REMEDY}"
        return ""

    def _on_change(self, old: WrittenPreset | None, new: WrittenPreset | None) -> None:
        item = new or old
        assert item is not None
        namespace, name = item.metadata.namespace, item.metadata.name
        made = _make(new) if new is not None else None
        with self._lock:
            known = self._known.setdefault(namespace, {})
            if made is not None:
                known[name] = made
            else:
                known.pop(name, None)
            if not known:
                del self._known[namespace]


def _make(item: WrittenPreset) -> Preset | None:
    selector = item.spec.selector
    if selector is None or any(selector_problems(selector)):
        return None
    return make_preset(item.metadata.name, selector_of(selector), item.spec.domain)

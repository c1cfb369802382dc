"""The presets that there are, kept up to date by an informer: a webhook asks nobody while it is asked.

Made by api_run.py. An installation without presets pays for one watch. A preset is taken apart once for each change of
it, in the informer's thread, and not for each VMI.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence

from kvedge.api.admission.presets.preset_parts import Preset, make_preset
from kvedge.kube.informer import Informer
from kvedge.kube.kube_client import KubeClient
from kvedge.resources.label_selectors import selector_of, selector_problems
from kvedge.resources.types.presets import WrittenPreset

log = logging.getLogger(__name__)


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

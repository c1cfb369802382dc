"""The presets that there are, kept up to date by an informer: a webhook asks nobody while it is asked.

Made by api_run.py. An installation without presets pays for one watch.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

from kvedge.api.admission.presets.preset_plan import Preset
from kvedge.kube.informer import Informer
from kvedge.kube.kube_client import KubeClient
from kvedge.resources.label_selectors import selector_of, selector_problems
from kvedge.resources.types.presets import WrittenPreset

log = logging.getLogger(__name__)

_NAMESPACE: Final = "namespace"


class PresetFollower:
    """Presets by namespace."""

    def __init__(self, client: KubeClient) -> None:
        self._presets = Informer(client, WrittenPreset)
        self._presets.add_index(_NAMESPACE, lambda item: (item.metadata.namespace,))

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
        return [
            Preset(item.metadata.name, selector_of(item.spec.selector), item.spec.domain)
            for item in self._presets.find_indexed(_NAMESPACE, namespace)
            if item.spec.selector is not None and not any(selector_problems(item.spec.selector))
        ]

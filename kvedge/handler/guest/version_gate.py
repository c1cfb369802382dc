"""Whether this handler's version goes with the control plane's: too far apart, its node takes no new VM.

Made by the handler role. The control plane's version is what the leading controller writes into the KubeVirt object's
status; guests that run here are looked after whatever it says.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from kvedge import __version__
from kvedge.kube.informer import Informer
from kvedge.resources.types.kubevirt import KubeVirt
from kvedge.resources.version_skew import refusal

log = logging.getLogger(__name__)


class VersionGate:
    """Follows the objects of an informer that somebody else runs."""

    def __init__(self, informer: Informer[KubeVirt], own: str = __version__) -> None:
        self._informer = informer
        self._own = own
        self._told = ""
        self._callbacks: list[Callable[[], None]] = []
        informer.on_change(self._on_kubevirt)

    def on_change(self, callback: Callable[[], None]) -> None:
        """Call when the answer is another one."""
        self._callbacks.append(callback)

    @property
    def refusal(self) -> str:
        """Why no VM should come here; empty when one may."""
        # The object that does not count has no version of ours in its status.
        versions = [item.status.operator_version for item in self._informer.list() if item.status.operator_version]
        return refusal(versions[0].removeprefix("v"), self._own) if versions else ""

    def _on_kubevirt(self, old: KubeVirt | None, new: KubeVirt | None) -> None:
        found = self.refusal
        if found == self._told:
            return
        self._told = found
        if found:
            log.warning("this node takes no VM", extra={"facts": {"detail": found}})
        for callback in self._callbacks:
            callback()

"""The configuration in force, kept up to date from the KubeVirt object by an informer.

Used by each role that runs in this process; nothing has to be restarted when the object changes. Without an object,
and without its CRD, defaults hold. Callbacks run in the informer's thread and must not block.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from kvedge.kube.informer import Informer
from kvedge.kube.kube_client import KubeClient
from kvedge.resources.configuration.configuration import Configuration, Issue
from kvedge.resources.configuration.configuration_in_force import InForce, next_in_force
from kvedge.resources.types.kubevirt import KubeVirt

log = logging.getLogger(__name__)


class ConfigurationFollower:
    """One role's view of the KubeVirt object."""

    name = "configuration"

    def __init__(self, client: KubeClient, role: str) -> None:
        self.informer: Informer[KubeVirt] = Informer(client, KubeVirt)
        self._role = role
        self._in_force = InForce()
        self._callbacks: list[Callable[[Configuration], None]] = []
        self._lock = threading.Lock()
        self.informer.on_change(self._on_kubevirt)

    def start(self) -> None:
        """Begin to follow; defaults hold until the object was listed."""
        self.informer.start()

    def stop(self) -> None:
        """End the informer."""
        self.informer.stop()

    def wait(self, timeout: float) -> bool:
        """Whether objects were listed within `timeout` seconds; not without the CRD."""
        if self.informer.wait_synced(timeout):
            return True
        log.warning("no KubeVirt objects listed yet: defaults hold", extra={"facts": {"role": self._role}})
        return False

    def failure(self) -> str | None:
        """The informer's own."""
        return self.informer.failure()

    @property
    def current(self) -> Configuration:
        """The configuration in force."""
        return self._in_force.configuration

    @property
    def in_force(self) -> InForce:
        """The same with where it comes from and what is to be told of it."""
        return self._in_force

    def on_change(self, callback: Callable[[Configuration], None]) -> None:
        """Call with the configuration in force now, and with each later one."""
        with self._lock:
            self._callbacks.append(callback)
            callback(self._in_force.configuration)

    def _on_kubevirt(self, old: KubeVirt | None, new: KubeVirt | None) -> None:
        with self._lock:
            before = self._in_force
            self._in_force = after = next_in_force(before, self.informer.list())
            if after.configuration == before.configuration:
                self._log_refusal(before, after)
                return
            log.info("configuration taken over", extra={"facts": {"role": self._role, "generation": after.generation}})
            for callback in self._callbacks:
                callback(after.configuration)

    def _log_refusal(self, before: InForce, after: InForce) -> None:
        if after.is_earlier and after != before:
            bad = "; ".join(item.message for item in after.findings if item.issue is Issue.INVALID)
            log.warning("configuration not taken over", extra={"facts": {"role": self._role, "detail": bad}})

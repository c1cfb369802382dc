"""A role on a node of a cluster that is not complete yet: its start is tried again instead of ending the program.

Made by the role verbs for clusters. A half applied manifest (no rights, no kinds) or an API server that is away is
mended some day. Until then the role tells systemd what it waits for.
"""

from __future__ import annotations

from collections.abc import Callable

from kvedge.kube.errors import Invalid
from kvedge.runtime.services import NotYetError, Service, ServiceError


class PatientStart:
    """A role that is made anew for each try."""

    def __init__(self, name: str, make: Callable[[], Service], passing: tuple[type[Exception], ...]) -> None:
        """`passing` are causes that a cluster may get right; others are this host's, or the settings'."""
        self.name = name
        self._make = make
        self._passing = passing
        self._role: Service | None = None

    def start(self) -> None:
        """Try once.

        Raises:
            NotYetError: when the cluster is not there yet.
            ServiceError: when something else is wrong.
        """
        role = self._make()
        try:
            role.start()
        except ServiceError as error:
            role.stop()
            # An API server that answers "invalid" rejects one of our settings, and will reject it again.
            if isinstance(error.__cause__, self._passing) and not isinstance(error.__cause__, Invalid):
                raise NotYetError(error.service, error.detail) from error
            raise
        self._role = role

    def stop(self) -> None:
        """Stop it, if it ever started."""
        if self._role is not None:
            self._role.stop()

    def failure(self) -> str | None:
        """The role's own."""
        return None if self._role is None else self._role.failure()

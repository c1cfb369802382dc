"""The name of one box's node: that of its host when it was first started, whatever the host is called later.

Pods and VMIs are bound to the name. Under another one, what runs would belong to nobody.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from kvedge.runtime.services import ServiceError

_FILE: Final = "node-name"


def node_name(state: Path, proposed: str) -> str:
    """The name that this box has had since its first start; the proposed one before that."""
    return _remembered(state) or proposed


class NodeName:
    """A service that keeps the name, as soon as the data directory is ours."""

    name = "node name"

    def __init__(self, state: Path, node: str, wanted: str) -> None:
        """`wanted` is the setting `node-name`, empty when it is left to the host."""
        self._state = state
        self._node = node
        self._wanted = wanted.lower()

    def start(self) -> None:
        """Keep it.

        Raises:
            ServiceError: the operator wants another one, or it cannot be written.
        """
        if self._wanted and self._wanted != self._node:
            raise ServiceError(
                self.name,
                f"node-name: {self._wanted} is not the name by which this box's VMs know their node, {self._node}: set "
                f"that one or none; or stop all VMs and kvedge, run `kvedge killall`, and remove {self._state / _FILE}",
            )
        if _remembered(self._state) == self._node:
            return
        staged = self._state / f".{_FILE}.new"
        try:
            with staged.open("w") as file:
                file.write(f"{self._node}\n")
                file.flush()
                os.fsync(file.fileno())
            staged.rename(self._state / _FILE)
        except OSError as error:
            raise ServiceError(self.name, f"{self._state / _FILE} cannot be written: {error.strerror}") from error

    def stop(self) -> None:
        """The file stays."""

    def failure(self) -> str | None:
        """A name cannot fail."""
        return None


def _remembered(state: Path) -> str:
    try:
        return (state / _FILE).read_text().strip()
    except (OSError, UnicodeDecodeError):
        return ""

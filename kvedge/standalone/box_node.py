"""The name of one box's node: that of its host when it was first started, whatever the host is called later.

Pods and VMIs are bound to the name. Under another one, what runs would belong to nobody; so objects that come from
another box bring its name along.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from kvedge.runtime.damaged_files import put_aside
from kvedge.runtime.durable_files import write_durably
from kvedge.runtime.services import ServiceError
from kvedge.standalone.apiserver.store.object_store_copies import StoreCopies
from kvedge.standalone.apiserver.store.object_store_file import StoreError
from kvedge.standalone.apiserver.store.object_store_snapshot import read_objects
from kvedge.standalone.apiserver.wire.name_rules import dns_subdomain

NODE_NAME: Final = "node-name"


def node_name(state: Path, wanted: str, host: str) -> str:
    """The name that this box has had since its first start; before that the one that is wanted, or the host's.

    Boxes of earlier versions have it in their objects alone.
    """
    is_damaged = (state / NODE_NAME).exists() and not read_node_name(state)
    if name := read_node_name(state) or ("" if is_damaged else wanted):
        return name
    store = state / "kvedge.db"
    copies = StoreCopies(store, state.parent / "backup")
    stores = [store, *(copies.directory / copy.name for copy in copies.list_copies())]
    return next((name for path in stores if (name := sole_node(path))), wanted or host)


def read_node_name(state: Path) -> str:
    """The name that is kept in this directory; empty when there is none, or the file is damaged."""
    try:
        text = (state / NODE_NAME).read_text()
    except (OSError, UnicodeDecodeError):
        return ""
    name = text.strip()
    # Without the line's end it may be cut.
    return name if text.endswith("\n") and not dns_subdomain(name) else ""


def sole_node(store: Path) -> str:
    """The name of the one Node in an object store; empty when it has none or several, or cannot be read."""
    try:
        nodes = [stored.key.name for stored in read_objects(store) if stored.key.resource == "nodes"]
    except StoreError:
        # Opening the store tells the fault.
        return ""
    return nodes[0] if len(nodes) == 1 else ""


class NodeName:
    """A service that keeps the name, as soon as the data directory is ours."""

    name = "node name"

    def __init__(self, state: Path, node: str, wanted: str) -> None:
        """`wanted` is the setting `node-name`, empty when it is left to the host."""
        self._state = state
        self._node = node
        self._wanted = wanted

    def start(self) -> None:
        """Keep it.

        Raises:
            ServiceError: the operator wants another one, or it cannot be written.
        """
        if self._wanted and self._wanted != self._node:
            raise ServiceError(
                self.name,
                f"node-name: {self._wanted} is not the name by which this box's VMs know their node, {self._node}: set"
                " that one or none; or stop all VMs and kvedge, run `kvedge killall`, and remove"
                f" {self._state / NODE_NAME}",
            )
        if read_node_name(self._state) == self._node:
            return
        try:
            if (self._state / NODE_NAME).exists():
                put_aside(self._state / NODE_NAME, f"this box's objects are of the node {self._node}")
            write_durably(self._state / NODE_NAME, f"{self._node}\n".encode(), mode=0o644)
        except OSError as error:
            raise ServiceError(self.name, f"{self._state / NODE_NAME} cannot be written: {error.strerror}") from error

    def stop(self) -> None:
        """The file stays."""

    def failure(self) -> str | None:
        """A name cannot fail."""
        return None

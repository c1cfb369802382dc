"""What the pages of nodes, volumes and alarms ask of the API server, with the user's own rights; nothing is changed.

Called by `page_calls` in threads of their own. Raises what the client raises.
"""

from __future__ import annotations

import contextlib
from datetime import UTC, datetime
from typing import Final

from kvedge.client.alarms import fetch_alarms
from kvedge.client.session import Session
from kvedge.client.volumes.volume_rows import users_of, volume_rows
from kvedge.kube.errors import Forbidden
from kvedge.resources.codec import JsonObject
from kvedge.resources.types.core import Node
from kvedge.resources.types.storage import PersistentVolumeClaim
from kvedge.resources.types.vm import VirtualMachine
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.web.cluster_view import alarms_view, nodes_view, volumes_view

_SECONDS: Final = 20.0


def read_nodes(session: Session, place: str | None) -> JsonObject:
    """The nodes, and how many guests run on each, as far as the user sees them."""
    client = session.client.hurry(_SECONDS)
    vmis: list[VirtualMachineInstance] = []
    with contextlib.suppress(Forbidden):
        vmis = client.list(VirtualMachineInstance, place)
    return nodes_view(client.list(Node), vmis)


def read_volumes(session: Session, place: str | None) -> JsonObject:
    """The claims, and the VMs that use them."""
    client = session.client.hurry(_SECONDS)
    claims = client.list(PersistentVolumeClaim, place)
    users = users_of(client.list(VirtualMachine, place), client.list(VirtualMachineInstance, place))
    return volumes_view(volume_rows(claims, users, datetime.now(UTC)))


def read_alarms(session: Session, place: str | None) -> JsonObject:
    """What is raised now, of all namespaces: the controller writes one record."""
    return alarms_view(fetch_alarms(session.client.hurry(_SECONDS)).firing)

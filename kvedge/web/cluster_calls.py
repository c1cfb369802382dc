"""What the pages of nodes, volumes, networks, tasks and alarms ask of the API server, with the user's own rights.

Called by `page_calls` in threads of their own. Changes nothing. Raises what the client raises.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Final

from msgspec.structs import replace

from kvedge.client.alarms import fetch_alarms
from kvedge.client.networks.network_calls import NoNetworks, list_networks
from kvedge.client.networks.network_rows import network_rows
from kvedge.client.networks.network_rows import users_of as networks_users
from kvedge.client.session import Session
from kvedge.client.tasks.task_calls import each_task
from kvedge.client.tasks.task_rows import task_rows
from kvedge.client.volumes.volume_rows import users_of, volume_rows
from kvedge.kube.errors import Forbidden
from kvedge.kube.kube_client import KubeClient
from kvedge.resources.codec import JsonObject
from kvedge.resources.types.core import Node
from kvedge.resources.types.storage import PersistentVolumeClaim
from kvedge.resources.types.vm import VirtualMachine
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.web.cluster_view import alarms_view, networks_view, nodes_view, tasks_view, volumes_view

_SECONDS: Final = 20.0
_LATELY: Final = timedelta(hours=1)


def read_nodes(session: Session, place: str | None) -> JsonObject:
    """The nodes, and how many guests run on each, as far as the user sees them."""
    client = session.client.hurry(_SECONDS)
    return nodes_view(client.list(Node), _seen_vmis(client, place))


def read_volumes(session: Session, place: str | None) -> JsonObject:
    """The claims, and the VMs that use them."""
    client = session.client.hurry(_SECONDS)
    users = users_of(client.each(VirtualMachine, place), client.each(VirtualMachineInstance, place))
    return volumes_view(volume_rows(client.each(PersistentVolumeClaim, place), users, datetime.now(UTC)))


def read_networks(session: Session, place: str | None) -> JsonObject:
    """The networks that VMs join besides the Pod network, and the VMs on them as far as the user sees these."""
    here = replace(session, client=session.client.hurry(_SECONDS))
    try:
        found = list_networks(here, place)
    except NoNetworks:
        # Their kind comes with the first one, on one box.
        return networks_view([])
    vms, vmis = here.client.each(VirtualMachine, place), here.client.each(VirtualMachineInstance, place)
    return networks_view(network_rows(found, networks_users(vms, vmis), datetime.now(UTC)))


def read_tasks(session: Session, place: str | None) -> JsonObject:
    """What is under way, and what has ended of late."""
    found = each_task(replace(session, client=session.client.hurry(_SECONDS)), place)
    return tasks_view(task_rows(found, datetime.now(UTC), _LATELY))


def read_alarms(session: Session, place: str | None) -> JsonObject:
    """What is raised now, of all namespaces: the controller writes one record."""
    return alarms_view(fetch_alarms(session.client.hurry(_SECONDS)).firing)


def _seen_vmis(client: KubeClient, place: str | None) -> Iterator[VirtualMachineInstance]:
    """Those that the user may list."""
    with contextlib.suppress(Forbidden):
        yield from client.each(VirtualMachineInstance, place)

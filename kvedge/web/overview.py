"""What the first page of the console shows: what nodes have and use, what guests may take, alarms, and tasks.

Called by `page_calls` in threads of their own, with the user's own rights: what these do not reach is left out, and the
page says so. Changes nothing. Raises what the client raises.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from typing import Any, Final

from msgspec.structs import replace

from kvedge.client.session import Session
from kvedge.client.tasks.task_rows import RUNNING
from kvedge.kube.errors import Forbidden, KubeError
from kvedge.resources.codec import JsonObject
from kvedge.resources.types.core import Node
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.resources.values.quantities import QuantityError, parse_bytes, parse_quantity
from kvedge.resources.vmi_facts import guest_memory_bytes, vcpu_count
from kvedge.web.cluster_calls import read_alarms, read_tasks

_SECONDS: Final = 20.0
_MOST: Final = 10
_USES: Final = "/apis/metrics.k8s.io/v1beta1/nodes"


def read_overview(session: Session, place: str | None) -> JsonObject:
    """`nodes` is None where the user may not list them, `used` where nobody measures; CPUs are counted in thousandths.

    `alarms` and `tasks` are the first ten of each, in the order of their pages.
    """
    here = replace(session, client=session.client.hurry(_SECONDS))
    rooms: JsonObject | None = None
    with contextlib.suppress(Forbidden):
        rooms = rooms_of(here.client.each(Node))
    return {
        "nodes": rooms,
        "used": None if rooms is None else _find_uses(here),
        # A thousand of them as values would be 30 MB.
        "guests": wishes_of(here.client.each(VirtualMachineInstance, place)),
        **_first(here, place),
    }


def rooms_of(nodes: Iterable[Node]) -> JsonObject:
    """What all nodes together have for guests and Pods; those that are not ready are counted and add nothing."""
    count = 0
    ready = []
    for node in nodes:
        count += 1
        if _is_ready(node):
            ready.append(node.status.allocatable)
    return {"count": count, "ready": len(ready), **_sum(ready)}


def uses_of(listed: Any) -> JsonObject:
    """What all nodes together use, of the answer of `metrics.k8s.io`."""
    items = listed.get("items") if isinstance(listed, dict) else None
    return _sum(each.get("usage") or {} for each in items or [] if isinstance(each, dict))


def wishes_of(vmis: Iterable[VirtualMachineInstance]) -> JsonObject:
    """How many guests run, and what they have of vCPUs and memory."""
    count = cpus = memory = 0
    for vmi in vmis:
        if vmi.is_final or not vmi.status.node_name:
            continue
        count += 1
        cpus += vcpu_count(vmi.spec.domain)
        with contextlib.suppress(QuantityError):
            memory += guest_memory_bytes(vmi.spec.domain)
    return {"count": count, "cpu": 1000 * cpus, "memory": memory}


def _find_uses(here: Session) -> JsonObject | None:
    """None where no metrics are served, or the user may not read them."""
    try:
        return uses_of(here.client.request("GET", _USES))
    except KubeError:
        return None


def _first(here: Session, place: str | None) -> JsonObject:
    found: JsonObject = {}
    for name, read in (("alarms", read_alarms), ("tasks", read_tasks)):
        try:
            rows = read(here, place)["rows"]
        except KubeError as error:
            # The rest of the page is worth showing without it.
            found[name] = None if isinstance(error, Forbidden) else {"rows": [], "more": 0, "failure": error.message}
            continue
        kept = rows if name == "alarms" else [row for row in rows if row["state"] == RUNNING]
        found[name] = {"rows": kept[:_MOST], "more": max(0, len(kept) - _MOST)}
    return found


def _is_ready(node: Node) -> bool:
    conditions: list[Any] = node.status.conditions
    return any(each.get("type") == "Ready" and each.get("status") == "True" for each in conditions)


def _sum(amounts: Iterable[Mapping[str, Any]]) -> JsonObject:
    cpu = memory = 0
    for amount in amounts:
        with contextlib.suppress(QuantityError):
            cpu += int(1000 * parse_quantity(amount.get("cpu", "0")))
        with contextlib.suppress(QuantityError):
            memory += parse_bytes(amount.get("memory", "0"))
    return {"cpu": cpu, "memory": memory}

"""The time line of a VM's last start: what the roles noted, and what the objects tell where nobody noted it.

Called by `kvedge trace`. Reads the VMI, its launcher Pod and the VMI's subresource; the merge is pure.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final

from msgspec import Struct

from kvedge.client.session import Session
from kvedge.client.subresources import VMI, get, get_object
from kvedge.kube.errors import Forbidden, NotFound
from kvedge.resources.codec import JsonObject
from kvedge.resources.guest_verbs import TRACE
from kvedge.resources.names import CREATED_BY, MADE_UNIX_MS
from kvedge.runtime import milestones as steps

# Every step, in the order of a start: what is reached, whose step it is, and the words for it.
STEPS: Final[Mapping[str, tuple[str, str]]] = {
    "vmi-created": ("api", "VMI created"),
    "pod-made": ("controller", "launcher Pod made"),
    "pod-scheduled": ("node", "Pod scheduled"),
    steps.CONTAINER_STARTED: ("node", "container started"),
    "pod-ready": ("node", "Pod ready"),
    steps.LAUNCHER_BEGUN: ("launcher", "process begun"),
    steps.IMPORTS_DONE: ("launcher", "imports done"),
    steps.LIBVIRT_OPENED: ("launcher", "libvirt opened"),
    steps.SERVING: ("launcher", "gRPC serving"),
    steps.POD_SEEN: ("handler", "Pod seen"),
    steps.LAUNCHER_CONNECTED: ("handler", "launcher connected"),
    steps.SYNC_BEGUN: ("handler", "sync begun"),
    steps.NETWORK_READY: ("handler", "tap and Pod network ready"),
    steps.HANDED_OVER: ("launcher", "hand-over received"),
    steps.FILES_READY: ("launcher", "disks and cloud-init ready"),
    steps.DOMAIN_DEFINED: ("launcher", "domain defined"),
    steps.DHCP_READY: ("launcher", "DHCP ready"),
    steps.START_ASKED: ("launcher", "start asked of libvirt"),
    steps.STARTED: ("launcher", "QEMU runs the guest"),
    steps.STATUS_PUBLISHED: ("launcher", "first status published"),
    steps.SYNC_DONE: ("handler", "sync answered"),
    steps.STATUS_PATCHED: ("handler", "status Running written"),
    steps.AGENT_CONNECTED: ("launcher", "guest agent connected"),
}
_ORDER: Final = {step: place for place, step in enumerate(STEPS)}
# An object's time is that of the second in which it was written.
SECOND_MS: Final = 1000


class Reached(Struct, frozen=True):
    """A step and its time in milliseconds since 1970; `whole_seconds` says that the part of the second is not known."""

    step: str
    unix_ms: int
    whole_seconds: bool = False

    def document(self) -> JsonObject:
        """As `-o json` prints it."""
        who, text = STEPS[self.step]
        return {
            "step": self.step,
            "who": who,
            "text": text,
            "unixMs": self.unix_ms,
            "precision": "second" if self.whole_seconds else "millisecond",
        }


def read_trace(session: Session, name: str) -> list[Reached]:
    """The steps of the last start of a VM, in order.

    Raises:
        KubeError: when the VMI is not there, or its node does not answer.
    """
    told = get(session, VMI, name, TRACE)
    vmi = get_object(session, VMI, name)
    return merge_steps(told, vmi, _read_pod(session, vmi))


def merge_steps(told: JsonObject, vmi: JsonObject, pod: JsonObject | None) -> list[Reached]:
    """What is known of a start, each step once; the node's own word goes before what an object tells."""
    launcher, handler = _read_noted(told.get("launcher")), _read_noted(told.get("handler"))
    exact = launcher | (handler if _saw_start(launcher, handler) else {})
    made = (pod or {}).get("metadata", {}).get("annotations", {}).get(MADE_UNIX_MS, "")
    if made.isdigit() and len(made) < 16:
        exact["pod-made"] = int(made)
    coarse = {step: at for step, at in _of_objects(vmi, pod or {}) if step not in exact}
    reached = [Reached(step, at) for step, at in exact.items() if step in STEPS]
    placed = [(item.unix_ms, _ORDER[item.step], item) for item in reached]
    for step, second in coarse.items():
        # Within its second it comes after all that goes before it in every start.
        before = max((item.unix_ms for item in reached if _ORDER[item.step] < _ORDER[step]), default=0)
        at = min(max(second, before), second + SECOND_MS - 1)
        placed.append((at, _ORDER[step], Reached(step, second, whole_seconds=True)))
    return [item for _, _, item in sorted(placed, key=lambda each: each[:2])]


def _saw_start(launcher: Mapping[str, int], handler: Mapping[str, int]) -> bool:
    """Whether this handler handed the VMI over: one that came later tells of its own start."""
    if steps.HANDED_OVER not in launcher:
        return True
    return handler.get(steps.POD_SEEN, launcher[steps.HANDED_OVER] + 1) <= launcher[steps.HANDED_OVER]


def _read_noted(entries: Any) -> dict[str, int]:
    return {entry["step"]: entry["unixMs"] for entry in entries or () if entry.get("unixMs")}


def _of_objects(vmi: JsonObject, pod: JsonObject) -> Iterable[tuple[str, int]]:
    conditions = {item["type"]: item for item in pod.get("status", {}).get("conditions", ()) if "type" in item}
    containers = pod.get("status", {}).get("containerStatuses", ())
    running = [item.get("state", {}).get("running", {}).get("startedAt") for item in containers]
    found = {
        "vmi-created": vmi.get("metadata", {}).get("creationTimestamp"),
        "pod-made": pod.get("metadata", {}).get("creationTimestamp"),
        "pod-scheduled": conditions.get("PodScheduled", {}).get("lastTransitionTime"),
        steps.CONTAINER_STARTED: max(filter(None, running), default=None),
        "pod-ready": conditions.get("Ready", {}).get("lastTransitionTime"),
    }
    for step, text in found.items():
        with contextlib.suppress(TypeError, ValueError):
            yield step, int(datetime.fromisoformat(text).timestamp()) * SECOND_MS


def _read_pod(session: Session, vmi: JsonObject) -> JsonObject | None:
    """The Pod on the VMI's node; None for a user who may not see Pods, and when it has gone."""
    meta, status = vmi["metadata"], vmi.get("status", {})
    path = f"/api/v1/namespaces/{session.namespace}/pods"
    with contextlib.suppress(Forbidden, NotFound):
        found = session.client.request("GET", path, None, {"labelSelector": f"{CREATED_BY}={meta['uid']}"})
        pods: list[JsonObject] = [
            pod
            for pod in found.get("items", ())
            if any(owner.get("uid") == meta["uid"] for owner in pod["metadata"].get("ownerReferences", ()))
            and status.get("activePods", {}).get(pod["metadata"]["uid"]) == status.get("nodeName")
        ]
        return min(pods, key=lambda pod: str(pod["metadata"]["creationTimestamp"]), default=None)
    return None

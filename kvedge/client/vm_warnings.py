"""The newest warnings about a VM: the events that say why it does not come up.

Called when waiting for a VM was in vain, by `packaging/demo` as well. Reads the API; the choice is a pure function.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Collection, Iterable
from typing import Final

from kvedge.kube.errors import KubeError, NotFound
from kvedge.kube.kube_client import KubeClient
from kvedge.resources.launcher_pod_names import launcher_pod_name
from kvedge.resources.meta import ObjectMeta
from kvedge.resources.types.core import Event
from kvedge.resources.types.vmi import VirtualMachineInstance

# The object nearest to the cause comes first.
_KINDS: Final = ("Pod", "VirtualMachineInstance", "VirtualMachine")
_LONGEST_TEXT: Final = 600
_LOOKS: Final = 9
# After so many with the same answer nothing more is expected.
_SETTLED_LOOKS: Final = 3
_LOOK_SECONDS: Final = 0.3
# For all answers together: the caller has waited for its own time-out already.
_SECONDS: Final = 3.0
# Each is a question of its own; a guest that keeps ending has had more.
_MOST_RUNS: Final = 4
# Digits of a version; no server comes this far.
_LONGEST_VERSION: Final = 20


def read_newest_warnings(client: KubeClient, namespace: str, name: str, runs: Collection[str] | None = None) -> str:
    """A line for the newest warning about each: launcher Pod, VMI and VM; each line begins with a line break.

    Args:
        runs: the UIDs of the VMIs that were waited for; what happened to earlier ones is not the reason. None is the
            one that there is now.

    Takes a few seconds at most.
    """
    deadline = time.monotonic() + _SECONDS
    wanted = {run for run in runs or () if run}
    # By name: an event that happened again has been written anew.
    events: dict[str, Event] = {}
    # Without the right to read events, and from a silent server, there are no warnings; the caller tells the rest.
    with contextlib.suppress(KubeError):
        if runs is None:
            wanted = _find_present_run(client.hurry(_SECONDS), namespace, name)
        looks: list[list[Event]] = []
        for look in range(_LOOKS if wanted else 1):
            # Events are written behind the change that they are about, and that with the cause not always first.
            time.sleep(_LOOK_SECONDS if look else 0)
            for selector in _selectors(name, wanted):
                if (left := deadline - time.monotonic()) > 0:
                    found = client.hurry(left).list(Event, namespace, field_selector=selector)
                    events.update((event.metadata.name, event) for event in found)
            looks.append(choose_warnings(events.values(), name, wanted))
            if looks[-1] and looks[-_SETTLED_LOOKS:] == [looks[-1]] * _SETTLED_LOOKS:
                break
    return "".join(map(_line, choose_warnings(events.values(), name, wanted)))


def _selectors(name: str, runs: Collection[str]) -> list[str]:
    """What to ask the server for: a namespace may have thousands of events about others."""
    if len(runs) > _MOST_RUNS:
        return ["type=Warning"]
    return [f"type=Warning,involvedObject.name={about}" for about in (name, *sorted(_pods(name, runs)))]


def choose_warnings(events: Iterable[Event], name: str, runs: Collection[str]) -> list[Event]:
    """The newest warning about each of the three, the one nearest to the cause first; no text comes twice."""
    pods = _pods(name, runs)
    newest: dict[str, Event] = {}
    for event in events:
        if event.type == "Warning" and _is_about(event, name, runs, pods):
            kind = event.involved_object.kind
            newest[kind] = max(newest.get(kind, event), event, key=_order)
    found: dict[str, Event] = {}
    for kind in _KINDS:
        if kind in newest:
            found.setdefault(newest[kind].message, newest[kind])
    return list(found.values())


def _pods(name: str, runs: Collection[str]) -> set[str]:
    return {launcher_pod_name(VirtualMachineInstance(metadata=ObjectMeta(name=name, uid=run))) for run in runs}


def _find_present_run(client: KubeClient, namespace: str, name: str) -> set[str]:
    with contextlib.suppress(NotFound):
        return {client.get(VirtualMachineInstance, namespace, name).metadata.uid}
    return set()


def _is_about(event: Event, name: str, runs: Collection[str], pods: Collection[str]) -> bool:
    about = event.involved_object
    match about.kind:
        case "Pod":
            return about.name in pods
        case "VirtualMachineInstance":
            return about.uid in runs
        case "VirtualMachine":
            return about.name == name
    return False


def _order(event: Event) -> tuple[str, int]:
    """Sorts by time; those of one second by when they were written."""
    version = event.metadata.resource_version
    return _time(event), int(version) if version.isdecimal() and len(version) < _LONGEST_VERSION else 0


def _time(event: Event) -> str:
    """When the Event last happened, as RFC 3339 in UTC, which sorts as text.

    Some clients leave the last time out; then it is when the Event was made.
    """
    return event.last_timestamp or event.metadata.creation_timestamp or ""


def _line(event: Event) -> str:
    from kvedge.client.harmless_text import harmless

    about = event.involved_object
    # A message may repeat what a guest or an image has said.
    text = harmless(f"{event.reason}: {event.message}".encode(errors="replace")).replace("\n", " ")
    cut = text if len(text) <= _LONGEST_TEXT else f"{text[: _LONGEST_TEXT - 1]}…"
    return f"\n  Warning of {about.kind} {about.name}, {_time(event) or 'at an unknown time'}: {cut}"

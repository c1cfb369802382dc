"""An instance type applied to a VMI's spec: what the type says must not be said by the VM as well.

Called by application.py. Pure. Works on documents, so that nothing is lost that no type knows; the spec that is given
is changed, and is the caller's own.
"""

from __future__ import annotations

import copy
import struct
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from kvedge.resources.codec import JsonObject
from kvedge.resources.instancetypes.cpu_topology import CORES, SOCKETS, THREADS, guest_topology
from kvedge.resources.values.quantities import Quantity, format_bytes, parse_bytes

# Paths below a VMI's spec; the one of an annotation begins with this word.
Conflict = tuple[str, ...]
ANNOTATIONS: Final = "annotations"
_CPU_BOTH: Final[Mapping[str, str]] = {
    # The VM's word, and the type's, with which KubeVirt reports it.
    "model": "model",
    "dedicatedCpuPlacement": "dedicatedCPUPlacement",
    "isolateEmulatorThread": "isolateEmulatorThread",
    "numa": "numa",
    "realtime": "realtime",
}


def apply_type(
    spec: JsonObject, annotations: dict[str, str], given: JsonObject, preference: JsonObject | None
) -> list[Conflict]:
    """Give the spec and the annotations what the type has; the paths that both say, in KubeVirt's order."""
    return [
        *_apply_member(spec, given, ("nodeSelector",), is_there=lambda value: value is not None),
        *_apply_member(spec, given, ("schedulerName",)),
        *_apply_cpu(spec, given, preference),
        *_apply_memory(spec, given),
        *_apply_io_threads(spec, given),
        *_apply_member(spec, given, ("domain", "ioThreadsPolicy")),
        *_apply_member(spec, given, ("domain", "launchSecurity"), is_there=lambda value: value is not None),
        *_apply_member(spec, given, ("domain", "devices", "gpus")),
        *_apply_member(spec, given, ("domain", "devices", "hostDevices")),
        *_apply_annotations(annotations, given.get("annotations") or {}),
    ]


def object_at(parent: JsonObject, *names: str) -> JsonObject:
    """A member that is an object, made when it is missing or null."""
    for name in names:
        if not isinstance(parent.get(name), dict):
            parent[name] = {}
        parent = parent[name]
    return parent


def _apply_member(
    spec: JsonObject, given: JsonObject, path: tuple[str, ...], *, is_there: Callable[[Any], bool] = bool
) -> Iterator[Conflict]:
    name, value = path[-1], given.get(path[-1])
    if not is_there(value):
        return
    parent = object_at(spec, *path[:-1])
    if is_there(parent.get(name)):
        yield path
    else:
        parent[name] = copy.deepcopy(value)


def _apply_cpu(spec: JsonObject, given: JsonObject, preference: JsonObject | None) -> list[Conflict]:
    cpu, ours = object_at(spec, "domain", "cpu"), given.get("cpu") or {}
    resources = spec["domain"].get("resources") or {}
    found: list[Conflict] = [
        ("domain", "resources", amounts, "cpu")
        for amounts in ("requests", "limits")
        if (resources.get(amounts) or {}).get("cpu") is not None
    ]
    found += [("domain", "cpu", name) for name in (SOCKETS, CORES, THREADS) if cpu.get(name)]
    for theirs, name in _CPU_BOTH.items():
        said = cpu.get(theirs) is not None if name in ("numa", "realtime") else bool(cpu.get(theirs))
        if said and ours.get(name) is not None:
            found.append(("domain", "cpu", name))
    if found:
        return found
    for theirs, name in _CPU_BOTH.items():
        if ours.get(name) is not None:
            cpu[theirs] = copy.deepcopy(ours[name])
    if ours.get("maxSockets") is not None:
        cpu["maxSockets"] = ours["maxSockets"]
    cpu.update(guest_topology(int(ours["guest"]), preference))
    return []


def _apply_memory(spec: JsonObject, given: JsonObject) -> list[Conflict]:
    memory, ours = object_at(spec, "domain", "memory"), given.get("memory") or {}
    resources = spec["domain"].get("resources") or {}
    if memory.get("guest") is not None:
        return [("domain", "memory", "guest")]
    for name in ("hugepages", "maxGuest"):
        if memory.get(name) is not None and ours.get(name) is not None:
            return [("domain", "memory", name)]
    for amounts in ("requests", "limits"):
        if (resources.get(amounts) or {}).get("memory") is not None:
            return [("domain", "resources", amounts, "memory")]
    memory["guest"] = ours["guest"]
    if percent := int(ours.get("overcommitPercent") or 0):
        object_at(spec, "domain", "resources", "requests")["memory"] = _find_request(ours["guest"], percent)
    for name in ("hugepages", "maxGuest"):
        if ours.get(name) is not None:
            memory[name] = copy.deepcopy(ours[name])
    return []


def _find_request(guest: Quantity, percent: int) -> str:
    """What a Pod requests of the memory; counted in numbers of 32 bits, as KubeVirt does."""
    share = _single(1 - _single(_single(percent) / 100))
    return format_bytes(int(_single(_single(parse_bytes(guest)) * share)))


def _single(value: float) -> float:
    rounded: float = struct.unpack("f", struct.pack("f", value))[0]
    return rounded


def _apply_io_threads(spec: JsonObject, given: JsonObject) -> Iterator[Conflict]:
    name = "supplementalPoolThreadCount"
    count = (given.get("ioThreads") or {}).get(name)
    if count is None:
        return
    threads = object_at(spec, "domain", "ioThreads")
    if threads.get(name) is not None:
        yield ("domain", "ioThreads", name)
    else:
        threads[name] = count


def _apply_annotations(annotations: dict[str, str], given: Mapping[str, str]) -> Iterator[Conflict]:
    for key, value in given.items():
        if annotations.setdefault(key, value) != value:
            yield (ANNOTATIONS, key)

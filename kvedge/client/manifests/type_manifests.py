"""The manifests of `create instancetype` and `create preference`, and what a VM's manifest says of both.

Pure: options in, a document out. What is made is what virtctl makes of the same flags.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from kvedge.client.manifests.volume_params import flag_error, parse_params
from kvedge.resources.codec import JsonObject
from kvedge.resources.instancetypes.cpu_topology import DEPRECATED, TOPOLOGIES
from kvedge.resources.instancetypes.matchers import IGNORE, INSTANCETYPE, PREFERENCE, Part

_POLICIES: Final = ("auto", "shared")


class TypeChoice(Struct, frozen=True):
    """How a VM comes to one of the two: by its name, or from a volume; `infer` is None where nobody has said it."""

    name: str = ""
    infer: bool | None = None
    infer_from: str = ""

    @property
    def is_asked_for(self) -> bool:
        """Whether it must come from a volume, and not only may."""
        return self.infer is not None or bool(self.infer_from)


def matcher_of(part: Part, choice: TypeChoice, volumes: Sequence[JsonObject], first: str) -> JsonObject | None:
    """The matcher of a VM with these volumes, of which guests boot from `first`; None for none.

    Raises:
        UsageError: when a volume that is asked for is not there, or can say nothing.
    """
    if choice.name:
        return _by_name(part, choice.name)
    if choice.infer is False and not choice.infer_from:
        return None
    name = choice.infer_from or first
    flag = f"infer-{part.member}{'-from' if choice.infer_from else ''}"
    fault = _find_fault(name, volumes)
    if fault and choice.is_asked_for:
        raise flag_error(flag, fault)
    if fault:
        return None
    return {"inferFromVolume": name, **({} if choice.is_asked_for else {"inferFromVolumeFailurePolicy": IGNORE})}


def _find_fault(name: str, volumes: Sequence[JsonObject]) -> str:
    if not name:
        return "at least one volume is needed to infer an instance type or preference"
    volume = next((each for each in volumes if each["name"] == name), None)
    if volume is None:
        return f'there is no volume with name "{name}"'
    if not {"persistentVolumeClaim", "dataVolume"} & set(volume):
        return "inference of instancetype or preference works only with datasources, datavolumes or pvcs"
    return ""


def _by_name(part: Part, text: str) -> JsonObject:
    prefix, slash, name = text.rpartition("/")
    kind = prefix.lower()
    known = (part.in_namespace.kind.lower(), part.in_cluster.kind.lower())
    if "/" in prefix or not name:
        raise flag_error(part.member, "it is a name, or a kind, a slash and a name")
    if slash and kind not in known:
        raise flag_error(part.member, f'invalid {part.member} kind "{kind}", supported values are: {", ".join(known)}')
    return {"name": name, **({"kind": kind} if slash else {})}


class InstancetypeOptions(Struct, frozen=True):
    """The flags of `create instancetype`."""

    name: str
    cpu: int
    memory: str
    is_namespaced: bool = False
    gpus: Sequence[str] = ()
    host_devices: Sequence[str] = ()
    io_threads_policy: str = ""


class PreferenceOptions(Struct, frozen=True):
    """The flags of `create preference`."""

    name: str
    is_namespaced: bool = False
    storage_class: str = ""
    machine: str = ""
    topology: str = ""


def instancetype_manifest(options: InstancetypeOptions) -> JsonObject:
    """The instance type that virtctl makes of these flags. Raises UsageError."""
    spec: JsonObject = {"cpu": {"guest": options.cpu}, "memory": {"guest": options.memory}}
    for flag, member, texts in (("gpu", "gpus", options.gpus), ("hostdevice", "hostDevices", options.host_devices)):
        if texts:
            spec[member] = [_device(flag, text) for text in texts]
    if options.io_threads_policy:
        if options.io_threads_policy not in _POLICIES:
            raise flag_error("iothreadspolicy", "IOThread must be of value auto or shared")
        spec["ioThreadsPolicy"] = options.io_threads_policy
    return _document(INSTANCETYPE, options.name, options.is_namespaced, spec)


def preference_manifest(options: PreferenceOptions) -> JsonObject:
    """The preference that virtctl makes of these flags. Raises UsageError."""
    spec: JsonObject = {}
    if options.storage_class:
        spec["volumes"] = {"preferredStorageClassName": options.storage_class}
    if options.machine:
        spec["machine"] = {"preferredMachineType": options.machine}
    if options.topology:
        if options.topology not in (*TOPOLOGIES, *DEPRECATED):
            raise flag_error("cpu-topology", "CPU topology must have a value of sockets, cores, threads or spread")
        spec["cpu"] = {"preferredCPUTopology": options.topology}
    return _document(PREFERENCE, options.name, options.is_namespaced, spec)


def _device(flag: str, text: str) -> JsonObject:
    found = parse_params(flag, text, ("name", "devicename"))
    for name in ("name", "devicename"):
        if not found.get(name):
            raise flag_error(flag, f"{name} must be specified")
    return {"name": found["name"], "deviceName": found["devicename"]}


def _document(part: Part, name: str, is_namespaced: bool, spec: JsonObject) -> JsonObject:
    kind = part.in_namespace if is_namespaced else part.in_cluster
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": name}, "spec": spec}

"""Rules for GPUs and other devices of nodes, worded as KubeVirt words them.

Called by admission_plan.py; touches nothing. Whether a node has such a device is the scheduler's to find out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from kvedge.api.admission.rules.causes import Cause, Field, duplicate, required_cause
from kvedge.api.admission.rules.subject import Rule, Subject
from kvedge.resources.configuration.feature_gates import HOST_DEVICES_GATE
from kvedge.resources.host_devices.permitted_devices import find_not_permitted
from kvedge.resources.types.devices import Gpu, HostDevice
from kvedge.resources.types.sriov_networks import is_resource

# libvirt takes these in the alias by which a device is found in a running domain.
_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,100}")


def devices_are_named(subject: Subject) -> Iterator[Cause]:
    """A name of its own, and the resource of a device plugin."""
    devices = subject.spec.domain.devices
    lists: list[tuple[str, Sequence[Gpu | HostDevice]]] = [
        ("gpus", devices.gpus),
        ("hostDevices", devices.host_devices),
    ]
    for field, named in lists:
        seen: set[str] = set()
        for index, device in enumerate(named):
            yield from _name_causes(device, subject.devices_at.at(field).item(index), seen)


def _name_causes(device: Gpu | HostDevice, at: Field, seen: set[str]) -> Iterator[Cause]:
    here = at.at("name")
    if _NAME.fullmatch(device.name) is None:
        allowed = "1 to 100 letters, digits, dashes (-) or underscores (_)"
        yield Cause(here, f"{here} '{device.name[:100]}' can only contain {allowed}")
    if device.name in seen:
        yield duplicate(here, f"{here} '{device.name}' is used by another device of this list")
    seen.add(device.name)
    here = at.at("deviceName")
    if device.is_claimed:
        return
    if not device.device_name:
        text = f"{here} is required: name a resource of permittedHostDevices, or a request of a claim in claimName"
        yield required_cause(here, f"{text} and requestName")
    elif not is_resource(device.device_name):
        shown = device.device_name[:80]
        yield Cause(here, f"{here}: {shown!r} is no name of a resource; give one such as example.com/gpu")


def host_devices_are_switched_on(subject: Subject) -> Iterator[Cause]:
    """KubeVirt guards them by a gate, and GPUs no more."""
    devices = subject.spec.domain.devices
    if devices.host_devices and not subject.cluster.configuration.gates.is_on(HOST_DEVICES_GATE):
        yield Cause(subject.devices_at.at("hostDevices"), "Host Devices feature gate is not enabled in kubevirt-config")


def devices_are_permitted(subject: Subject) -> Iterator[Cause]:
    """Where the KubeVirt object permits devices, only these."""
    permitted = subject.cluster.configuration.permitted_devices
    for field, index, message in find_not_permitted(subject.spec.domain.devices, permitted):
        yield Cause(subject.devices_at.at(field).item(index).at("deviceName"), message)


def displays_are_possible(subject: Subject) -> Iterator[Cause]:
    """One frame buffer for the firmware at most, and a screen to show a GPU's display on."""
    devices, at = subject.spec.domain.devices, subject.devices_at.at("gpus")
    shown = [(index, gpu.display) for index, gpu in enumerate(devices.gpus) if gpu.display is not None]
    if sum(display.has_ramfb for _, display in shown) > 1:
        yield Cause(at, "configuring multiple displays with ramfb is not valid ")
    permitted = subject.cluster.configuration.permitted_devices
    whole = {permit.resource for permit in permitted.pci} if permitted is not None else set()
    for index, display in shown:
        if display.enabled and devices.gpus[index].device_name in whole:
            here = at.item(index).at("virtualGPUOptions", "display", "enabled")
            yield Cause(here, f"{here}: only virtual GPUs are shown on the guest's screen; remove it")
        elif display.enabled and devices.autoattach_graphics_device is False:
            here = at.item(index).at("virtualGPUOptions", "display", "enabled")
            yield Cause(here, f"{here}: there is no screen; remove it, or autoattachGraphicsDevice: false")


RULES: Final[tuple[Rule, ...]] = (
    devices_are_named,
    host_devices_are_switched_on,
    devices_are_permitted,
    displays_are_possible,
)

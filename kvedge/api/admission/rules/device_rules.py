"""Rules for the small devices and IO threads, worded as KubeVirt words them.

Called by admission_plan.py; touches nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from kvedge.api.admission.rules.causes import Cause, duplicate, required_cause, unsupported_cause
from kvedge.api.admission.rules.dns_names import dns_label_complaints
from kvedge.api.admission.rules.subject import Rule, Subject
from kvedge.resources.configuration.feature_gates import VSOCK_GATE
from kvedge.resources.disks.metrics_disk import GATE
from kvedge.resources.names import GRAPHICS, GRAPHICS_SPICE, GRAPHICS_VALUES

_NAME: Final = re.compile(r"[A-Za-z0-9_-]+")
_ACTIONS: Final = ("", "poweroff", "reset", "shutdown")
_SOUNDS: Final = ("", "ich9", "ac97")
_VIDEOS: Final = ("", "vga", "bochs", "virtio", "cirrus", "ramfb")
_ARM64_VIDEOS: Final = ("", "virtio", "ramfb")
# An unknown word is repeated so far.
_LONGEST_WORD: Final = 64
_PANIC_MODELS: Final = ("", "isa", "hyperv", "pvpanic")


def inputs_are_possible(subject: Subject) -> Iterator[Cause]:
    """Tablets on virtio or USB."""
    seen: set[str] = set()
    for index, device in enumerate(subject.spec.domain.devices.inputs):
        at = subject.devices_at.at("inputs").item(index)
        if device.bus not in ("", "virtio", "usb"):
            yield unsupported_cause(at.at("bus"), "Input device can have only virtio or usb bus.")
        if device.type not in ("", "tablet"):
            yield unsupported_cause(at.at("type"), "Input device can have only tablet type.")
        if device.name in seen:
            yield duplicate(at.at("name"), f"{at.at('name')} '{device.name}' is used by another input device")
        seen.add(device.name)


def watchdog_is_possible(subject: Subject) -> Iterator[Cause]:
    """One model, the one that the architecture has."""
    watchdog, at = subject.spec.domain.devices.watchdog, subject.devices_at.at("watchdog")
    if watchdog is None:
        return
    if subject.architecture == "arm64":
        yield unsupported_cause(at, f"{at}: there is no watchdog on arm64")
        return
    if watchdog.diag288 is not None:
        yield unsupported_cause(at.at("diag288"), f"{at.at('diag288')}: {subject.architecture} has i6300esb instead")
    action = watchdog.i6300esb.action if watchdog.i6300esb is not None else ""
    if action not in _ACTIONS:
        here = at.at("i6300esb", "action")
        yield unsupported_cause(here, f"{here} has invalid value {action} (allowed values: [poweroff reset shutdown])")


def graphics_are_possible(subject: Subject) -> Iterator[Cause]:
    """The one choice that no field of KubeVirt's has: by what viewers reach the screen."""
    text = subject.metadata.annotations.get(GRAPHICS)
    if text is None:
        return
    at = subject.metadata_at.at("annotations").key(GRAPHICS)
    if text not in GRAPHICS_VALUES:
        words = " or ".join(GRAPHICS_VALUES)
        yield unsupported_cause(at, f"{at}: {text[:_LONGEST_WORD]!r} is not supported; use {words}")
    elif text == GRAPHICS_SPICE and subject.spec.domain.devices.autoattach_graphics_device is False:
        screen = subject.devices_at.at("autoattachGraphicsDevice")
        yield unsupported_cause(at, f"{at}: there is no screen to show; remove it, or {screen}: false")


def sound_is_possible(subject: Subject) -> Iterator[Cause]:
    """A name, and a model that QEMU has."""
    sound, at = subject.spec.domain.devices.sound, subject.devices_at.at("sound")
    if sound is None:
        return
    if subject.architecture == "arm64":
        yield unsupported_cause(at, f"{at}: Arm64 not support sound device")
        return
    if not sound.name:
        yield required_cause(at.at("name"), "Sound device requires a name field.")
    if sound.model not in _SOUNDS:
        yield unsupported_cause(at.at("model"), "Sound device type is not supported. Options: 'ich9' or 'ac97'")


def video_is_possible(subject: Subject) -> Iterator[Cause]:
    """Only where there is a display."""
    devices, at = subject.spec.domain.devices, subject.devices_at.at("video")
    if devices.video is None:
        return
    if devices.autoattach_graphics_device is False:
        text = "Video configuration is not allowed when autoattachGraphicsDevice is set to false"
        yield Cause(at, text)
    if devices.video.type not in _VIDEOS:
        allowed = " ".join(filter(None, _VIDEOS))
        yield unsupported_cause(
            at.at("type"), f"{at.at('type')} is not supported: {devices.video.type} (allowed values: [{allowed}])"
        )
    elif subject.architecture == "arm64" and devices.video.type not in _ARM64_VIDEOS:
        here = at.at("type")
        text = f"video model '{devices.video.type}' is not supported on arm64 architecture"
        yield unsupported_cause(here, f"{here}: {text}; use virtio or ramfb")


def panic_devices_are_possible(subject: Subject) -> Iterator[Cause]:
    """Models that the architecture has."""
    for index, device in enumerate(subject.spec.domain.devices.panic_devices):
        at = subject.devices_at.at("panicDevices").item(index).at("model")
        model = device.model
        if model not in _PANIC_MODELS:
            yield unsupported_cause(at, f"{at} is not supported: {model} (allowed values: [isa hyperv pvpanic])")
        elif subject.architecture == "arm64" and model not in ("", "pvpanic"):
            yield unsupported_cause(at, f"{at} is not supported: {model} (allowed values on arm64: [pvpanic])")


def metrics_port_is_allowed(subject: Subject) -> Iterator[Cause]:
    """The gate is on."""
    if subject.spec.domain.devices.downward_metrics is None or subject.cluster.configuration.gates.is_on(GATE):
        return
    text = f"downwardMetrics virtio serial is not allowed: {GATE} feature gate is not enabled"
    yield Cause(subject.devices_at.at("downwardMetrics"), text)


def vsock_is_allowed(subject: Subject) -> Iterator[Cause]:
    """The gate is on."""
    if not subject.spec.domain.devices.autoattach_vsock or subject.cluster.configuration.gates.is_on(VSOCK_GATE):
        return
    yield Cause(subject.devices_at.at("autoattachVSOCK"), "VSOCK feature gate is not enabled in kubevirt-config")


def names_are_plain(subject: Subject) -> Iterator[Cause]:
    """A device is found by its name in a running domain: libvirt takes letters, digits, - and _ there."""
    devices, at = subject.spec.domain.devices, subject.devices_at
    volumes = {volume.name for volume in subject.spec.volumes}
    for index, disk in enumerate(devices.disks):
        # Names of volumes are judged as such; an empty drive has none.
        for complaint in dns_label_complaints(disk.name) if disk.name not in volumes else ():
            yield Cause(at.at("disks").item(index).at("name"), complaint)
    named = [(at.at("inputs").item(i), device.name) for i, device in enumerate(devices.inputs)]
    named += [(at.at("watchdog"), devices.watchdog.name)] if devices.watchdog is not None else []
    named += [(at.at("sound"), devices.sound.name)] if devices.sound is not None and devices.sound.name else []
    for here, name in named:
        if not _NAME.fullmatch(name):
            allowed = "alphabetical characters, numbers, dashes (-) or underscores (_)"
            yield Cause(here.at("name"), f"{here.at('name')} '{name}' can only contain {allowed}")


def io_threads_are_counted(subject: Subject) -> Iterator[Cause]:
    """A pool has a size, and a size has a pool."""
    domain, at = subject.spec.domain, subject.domain_at
    count = domain.io_threads.supplemental_pool_thread_count if domain.io_threads is not None else None
    if domain.io_threads_policy == "supplementalPool" and (count is None or count < 1):
        text = "the number of iothreads needs to be set and positive for the dedicated policy"
        yield Cause(at.at("ioThreads", "supplementalPoolThreadCount"), text)
    if count is not None and domain.io_threads_policy != "supplementalPool":
        here = at.at("ioThreads", "supplementalPoolThreadCount")
        yield Cause(here, f"{here} needs {at.at('ioThreadsPolicy')} supplementalPool")


RULES: Final[tuple[Rule, ...]] = (
    inputs_are_possible,
    vsock_is_allowed,
    watchdog_is_possible,
    graphics_are_possible,
    sound_is_possible,
    video_is_possible,
    panic_devices_are_possible,
    metrics_port_is_allowed,
    names_are_plain,
    io_threads_are_counted,
)
